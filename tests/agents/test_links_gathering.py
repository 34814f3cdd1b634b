from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import zmq

from pzc import Agent
from pzc.agents.notifications.broadcast import BEHIND, GATHERED
from pzc.agents.notifications.links import gathering
from pzc.agents.notifications.links.gathering import LOOK, SHARE, FlushTimer, Sender
from pzc.agents.notifications.links.link_subscriber import LENT, LinkSubscriber
from pzc.protocol.link_messages import Interests
from pzc.transport.loop import Loop

from tests.agents.inside import subscribers
from tests.agents.links_reader import UnixReader, wish
from tests.agents.sendings import busy_loop
from tests.contract.rigs.peers import TIMEOUT


class Failing:
    def flush(self) -> None:
        raise RuntimeError("for no reason")


class Flushed:
    def __init__(self) -> None:
        self.done = threading.Event()

    def flush(self) -> None:
        self.done.set()


@pytest.mark.parametrize("how", [FlushTimer.add, FlushTimer.flush_soon])
def test_a_sender_that_fails_keeps_no_other_one_waiting(how: Callable[[FlushTimer, Sender], None]) -> None:
    loop = Loop("pzc-test")
    try:
        timer = FlushTimer(loop, lambda: 0.001)
        for _ in range(2):
            others = [Flushed() for _ in range(8)]
            for each in (*others[:4], Failing(), *others[4:]):
                loop.run(partial(how, timer, each))
            assert all(each.done.wait(TIMEOUT) for each in others)
    finally:
        loop.end()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is published belongs to a burst, and neither a timer nor a sign of life ends one."""
    monkeypatch.setattr(LinkSubscriber, "beat", lambda *_: None)
    monkeypatch.setattr(gathering, "_BURST_PAUSE", TIMEOUT)
    monkeypatch.setattr(gathering, "_BURST_PUBLICATIONS", 0)
    monkeypatch.setattr("pzc.agents.notifications.links.subscribers._BURST_GATHERING", 10 * TIMEOUT)


def opened(agent: Agent, reader: UnixReader) -> LinkSubscriber:
    """A reader's link, after the thread that opens it has sent all that it had to."""
    subscriber = subscribers(agent).links[reader.link]
    assert isinstance(subscriber, LinkSubscriber)
    reader.request(Interests("", 1, []))
    return subscriber


@pytest.mark.usefixtures("endless")
def test_what_lies_in_blocks_waits_for_some_of_its_burst_and_not_for_all() -> None:
    array = np.zeros(LENT // 4, np.uint8)
    with Agent() as agent, UnixReader(agent, wish("t")) as reader:
        subscriber = opened(agent, reader)
        for _ in range(4):
            agent.publish("t", array)
        assert reader.numbers(4) == [1, 2, 3, 4]
        assert subscriber.queue.lent == 0
        agent.publish("t", array)
        assert subscriber.waiting == 1
        assert subscriber.queue.lent > LENT // 4


@pytest.mark.usefixtures("endless")
def test_half_of_a_window_goes_while_the_other_half_is_being_published() -> None:
    with Agent() as agent, UnixReader(agent, wish("t", bound=8)) as reader:
        subscriber = opened(agent, reader)
        for number in range(5):
            agent.publish("t", number)
        assert reader.numbers(4) == [1, 2, 3, 4]
        assert subscriber.waiting == 1


@contextmanager
def listener(agent: Agent) -> Iterator[zmq.Socket[bytes]]:
    """A bare SUB socket that hears all that an agent broadcasts, first of all that it is there."""
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    try:
        socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT * 1000))
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(agent.pub_endpoint)
        socket.setsockopt(zmq.SUBSCRIBE, f"PZC01+{agent.agent_id}+t".encode())
        assert agent.wait_for_subscribers("t", 2, TIMEOUT)
        yield socket
    finally:
        socket.close(0)
        context.term()


@contextmanager
def mixed(bound: int = 1000) -> Iterator[tuple[Agent, UnixReader, zmq.Socket[bytes]]]:
    """An agent that nobody makes wait, with a link and a listener."""
    with Agent() as agent:
        agent.advertise("t", buffers=bound)
        with UnixReader(agent, wish("t", bound=bound)) as reader, listener(agent) as socket:
            yield agent, reader, socket


def heard(socket: zmq.Socket[bytes], count: int) -> list[int]:
    return [int(socket.recv_multipart()[0].split(b"+")[3]) for _ in range(count)]


@pytest.mark.usefixtures("endless")
def test_the_io_thread_sends_a_burst_that_is_broadcast_and_goes_to_a_link_as_well() -> None:
    with mixed(bound=2 * GATHERED) as (agent, reader, socket):
        with busy_loop():
            for number in range(GATHERED + LOOK):
                agent.publish("t", number)
            assert not socket.poll(0)
        assert heard(socket, GATHERED) == reader.numbers(GATHERED) == list(range(1, GATHERED + 1))


@pytest.mark.usefixtures("endless")
def test_whoever_publishes_broadcasts_what_the_io_thread_does_not_come_to() -> None:
    count = BEHIND + 4 * LOOK
    with mixed() as (agent, _, socket):
        with busy_loop() as over:
            for number in range(count):
                agent.publish("t", number)
            assert heard(socket, count - BEHIND) == list(range(1, count - BEHIND + 1))
            assert not over.is_set()
        assert heard(socket, BEHIND)[-1] == count


@pytest.mark.usefixtures("endless")
def test_whoever_leaves_a_burst_to_the_io_thread_gives_way_to_it() -> None:
    pauses: list[float] = []
    with mixed() as (agent, _, _):
        subscribers(agent).pause = pauses.append
        for number in range(2 * SHARE):
            agent.publish("t", number)
    assert len(pauses) == 2
