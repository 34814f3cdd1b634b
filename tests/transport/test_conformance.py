"""What every transport of a call does, whatever it runs over."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

import pytest
import zmq

from pzc import AgentClosed, CallTimeout, PeerLost
from pzc.protocol.errors import LocalProtocolError
from pzc.protocol.frames import Buffer
from pzc.testing import memory_pair
from pzc.transport.dealer_socket import DealerSocket
from pzc.transport.link_stream import LinkStream
from pzc.transport.transport import Transport

from tests.contract.rigs.calling import TIMEOUT, until

NEVER = threading.Event()
SOCKET_BUFFER = 212_992
SIZES = [
    0,
    1,
    65_535,
    65_536,
    65_537,
    SOCKET_BUFFER - 500,
    SOCKET_BUFFER,
    SOCKET_BUFFER + 1,
    1 << 20,
    3 << 20,
]
KINDS = ["socketpair", "abstract socket", "tcp", "memory"]


def soon(seconds: float = TIMEOUT) -> float:
    return time.monotonic() + seconds


def message(content: Buffer = b"content", number: int = 0) -> list[Buffer]:
    return [b"PZC01+sender++0+", b"json", content, b"urn:%d" % number, bytes(25)]


class Far(Protocol):
    """The other side."""

    def receive(self) -> list[bytes]: ...

    def send(self, frames: Sequence[Buffer]) -> None: ...

    def close(self) -> None: ...


class FarTransport:
    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def receive(self) -> list[bytes]:
        return [bytes(frame) for frame in self.transport.receive(soon(), NEVER)]

    def send(self, frames: Sequence[Buffer]) -> None:
        self.transport.send(frames, soon())

    def close(self) -> None:
        self.transport.close()


class FarRouter:
    """A real ROUTER socket with one peer."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.bind("tcp://127.0.0.1:*")
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.peer = b""

    def receive(self) -> list[bytes]:
        assert self.socket.poll(int(TIMEOUT * 1000))
        self.peer, delimiter, *frames = self.socket.recv_multipart()
        assert delimiter == b""
        return frames

    def send(self, frames: Sequence[Buffer]) -> None:
        self.socket.send_multipart([self.peer, b"", *frames])

    def close(self) -> None:
        self.socket.close(1000)


Ends = tuple[Transport, Far]


def _socketpair(stack: ExitStack) -> Ends:
    near, far = map(LinkStream, socket.socketpair())
    return near, FarTransport(far)


def _abstract_socket(stack: ExitStack) -> Ends:
    name = f"\0pzc-test-{uuid.uuid4()}"
    near = socket.socket(socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        near.connect(name)
        far, _ = listener.accept()
    return LinkStream(near, "pzc-test"), FarTransport(LinkStream(far))


def _tcp(stack: ExitStack) -> Ends:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stack.callback(context.destroy, 0)
    far = FarRouter(context)
    return DealerSocket(context, far.endpoint), far


def _memory(stack: ExitStack) -> Ends:
    near, far = memory_pair()
    return near, FarTransport(far)


MAKERS: dict[str, Callable[[ExitStack], Ends]] = {
    "socketpair": _socketpair,
    "abstract socket": _abstract_socket,
    "tcp": _tcp,
    "memory": _memory,
}


@pytest.fixture(params=KINDS)
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    with ExitStack() as stack:
        near, far = MAKERS[request.param](stack)
        stack.callback(far.close)
        stack.callback(near.close)
        yield near, far


@contextmanager
def echoing(far: Far, count: int) -> Iterator[None]:
    """The other side answers so many messages, each with itself."""

    def echo() -> None:
        for _ in range(count):
            far.send(far.receive())

    thread = threading.Thread(target=echo)
    thread.start()
    try:
        yield
    finally:
        thread.join(TIMEOUT)
        assert not thread.is_alive()


def exchange(near: Transport, far: Far) -> None:
    """One round trip, after which the sides have surely met."""
    near.send(message(), soon())
    far.send(far.receive())
    assert near.receive(soon(), NEVER) == message()


def ask(near: Transport) -> list[Buffer]:
    near.send(message(), soon())
    return near.receive(soon(1000), NEVER)


def test_a_message_arrives_as_it_was_sent_and_so_does_its_answer(ends: Ends) -> None:
    near, far = ends
    near.send(message(b"question"), soon())
    assert far.receive() == message(b"question")
    far.send(message(b"answer"))
    assert near.receive(soon(), NEVER) == message(b"answer")


def test_messages_keep_their_order_when_several_are_sent_before_the_first_is_received(ends: Ends) -> None:
    near, far = ends
    for number in range(20):
        near.send(message(number=number), soon())
    for number in range(20):
        assert far.receive() == message(number=number)
        far.send(message(number=number))
    assert [near.receive(soon(), NEVER)[3] for _ in range(20)] == [b"urn:%d" % n for n in range(20)]


def test_small_and_large_messages_keep_their_order(ends: Ends) -> None:
    near, far = ends
    contents = [bytes([number]) * size for number, size in enumerate([5, 70_000, 0, 200_000, 9, 65_536])]
    with echoing(far, len(contents)):
        for number, content in enumerate(contents):
            near.send(message(content, number), soon())
        answers = [near.receive(soon(), NEVER) for _ in contents]
    assert answers == [message(content, number) for number, content in enumerate(contents)]


@pytest.mark.parametrize("size", SIZES)
def test_a_content_of_any_size_comes_back_twice(ends: Ends, size: int) -> None:
    near, far = ends
    content = (b"0123456789abcde" * (size // 15 + 1))[:size]
    with echoing(far, 2):
        for number in range(2):
            near.send(message(content, number), soon())
            assert near.receive(soon(), NEVER) == message(content, number)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_content_may_be_any_kind_of_buffer(ends: Ends, kind: Callable[[bytes], Buffer], size: int) -> None:
    near, far = ends
    with echoing(far, 1):
        near.send(message(kind(b"x" * size)), soon())
        assert near.receive(soon(), NEVER) == message(b"x" * size)


def test_frames_of_the_largest_size_are_sent(ends: Ends) -> None:
    near, far = ends
    frames: list[Buffer] = [b"h" * 2048, b"s" * 32, b"", b"m" * 128, b"t" * 512]
    near.send(frames, soon())
    assert far.receive() == frames


@pytest.mark.parametrize("count", [0, 4, 6])
def test_another_number_of_frames_is_refused_and_nothing_is_sent(ends: Ends, count: int) -> None:
    near, far = ends
    with pytest.raises(LocalProtocolError, match=str(count)):
        near.send([b"x"] * count, soon())
    exchange(near, far)


def test_nothing_until_the_deadline_is_a_timeout_and_the_next_message_is_received(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    for seconds in (0.02, 0.25):
        with pytest.raises(CallTimeout, match="may or may not have run"):
            near.receive(soon(seconds), NEVER)
    exchange(near, far)


def test_a_message_that_is_there_is_received_after_the_deadline(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    far.send(message(b"late"))
    until(lambda: not near.idle())
    assert near.receive(soon(-1), NEVER) == message(b"late")


def test_a_closed_agent_waits_for_nothing(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    closed = threading.Event()
    closed.set()
    with pytest.raises(AgentClosed):
        near.receive(soon(), closed)


def in_another_thread(
    near: Transport, closed: threading.Event, deadline: float, end: Callable[[], None]
) -> None:
    """Receive in another thread, and end that from this one."""
    raised: list[BaseException] = []
    started = threading.Event()

    def wait() -> None:
        started.set()
        try:
            near.receive(deadline, closed)
        except AgentClosed as exc:
            raised.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    assert started.wait(TIMEOUT)
    threading.Event().wait(0.05)  # most likely it waits by now; it must end either way
    end()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    assert len(raised) == 1


def test_an_agent_that_is_closed_ends_the_wait_of_another_thread(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    closed = threading.Event()
    in_another_thread(near, closed, soon(), closed.set)


def test_close_ends_an_endless_wait_of_another_thread(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    in_another_thread(near, threading.Event(), float("inf"), near.close)


def test_a_closed_transport_says_so(ends: Ends) -> None:
    near, _ = ends
    near.close()
    near.close()
    assert not near.idle()
    with pytest.raises(AgentClosed, match=r"closed here|stopped"):
        near.receive(soon(), NEVER)
    with pytest.raises(AgentClosed, match="closed here"):
        near.send(message(), soon())


def test_a_peer_that_went_before_the_call_is_lost_at_once(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    far.close()
    with pytest.raises(PeerLost, match="was lost"):
        ask(near)


def test_a_peer_that_goes_during_the_call_is_lost_at_once(ends: Ends) -> None:
    near, far = ends
    near.send(message(), soon())
    far.receive()
    far.close()
    with pytest.raises(PeerLost, match="was lost during the call, which may or may not have run"):
        near.receive(soon(1000), NEVER)


@pytest.mark.parametrize("size", [5, 100_000])
def test_an_answer_that_was_sent_is_received_although_its_sender_has_gone(ends: Ends, size: int) -> None:
    near, far = ends
    near.send(message(), soon())
    far.receive()
    far.send(message(b"x" * size))
    far.close()
    assert near.receive(soon(), NEVER) == message(b"x" * size)
    with pytest.raises(PeerLost):
        near.receive(soon(1000), NEVER)


def test_a_transport_is_idle_between_calls(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    assert near.idle()
    near.send(message(), soon())
    assert near.idle()


def test_a_transport_with_an_answer_that_nobody_waits_for_is_not_idle(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    far.send(message())
    until(lambda: not near.idle())


def test_a_transport_whose_peer_has_gone_is_not_idle(ends: Ends) -> None:
    near, far = ends
    exchange(near, far)
    far.close()
    until(lambda: not near.idle())


def test_a_message_that_is_held_stays_as_it_is(ends: Ends) -> None:
    near, far = ends
    with echoing(far, 31):
        near.send(message(b"a" * 100_000), soon())
        held = near.receive(soon(), NEVER)
        for number in range(30):
            near.send(message(bytes([number]) * 100_000), soon())
            assert near.receive(soon(), NEVER)[2][-1:] == bytes([number])
    assert held == message(b"a" * 100_000)
