"""Mailboxes: what was lost without a word when a publisher or a mailbox ended at a bad moment."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from pzc import Agent, Policy, Subscription, mailbox
from pzc.testing import Timings

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT, Inbox, in_place_of
from tests.contract.rigs.relay import Frames, Relay, always, never

KEEP = 0.3
HUNDRED = list(range(100))


def confirms(frames: Frames) -> bool:
    """Whether an answer says that commands of a link were applied."""
    return b"link" in frames and any(frame[:2] == b"\x95\4" for frame in frames)


class Rig:
    """A publisher behind a relay, a reader, and a subscription that the publisher knows and never confirms."""

    def __init__(self) -> None:
        self.publisher, self.reader = Agent(discovery=False), Agent(discovery=False)
        self.relay = Relay(self.publisher.rep_endpoint)
        self.inbox = Inbox()
        self._pool = ThreadPoolExecutor(1)

    def begin(self, policy: Policy) -> Future[Subscription]:
        """Subscribe to ``t``, in another thread."""
        return self._pool.submit(self.subscribe, "t", self.inbox, policy)

    def subscribe(self, topic: str, inbox: Inbox, policy: Policy) -> Subscription:
        return self.reader.subscribe(self.relay.endpoint, topic, inbox, policy=policy)

    def publish(self, contents: list[int]) -> None:
        for content in contents:
            self.publisher.publish("t", content)

    def restart(self) -> None:
        """Another publisher takes the place of the first one."""
        endpoint = self.publisher.rep_endpoint
        self.publisher.stop()
        self.relay.loses_answer = never
        self.publisher = in_place_of(self.publisher, Agent, endpoint, discovery=False)

    def forget(self) -> None:
        """Keep the reader away from its publisher until that has removed the mailbox."""
        self.relay.loses_request = always
        wait_until(lambda: not self.publisher.statistics()["mailboxes"])

    def close(self) -> None:
        self.reader.stop()
        self._pool.shutdown()
        self.relay.close()
        self.publisher.stop()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Timings(mail_hold=0.2, mail_patience=0.3, mail_grace=0.1):
        made = Rig()
        yield made
        made.close()


def test_a_restart_before_the_confirmation_is_a_gap_and_the_new_messages_come(rig: Rig) -> None:
    other = Inbox()
    rig.subscribe("other", other, mailbox())
    rig.relay.loses_answer = confirms
    begun = rig.begin(mailbox())
    assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
    rig.publish([-1] * 100)
    rig.publisher.publish("other", "those before it came")
    other.next()
    rig.restart()
    assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
    subscription = begun.result(TIMEOUT)
    rig.publish(HUNDRED)
    assert rig.inbox.contents(100) == HUNDRED
    assert [(gap.restarted, gap.epoch) for gap in subscription.gaps] == [(True, rig.publisher.epoch)]


def test_what_came_for_a_name_before_the_confirmation_is_delivered_before_the_gap(rig: Rig) -> None:
    other = Inbox()
    rig.subscribe("other", other, mailbox(name="archive"))
    rig.relay.loses_answer = confirms
    begun = rig.begin(mailbox(name="archive"))
    assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
    rig.publish([-1] * 3)
    rig.publisher.publish("other", "those before it came")
    other.next()
    rig.restart()
    assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
    subscription = begun.result(TIMEOUT)
    rig.publish(HUNDRED)
    assert rig.inbox.contents(103) == [-1, -1, -1, *HUNDRED]
    assert [gap.restarted for gap in subscription.gaps] == [True]


def test_a_mailbox_that_was_forgotten_and_whose_publisher_restarts_before_it_is_confirmed_tells_the_gap(
    rig: Rig,
) -> None:
    subscription = rig.begin(mailbox(keep=KEEP)).result(TIMEOUT)
    rig.publish([1])
    assert rig.inbox.next().content == 1
    rig.forget()
    rig.publish([-1] * 5)
    rig.relay.lost.clear()
    rig.relay.loses_answer, rig.relay.loses_request = confirms, never
    assert rig.relay.lost.wait(TIMEOUT)
    rig.restart()
    assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
    wait_until(lambda: bool(subscription.gaps))
    rig.publish(HUNDRED)
    assert rig.inbox.contents(100) == HUNDRED
    assert [gap.restarted for gap in subscription.gaps] == [True]


@pytest.mark.parametrize("topic", ["t", "*"])
@pytest.mark.parametrize("name", ["archive", None])
def test_a_mailbox_that_was_forgotten_before_its_first_message_tells_the_gap(
    rig: Rig, name: str | None, topic: str
) -> None:
    subscription = rig.subscribe(topic, rig.inbox, mailbox(name=name, keep=KEEP))
    rig.forget()
    rig.publish([-1] * 100)
    rig.relay.loses_request = never
    wait_until(lambda: bool(subscription.gaps))
    rig.publish(HUNDRED)
    assert rig.inbox.contents(100) == HUNDRED
    assert [(gap.first, gap.last) for gap in subscription.gaps] == [(1, 100)]


def test_what_came_before_the_confirmation_of_a_mailbox_that_was_forgotten_is_a_gap(rig: Rig) -> None:
    other = Inbox()
    rig.subscribe("other", other, mailbox(keep=KEEP))
    rig.relay.loses_answer = confirms
    begun = rig.begin(mailbox(keep=KEEP))
    assert rig.publisher.wait_for_subscribers("t", 1, TIMEOUT)
    rig.publish([-1] * 5)
    rig.publisher.publish("other", "those before it came")
    other.next()
    rig.forget()
    rig.relay.loses_answer = rig.relay.loses_request = never
    subscription = begun.result(TIMEOUT)
    rig.publish(HUNDRED)
    assert rig.inbox.contents(100) == HUNDRED
    assert [(gap.first, gap.last) for gap in subscription.gaps] == [(1, 5)]
