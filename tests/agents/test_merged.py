from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Agent, AgentClosed, Notification, SubscriptionClosed, drop
from pzc.agents.notifications.merged import Make, Merged
from pzc.agents.notifications.subscribing import OnClose
from pzc.agents.notifications.subscription import Subscription
from pzc.delivery.cursor import Gap
from pzc.transport.executor import Executor

from tests.agents.subscriptions import deliver


class Sources:
    """Makes members as an agent would, and plays their publishers."""

    def __init__(self) -> None:
        self.members: dict[str, Subscription] = {}
        self.closed: list[str] = []
        self.executor = Executor("pzc-test")
        self.gathering = Merged(
            "cam*", "image", None, drop(3), None, self.executor, lambda _: None, join=self.join
        )

    def join(self, source: str, make: Make) -> Subscription:
        def on_close(_: Subscription) -> None:
            self.closed.append(source)

        member = make(source, "image", None, drop(3), None, self.executor, on_close)
        self.members[source] = member
        return member

    def publish(self, source: str, number: int) -> None:
        deliver(
            self.members[source],
            Notification(source, source, "image", "", number, 1, 0.0, 0.0, f"{source} {number}"),
        )


@pytest.fixture
def sources() -> Iterator[Sources]:
    made = Sources()
    yield made
    made.gathering.close()
    made.executor.close()


def test_losses_of_all_sources_are_counted_together(sources: Sources) -> None:
    gaps: list[Gap] = []
    sources.gathering.on_gap = gaps.append
    sources.gathering.add("a")
    sources.gathering.add("b")
    sources.members["a"].report_gap(Gap(1, 2, 4))
    sources.members["b"].report_gap(Gap(1, 7, 7))
    assert sources.gathering.dropped == 4
    assert sources.gathering.gaps == [Gap(1, 2, 4), Gap(1, 7, 7)]


def test_a_source_is_added_once(sources: Sources) -> None:
    sources.gathering.add("a")
    first = sources.members["a"]
    sources.gathering.add("a")
    assert sources.members["a"] is first
    assert sources.gathering.sources == ["a"]


def test_what_has_come_from_a_removed_source_stays_and_nothing_comes_after_it(sources: Sources) -> None:
    sources.gathering.add("a")
    sources.publish("a", 1)
    sources.gathering.remove("a")
    sources.gathering.remove("never there")
    assert sources.closed == ["a"]
    assert sources.gathering.recv(0).content == "a 1"


def test_closing_closes_every_source(sources: Sources) -> None:
    sources.gathering.add("a")
    sources.gathering.add("b")
    sources.gathering.close()
    assert sorted(sources.closed) == ["a", "b"]
    assert sources.gathering.sources == []


def test_nothing_is_added_after_the_end(sources: Sources) -> None:
    sources.gathering.close()
    with pytest.raises(SubscriptionClosed):
        sources.gathering.add("a")
    assert sources.closed == ["a"]


def test_a_source_whose_key_is_not_wanted_does_not_count() -> None:
    made = Sources()
    made.gathering.close()
    made.gathering = Merged(
        "cam*", "image", None, drop(3), "left", made.executor, lambda _: None, join=made.join
    )
    made.gathering.add("a")
    made.publish("a", 1)
    assert (made.gathering.pending, made.gathering.dropped) == (0, 0)
    made.gathering.close()
    made.executor.close()


class Nobody:
    """Watches names that nobody has."""

    def begin(self, sources: object, timeout: float) -> None:
        """Nobody comes."""

    def close(self) -> None:
        """Nothing was begun."""


def test_a_pattern_that_is_subscribed_to_while_its_agent_stops_is_closed() -> None:
    made = list[Merged]()
    with Agent(discovery=False) as agent:
        subscribing = agent._subscribing

        def make(on_close: OnClose) -> Merged:
            subscribing.close()  # at this moment
            merged = Merged("cam*", "image", None, drop(3), None, agent._callbacks, on_close, join=_nobody)
            made.append(merged)
            return merged

        with pytest.raises(AgentClosed):
            subscribing.follow(Nobody(), make, 0.0)
    assert [each.closed for each in made] == [True]


def _nobody(source: str, make: Make) -> Subscription:
    raise AssertionError(f"{source} is nobody")
