from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

import pytest
import zmq

from pzc import Agent, AgentClosed, ConfigError, LocalProtocolError, Protocol, SerializeError, mailbox

from tests.contract.rigs import listening
from tests.contract.rigs.listening import listen
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox, run_threads

publisher, reader, context = listening.publisher, listening.reader, listening.context


def test_sequence_numbers_begin_at_one_and_are_counted_per_topic(publisher: Agent) -> None:
    assert [publisher.publish(topic, 0) for topic in ("a", "a", "b", "a")] == [1, 2, 1, 3]
    about = publisher.statistics()["topics"]["a"]
    assert (about["published"], about["subscribers"]) == (3, 0)


@pytest.mark.parametrize("topic", ["", "*", "__placed__", "__lasts__"])
def test_an_empty_or_reserved_topic_is_refused(publisher: Agent, topic: str) -> None:
    with pytest.raises(LocalProtocolError, match="nothing can be published"):
        publisher.publish(topic, 0)


def test_what_nobody_listens_to_is_numbered_and_not_encoded(publisher: Agent) -> None:
    assert publisher.publish("t", threading.Lock()) == 1


def test_content_that_cannot_be_serialised_burns_no_number(publisher: Agent, reader: Agent) -> None:
    subscription = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
    assert publisher.publish("t", "before") == 1
    with pytest.raises(SerializeError):
        publisher.publish("t", threading.Lock())
    assert publisher.publish("t", "after") == 2
    assert [subscription.recv(TIMEOUT).content for _ in range(2)] == ["before", "after"]
    assert (subscription.gaps, subscription.dropped) == ([], 0)


def test_a_topic_that_cannot_be_written_burns_no_number(publisher: Agent, reader: Agent) -> None:
    reader.subscribe(publisher.rep_endpoint, "*")
    for topic in ("\ud800", "x" * 3_000):
        with pytest.raises(LocalProtocolError):
            publisher.publish(topic, 0)
        assert publisher.statistics()["topics"] == {}


@pytest.mark.parametrize("transport", [None, "tcp"])
def test_half_a_character_in_a_topic_is_refused_before_it_has_a_number(transport: str | None) -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        _kept = reader.subscribe(publisher.rep_endpoint, "*", transport=transport)
        with pytest.raises(LocalProtocolError, match="UTF-8"):
            publisher.publish("volt\ud800", 0)
        assert publisher.statistics()["topics"] == {}


HALF: dict[str, Callable[[Agent], object]] = {
    "subscribe": lambda agent: agent.subscribe(agent.rep_endpoint, "\ud800"),
    "subscribe to names": lambda agent: agent.subscribe("psu*", "\ud800"),
    "advertise": lambda agent: agent.advertise("\ud800"),
    "advertised type": lambda agent: agent.advertise("t", type="\ud800"),
    "loan": lambda agent: agent.loan("\ud800", 3, float),
    "key": lambda agent: agent.publish("t", 0, key="\ud800"),
    "key subscribed to": lambda agent: agent.subscribe(agent.rep_endpoint, "t", key="\ud800"),
    "withdraw": lambda agent: agent.withdraw("\ud800"),
    "name": lambda agent: Agent(name="\ud800"),
    "mailbox": lambda agent: mailbox(name="\ud800"),
}


@pytest.mark.parametrize("use", HALF)
def test_half_a_character_is_refused_at_once(publisher: Agent, use: str) -> None:
    with pytest.raises((LocalProtocolError, ConfigError)):
        HALF[use](publisher)


def test_after_stop_nothing_is_published() -> None:
    publisher = Agent()
    publisher.stop()
    with pytest.raises(AgentClosed):
        publisher.publish("t", 0)


@pytest.mark.slow
def test_a_stop_in_the_middle_of_publishing_raises_agent_closed_in_every_thread(reader: Agent) -> None:
    for _ in range(10):
        publisher = Agent()
        reader.subscribe(publisher.rep_endpoint, "t")
        running = threading.Semaphore(0)

        def publish(publisher: Agent = publisher, running: threading.Semaphore = running) -> None:
            with pytest.raises(AgentClosed):  # noqa: PT012
                while True:
                    publisher.publish("t", 0)
                    running.release()

        def stop(publisher: Agent = publisher, running: threading.Semaphore = running) -> None:
            for _ in range(50):
                running.acquire(timeout=TIMEOUT)
            publisher.stop()

        run_threads(stop, *[publish] * 3)


def test_what_was_published_before_stop_arrives(reader: Agent) -> None:
    got = Inbox()
    with Agent() as publisher:
        reader.subscribe(publisher.rep_endpoint, "t", got)
        for number in range(500):
            publisher.publish("t", number)
    assert got.contents(500) == list(range(500))


def _hold(agent: Agent) -> threading.Event:
    """Keep the I/O thread busy until the event is set."""
    held, entered = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        held.wait(TIMEOUT)

    agent.loop.call(wait)
    assert entered.wait(TIMEOUT)
    return held


def test_what_is_published_goes_out_while_the_io_thread_is_busy(
    publisher: Agent, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    socket = listen(context, publisher, f"PZC01+{publisher.agent_id}+t")
    assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
    held = _hold(publisher)
    assert [publisher.publish("t", number) for number in range(5)] == [1, 2, 3, 4, 5]
    numbers = [socket.recv_multipart()[0].split(b"+")[3] for _ in range(5)]
    held.set()
    assert numbers == [b"1", b"2", b"3", b"4", b"5"]


def test_publishing_in_the_io_thread_keeps_the_order(publisher: Agent, reader: Agent) -> None:
    subscription = reader.subscribe(publisher.rep_endpoint, "t")
    publisher.loop.run(lambda: [publisher.publish("t", number) for number in range(50)])
    assert [subscription.recv(TIMEOUT).content for _ in range(50)] == list(range(50))


def test_eight_threads_share_one_sequence_in_order(publisher: Agent, reader: Agent) -> None:
    got = Inbox()
    subscription = reader.subscribe(publisher.rep_endpoint, "t", got)
    numbers: list[list[int]] = [[] for _ in range(8)]

    def publish(thread: int) -> None:
        numbers[thread].extend(publisher.publish("t", (thread, turn)) for turn in range(100))

    run_threads(*(partial(publish, thread) for thread in range(8)))
    notifications = got.take(800)
    assert [n.sequence for n in notifications] == list(range(1, 801))
    for thread in range(8):
        assert [n.sequence for n in notifications if n.content[0] == thread] == numbers[thread]
        assert [n.content[1] for n in notifications if n.content[0] == thread] == list(range(100))
    assert (subscription.received, subscription.dropped) == (800, 0)


class Chatty:
    """Publishes while it is being pickled, as a finalizer or a property with a signal would."""

    agent: Agent | None = None

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        if Chatty.agent is not None:
            agent, Chatty.agent = Chatty.agent, None
            agent.publish("t", "inner")
        return str, ("outer",)


def test_publishing_while_publishing_keeps_the_numbers_in_order() -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
        Chatty.agent = publisher
        assert publisher.publish("t", Chatty()) == 2
        got = [subscription.recv(TIMEOUT) for _ in range(2)]
    assert [(n.sequence, n.content) for n in got] == [(1, "inner"), (2, "outer")]


def test_publishing_from_a_callback_works(publisher: Agent, reader: Agent) -> None:
    got = Inbox()
    publisher.subscribe(reader.rep_endpoint, "question", lambda n: publisher.publish("answer", n.content + 1))
    reader.subscribe(publisher.rep_endpoint, "answer", got)
    for number in range(20):
        reader.publish("question", number)
    assert got.contents(20) == list(range(1, 21))


def test_an_agent_can_subscribe_to_itself(publisher: Agent) -> None:
    subscription = publisher.subscribe(publisher.rep_endpoint, "t")
    publisher.publish("t", "echo")
    assert subscription.recv(TIMEOUT).content == "echo"


def test_waiting_for_subscribers_in_vain_is_false(publisher: Agent) -> None:
    assert not publisher.wait_for_subscribers("t", timeout=0.01)


def test_waiting_for_subscribers_ends_when_the_agent_stops() -> None:
    publisher = Agent()
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
    run_threads(lambda: answers.put(publisher.wait_for_subscribers("t", timeout=TIMEOUT)), publisher.stop)
    assert answers.get(timeout=TIMEOUT) is False


def test_agents_are_counted_and_not_their_subscriptions(publisher: Agent, reader: Agent) -> None:
    for topic in ("t", "t", "*"):
        reader.subscribe(publisher.rep_endpoint, topic)
    assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
    assert not publisher.wait_for_subscribers("t", 2, 0.01)
    with Agent() as second:
        second.subscribe(publisher.rep_endpoint, "t")
        assert publisher.wait_for_subscribers("t", 2, TIMEOUT)


def test_a_subscription_to_val_is_none_to_a_topic_that_begins_alike(publisher: Agent, reader: Agent) -> None:
    reader.subscribe(publisher.rep_endpoint, "val")
    for topic in ("value", "val+x"):
        assert not publisher.wait_for_subscribers(topic, 1, 0.01)


def test_a_filter_that_comes_while_a_thread_publishes_is_not_forgotten(
    publisher: Agent, reader: Agent
) -> None:
    """Whatever `publish` decided before, what it numbers after the confirmation is sent."""
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            publisher.publish("t", 0)
            publisher.loop.run(bool)  # not so fast that something is dropped

    def come_and_go() -> None:
        try:
            for _ in range(100):
                with reader.subscribe(publisher.rep_endpoint, "t") as subscription:
                    first = subscription.recv(TIMEOUT).sequence
                    assert subscription.recv(TIMEOUT).sequence == first + 1
                    assert subscription.gaps == []
        finally:
            stop.set()

    run_threads(publish, come_and_go)


class Slow:
    """A content that is expressed when something else was done by another thread."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def __reduce__(self) -> tuple[type, tuple[()]]:
        other = threading.Thread(target=self._meanwhile)
        other.start()
        other.join(TIMEOUT)
        assert not other.is_alive()
        return list, ()


def test_nobody_waits_for_what_somebody_else_makes_ready_to_be_broadcast() -> None:
    inbox = Inbox()
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        for topic in ("t", "u"):
            reader.subscribe(publisher.rep_endpoint, topic, inbox, transport="tcp")
        publisher.publish("t", Slow(lambda: publisher.publish("u", 1)))
        assert inbox.contents(2) == [1, []]
