"""What is published for links, by several threads, over transports that come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from pzc import Agent, CallTimeout, SerializeError
from pzc.agents.notifications.links import transports
from pzc.agents.notifications.links.link_subscriber import LinkSubscriber
from pzc.agents.notifications.links.linking import Linking
from pzc.protocol.link_messages import Close, Notify

from tests.agents.inside import subscribers
from tests.agents.links_reader import PollReader, UnixReader, wish
from tests.contract.rigs.peers import TIMEOUT, Inbox, run_threads


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


def begin(agent: Agent, reader: UnixReader) -> LinkSubscriber:
    """Publish the first notification, wait until it was sent and nobody sends; its link."""
    agent.publish("t", 1)
    assert [got.content for got in reader.take(1)] == [1]
    subscriber = subscribers(agent).links[reader.link]
    assert isinstance(subscriber, LinkSubscriber)
    with subscriber.sending:
        return subscriber


def test_what_goes_to_one_socket_only_is_written_by_whoever_publishes(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        begin(agent, reader)
        assert agent.publish("t", 2) == 2
        assert [got.content for got in reader.take(1)] == [2]
        statistics = agent.statistics()
        assert statistics["links"]["links"][0]["sent"] == 2
        assert statistics["topics"]["t"]["published"] == 2


def test_what_another_thread_holds_up_goes_behind_what_that_one_sends(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        subscriber = begin(agent, reader)
        with subscriber.sending:
            assert agent.publish("t", 2) == 2
            assert subscriber.waiting == 1
        assert agent.publish("t", 3) == 3
        assert [got.content for got in reader.take(2)] == [2, 3]


def test_what_comes_while_one_is_written_is_sent_by_whoever_writes(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with UnixReader(agent, wish("t")) as reader:
        begin(agent, reader)
        send, nested = transports.UnixTransport.send, [3]

        def publish_meanwhile(way: transports.UnixTransport, *what: Any) -> bool:
            if nested:
                assert agent.publish("t", nested.pop()) == 3
            return send(way, *what)

        monkeypatch.setattr(transports.UnixTransport, "send", publish_meanwhile)
        assert agent.publish("t", 2) == 2
        assert [got.content for got in reader.take(2)] == [2, 3]


def test_what_did_not_go_over_a_way_that_breaks_goes_over_the_next(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = "ab" * 16
    with UnixReader(agent, wish("t"), me=me) as first:
        begin(agent, first)
        monkeypatch.setattr(transports.UnixTransport, "send", lambda *_: False)
        assert agent.publish("t", 2) == 2
        monkeypatch.undo()
        with UnixReader(agent, wish("t"), link=first.link, resume=1, me=me) as second:
            assert agent.publish("t", 3) == 3
            assert [(got.number, got.content) for got in second.take(2)] == [(2, 2), (3, 3)]


def test_a_reader_that_comes_gets_what_is_published_next(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as first:
        agent.publish("t", 1)
        assert agent.publish("t", 2) == 2
        with UnixReader(agent, wish("t")) as second:
            agent.publish("t", 3)
            assert [got.number for got in second.take(1)] == [3]
        assert [got.number for got in first.take(3)] == [1, 2, 3]


def test_who_subscribes_by_broadcast_is_told_while_another_thread_publishes(agent: Agent) -> None:
    agent.advertise("t", buffers=100_000)
    with UnixReader(agent, wish("t", bound=100_000)), Agent() as other:
        over = threading.Event()
        last: list[int] = []

        def publish() -> None:
            while not over.is_set() and (not last or last[-1] < 90_000):
                last[:] = [agent.publish("t", 0)]

        inbox = Inbox()
        thread = threading.Thread(target=publish)
        thread.start()
        try:
            subscription = other.subscribe(agent.rep_endpoint, "t", inbox)
            began = inbox.take(1)[0].sequence
        finally:
            over.set()
            thread.join(TIMEOUT)
        final = agent.publish("t", "the last")
        while inbox.take(1)[0].sequence < final:
            pass
        assert subscription.received + subscription.dropped == final - began + 1


def test_what_cannot_be_expressed_takes_no_number_and_no_place(agent: Agent) -> None:
    with UnixReader(agent, wish("t", bound=2)) as reader:
        agent.publish("t", 1)
        for _ in range(5):
            with pytest.raises(SerializeError):
                agent.publish("t", threading.Lock())
        assert agent.publish("t", 2) == 2
        assert [got.content for got in reader.take(2)] == [1, 2]


def test_threads_publish_in_one_order(agent: Agent) -> None:
    agent.advertise("t", buffers=1000)
    with UnixReader(agent, wish("t", bound=1000)) as reader:
        agent.publish("t", (0, -1))
        run_threads(*(lambda who=who: [agent.publish("t", (who, n)) for n in range(100)] for who in range(4)))
        found = reader.take(401)[1:]
    assert [got.number for got in found] == list(range(2, 402))
    for who in range(4):
        assert [n for by, n in (got.content for got in found) if by == who] == list(range(100))


def test_a_poll_that_waits_is_answered_when_its_link_ends(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()
    wait = transports.PollTransport.wait

    def waiting(self: transports.PollTransport, poll: Any, following: int) -> None:
        wait(self, poll, following)
        waits.set()

    monkeypatch.setattr(transports.PollTransport, "wait", waiting)
    monkeypatch.setattr(
        transports.PollTransport, "ready", property(lambda _: False)
    )  # else a sign of life answers it
    with PollReader(agent, wish("t")) as reader:
        answers: list[Any] = []
        poll: Callable[[], None] = lambda: answers.append(reader.request(reader.report(0, hold=1.0)))  # noqa: E731
        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        assert waits.wait(TIMEOUT)
        linking: Linking = agent._publishing.linking
        linking.hear(Close(reader.link), "", cast("Any", None))
        thread.join(TIMEOUT)
        assert answers == [Notify(1)]


def test_a_window_that_is_full_takes_no_place_of_other_readers(agent: Agent) -> None:
    narrow = wish("t", bound=2, timeout=0.01)
    with UnixReader(agent, wish("t", bound=10)) as first, UnixReader(agent, narrow) as second:
        assert [agent.publish("t", n) for n in range(2)] == [1, 2]
        for _ in range(20):
            with pytest.raises(CallTimeout):
                agent.publish("t", 3)
        links = cast("dict[str, LinkSubscriber]", subscribers(agent).links)
        assert [links[reader.link].claims("t")[0].held for reader in (first, second)] == [2, 2]
