from __future__ import annotations

import array
import mmap
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from pzc import CallTimeout, PeerLost
from pzc.protocol.errors import LocalProtocolError
from pzc.protocol.frames import MAX_CONTENT, Buffer
from pzc.shm import machine
from pzc.transport import descriptors
from pzc.transport.link_stream import INLINE, LinkStream, peer_pid, peer_uid

from tests.contract.rigs.calling import TIMEOUT
from tests.transport.streaming import LARGE, NEVER, message, packed, soon

pytestmark = pytest.mark.skipif(not machine.MEMORY, reason="blocks are made only on Linux")


@pytest.fixture
def ends() -> Iterator[tuple[LinkStream, LinkStream]]:
    one, two = map(LinkStream, socket.socketpair())
    yield one, two
    one.close()
    two.close()


def hand_over(sender: LinkStream, receiver: LinkStream, content: Buffer = b"content") -> Buffer:
    sender.send(message(content), soon())
    return receiver.receive(soon(), NEVER)[2]


def test_a_stream_that_is_closed_closes_every_descriptor_and_what_it_received_stays(
    ends: tuple[LinkStream, LinkStream],
) -> None:
    one, two = ends
    held = [hand_over(one, two, bytes([n]) * LARGE) for n in range(3)]
    one.close()
    two.close()
    assert [content[-1] for content in held] == [0, 1, 2]


def test_a_content_over_one_gibibyte_is_refused_and_the_next_is_sent(
    ends: tuple[LinkStream, LinkStream],
) -> None:
    one, two = ends
    with pytest.raises(LocalProtocolError, match="the limit is"):
        one.send(message(memoryview(mmap.mmap(-1, MAX_CONTENT + 1))), soon())
    assert hand_over(one, two) == b"content"


def test_frames_are_counted_in_bytes_whatever_they_are_views_of(ends: tuple[LinkStream, LinkStream]) -> None:
    one, two = ends
    for count in (3, 10_000):
        numbers = array.array("d", range(count))
        assert bytes(hand_over(one, two, memoryview(numbers))) == numbers.tobytes()


def test_a_view_with_holes_is_refused(ends: tuple[LinkStream, LinkStream]) -> None:
    one, _ = ends
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        one.send(message(memoryview(b"abcdef")[::2]), soon())


def test_a_message_may_come_byte_by_byte_and_two_at_once(raw: tuple[LinkStream, socket.socket]) -> None:
    stream, peer = raw
    data = packed(b"one") + packed(b"two") + packed(b"three")

    def drip() -> None:
        for at in range(50):
            peer.sendall(data[at : at + 1])
        peer.sendall(data[50:])

    thread = threading.Thread(target=drip)
    thread.start()
    assert [stream.receive(soon(), NEVER)[2] for _ in range(3)] == [b"one", b"two", b"three"]
    thread.join(TIMEOUT)
    assert stream.idle()


def test_before_the_rest_of_a_message_is_waited_for_that_is_told(
    raw: tuple[LinkStream, socket.socket],
) -> None:
    stream, peer = raw
    told = threading.Event()
    stream.on_rest = told.set
    peer.sendall(packed())
    stream.receive(soon(), NEVER)
    assert not told.is_set()
    peer.sendall(packed()[:-1])
    sender = threading.Thread(target=lambda: (told.wait(TIMEOUT), peer.sendall(packed()[-1:])))
    sender.start()
    stream.receive(soon(), NEVER)
    assert told.is_set()
    sender.join(TIMEOUT)


def test_a_rest_that_was_received_along_is_not_idle(raw: tuple[LinkStream, socket.socket]) -> None:
    stream, peer = raw
    peer.sendall(packed() + packed()[:5])
    stream.receive(soon(), NEVER)
    assert not stream.idle()


def test_a_message_that_stops_in_the_middle_is_a_timeout_and_the_stream_is_closed(
    raw: tuple[LinkStream, socket.socket],
) -> None:
    stream, peer = raw
    peer.sendall(packed()[:-1])
    with pytest.raises(CallTimeout):
        stream.receive(soon(0.02), NEVER)
    assert not stream.idle()
    assert peer.recv(1) == b""
    with pytest.raises(PeerLost):
        stream.receive(soon(), NEVER)


@pytest.mark.parametrize("size", [1, 15, 16, 40])
def test_a_peer_that_goes_in_the_middle_of_a_message_is_lost(
    raw: tuple[LinkStream, socket.socket], size: int
) -> None:
    stream, peer = raw
    peer.sendall(packed()[:size])
    peer.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerLost, match="lost during the call"):
        stream.receive(soon(), NEVER)


def test_a_message_is_sent_in_parts_while_the_peer_reads_slowly() -> None:
    one, two = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream, content, received = LinkStream(one), os.urandom(300_000), bytearray()

    def read() -> None:
        while data := two.recv(1000):
            received.extend(data)

    thread = threading.Thread(target=read)
    thread.start()
    stream.send(message(content), soon())
    stream.send(message(b"small"), soon())
    stream.close()
    thread.join(TIMEOUT)
    two.close()
    assert received == packed(content) + packed(b"small")


def flood(stream: LinkStream, content: bytes) -> None:
    for _ in range(10_000):
        stream.send(message(content), soon(0.02))


@pytest.mark.parametrize("size", [5, INLINE])
def test_a_peer_that_does_not_read_is_a_timeout_and_the_stream_is_closed(size: int) -> None:
    one, two = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream = LinkStream(one)
    with two:
        with pytest.raises(CallTimeout, match="did not take the message in time"):
            flood(stream, bytes(size))
        assert not stream.idle()
    stream.close()


def test_one_thread_sends_while_another_receives(ends: tuple[LinkStream, LinkStream]) -> None:
    one, two = ends
    count = 300

    def send(stream: LinkStream) -> None:
        for number in range(count):
            stream.send(message(bytes([number % 256]) * (LARGE if number % 3 else 5)), soon())

    threads = [threading.Thread(target=send, args=(stream,)) for stream in ends]
    for thread in threads:
        thread.start()
    for number in range(count):
        for stream in (two, one):
            assert stream.receive(soon(), NEVER)[2][-1] == number % 256
    for thread in threads:
        thread.join(TIMEOUT)


def test_the_kernel_tells_who_the_peer_is() -> None:
    one, two = socket.socketpair()
    with one, two:
        assert peer_pid(one) == os.getpid()
        assert peer_uid(one) == os.getuid()


def test_a_descriptor_that_the_kernel_could_not_give_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(descriptors.Starved, match="ulimit -n"):
        descriptors.Descriptors().keep((), int(socket.MSG_CTRUNC))
