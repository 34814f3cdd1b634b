"""What `transport.stream` promises, of the plain and of the compiled stream."""

from __future__ import annotations

import array
import math
import mmap
import os
import socket
import threading
import tracemalloc
from typing import Any

import pytest

from pzc.protocol.errors import AgentClosed, CallTimeout, LocalProtocolError, PeerLost, RemoteProtocolError
from pzc.protocol.frames import MAX_CONTENT, MAX_HEADER, MAX_MSGID, MAX_SERIALIZER

from tests.transport.stream_ends import (
    FRONT,
    HEAD,
    LARGE,
    SUITES,
    TIMEOUT,
    Ends,
    Raw,
    beside,
    flood,
    opened,
    packed,
    pair,
    protect,
    receive,
    send,
    soon,
)

INLINE = 1 << 16
BEGUN = [1, 19, 20, 30, -33, -1]
"""How many bytes of a message have come; from its end when below 0."""

suites = pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)


@suites
@pytest.mark.parametrize("size", [0, 1, 64, INLINE, INLINE + 1, LARGE, 1 << 24])
def test_both_ends_understand_each_other(ends: Ends, suite: int, size: int) -> None:
    content = os.urandom(size)
    protect(*ends, suite)
    for sender, receiver in (ends, ends[::-1]):
        with beside(lambda one=sender: [send(one, content) for _ in range(2)]):
            assert [receive(receiver), receive(receiver)] == [content, content]


@suites
def test_keys_come_into_use_between_two_messages(ends: Ends, suite: int) -> None:
    one, other = ends
    send(one, b"hello")
    assert receive(other) == b"hello"
    protect(one, other, suite)
    send(other, b"welcome")
    assert receive(one) == b"welcome"


@suites
def test_what_is_sent_is_what_the_design_says(local: Raw, suite: int) -> None:
    stream, peer = local
    send(stream)
    stream.protect(suite, b"k" * 32, b"l" * 32)
    send(stream, b"one")
    send(stream, b"two")
    expected = packed() + packed(b"one", suite, 0) + packed(b"two", suite, 1)
    assert peer.recv(4096) == expected


@suites
@pytest.mark.parametrize("size", [5, LARGE])
def test_parts_of_a_content_arrive_joined(ends: Ends, suite: int, size: int) -> None:
    one, other = ends
    protect(one, other, suite)
    numbers = array.array("d", range(100))
    parts = (b"begin", bytearray(size), memoryview(numbers), b"", b"end")
    with beside(lambda: send(one, parts)):
        assert receive(other) == b"begin" + bytes(size) + numbers.tobytes() + b"end"


def test_a_view_is_counted_in_bytes_whatever_it_is_of(ends: Ends) -> None:
    for count in (3, 100_000):
        numbers = memoryview(array.array("d", range(count)))
        with beside(lambda view=numbers: send(ends[0], view)):
            assert receive(ends[1]) == numbers.tobytes()


@suites
def test_a_small_content_is_bytes_and_a_large_one_is_writable_memory_of_the_receiver(
    ends: Ends, suite: int
) -> None:
    one, other = ends
    protect(one, other, suite)
    send(one, bytes(INLINE))
    assert type(other.receive(soon())[3]) is bytes
    with beside(lambda: [send(one, bytes(LARGE)) for _ in range(2)]):
        first, second = (memoryview(other.receive(soon())[3]) for _ in range(2))
    first[:] = b"x" * LARGE
    assert bytes(second) == bytes(LARGE)


def test_a_message_may_come_byte_by_byte_and_several_at_once(wired: Raw) -> None:
    stream, peer = wired
    data = packed(b"one") + packed(b"two") + packed(b"three")

    def drip() -> None:
        for at in range(50):
            peer.sendall(data[at : at + 1])
        peer.sendall(data[50:])

    with beside(drip):
        assert [receive(stream) for _ in range(3)] == [b"one", b"two", b"three"]
    assert stream.idle()


def test_a_large_message_may_come_in_any_pieces(wired: Raw) -> None:
    stream, peer = wired
    stream.protect(1, b"l" * 32, b"k" * 32)
    content = os.urandom(LARGE)
    data = packed(b"small", 1, 0) + packed(content, 1, 1) + packed(b"more", 1, 2)

    def drip() -> None:
        for at in range(0, len(data), 7001):
            peer.sendall(data[at : at + 7001])

    with beside(drip):
        assert [receive(stream) for _ in range(3)] == [b"small", content, b"more"]


def test_a_stream_sends_while_the_peer_reads_slowly(kind: Any, carrier: str) -> None:
    one, peer = pair(carrier)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream, received = kind(one), bytearray()
    content = os.urandom(LARGE)

    def read() -> None:
        while data := peer.recv(1000):
            received.extend(data)

    with peer, beside(read):
        send(stream, content)
        send(stream, b"small")
        stream.close()
    assert received == packed(content) + packed(b"small")


def test_one_thread_sends_while_another_receives(ends: Ends) -> None:
    protect(*ends, 1)
    count = 200

    def send_all(stream: Any) -> None:
        for number in range(count):
            send(stream, bytes([number % 256]) * (5 if number % 10 else LARGE))

    with beside(lambda: send_all(ends[0])), beside(lambda: send_all(ends[1])):
        for number in range(count):
            assert [receive(each)[-1] for each in ends] == [number % 256] * 2


@pytest.mark.parametrize(
    ("sizes", "content"),
    [
        ((MAX_HEADER + 1, 4, 4), b""),
        ((4, MAX_SERIALIZER + 1, 4), b""),
        ((4, 4, MAX_MSGID + 1), b""),
        ((1 << 17, 1 << 17, 1 << 17), b""),
        ((4, 4, 4), memoryview(b"abcdef")[::2]),
        ((4, 4, 4), (b"abc", memoryview(b"abcdef")[::2])),
        ((4, 4, 4), memoryview(mmap.mmap(-1, MAX_CONTENT + 1))),
    ],
)
def test_what_cannot_be_sent_is_refused_and_the_stream_works_on(
    ends: Ends, sizes: tuple[int, int, int], content: Any
) -> None:
    one, other = ends
    protect(one, other, 1)
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        one.send(*map(bytes, sizes), content, soon())
    send(one)
    assert receive(other) == b"content"


def test_a_descriptor_that_cannot_be_sent_uses_up_no_number(kind: Any) -> None:
    with opened(kind, "tcp") as (stream, peer):
        stream.protect(1, b"k" * 32, b"l" * 32)
        with pytest.raises(LocalProtocolError, match="Unix"):
            send(stream, descriptor=0)
        send(stream)
        assert peer.recv(4096) == packed(suite=1)


def test_the_largest_content_may_be_bounded(kind: Any) -> None:
    with opened(kind, max_content=4096) as (stream, peer):
        assert stream.max_content == 4096
        with pytest.raises(LocalProtocolError, match="4096"):
            send(stream, bytes(4097))
        stream.max_content = 5000
        peer.sendall(packed(bytes(5000)) + packed(bytes(5001))[:20])
        assert receive(stream) == bytes(5000)
        with pytest.raises(RemoteProtocolError):
            receive(stream)


@pytest.mark.parametrize("size", [5, INLINE, LARGE])
def test_a_peer_that_takes_nothing_is_a_timeout_and_the_stream_is_closed(wired: Raw, size: int) -> None:
    stream, _ = wired
    with pytest.raises(CallTimeout, match="did not take the message in time"):
        flood(stream, size, 0.05)
    assert not stream.idle()
    with pytest.raises(PeerLost):
        send(stream)


def test_to_receive_nothing_by_the_deadline_is_a_timeout_after_which_the_stream_works_on(wired: Raw) -> None:
    stream, peer = wired
    for seconds in (-1.0, 0.0, 0.02):
        with pytest.raises(CallTimeout, match="no reply"):
            receive(stream, seconds)
    peer.sendall(packed())
    assert receive(stream) == b"content"


@pytest.mark.parametrize("size", BEGUN)
def test_a_message_that_stops_in_the_middle_is_a_timeout_and_the_stream_is_closed(
    wired: Raw, size: int
) -> None:
    stream, peer = wired
    peer.sendall(packed()[:size])
    with pytest.raises(CallTimeout):
        receive(stream, 0.02)
    assert not stream.idle()
    assert peer.recv(1) == b""
    with pytest.raises(PeerLost):
        receive(stream)


@pytest.mark.parametrize("size", BEGUN)
def test_a_peer_that_goes_in_the_middle_of_a_message_is_lost(wired: Raw, size: int) -> None:
    stream, peer = wired
    peer.sendall(packed()[:size])
    peer.shutdown(socket.SHUT_WR)
    with pytest.raises(PeerLost, match="lost during the call"):
        receive(stream)


@pytest.mark.parametrize("size", [INLINE, LARGE])
def test_a_message_that_was_begun_has_its_time_and_no_more(kind: Any, carrier: str, size: int) -> None:
    with opened(kind, carrier, patience=0.05) as (stream, peer):
        peer.sendall(packed(bytes(size))[:1000])
        with pytest.raises(PeerLost, match="lost during the call"):
            stream.receive(math.inf)
    with (
        opened(kind, carrier, patience=0.05) as (stream, peer),
        pytest.raises(PeerLost, match="got the message whole"),
    ):
        flood(stream, size, math.inf)


def test_what_came_whole_is_received_before_the_loss_of_the_peer(wired: Raw) -> None:
    stream, peer = wired
    peer.sendall(packed(b"one") + packed(bytes(100_000)) + packed(b"three"))
    peer.close()
    assert [len(receive(stream)) for _ in range(3)] == [3, 100_000, 5]
    with pytest.raises(PeerLost, match="lost during the call"):
        receive(stream)


def test_to_send_to_a_peer_that_has_gone_is_a_loss_and_closes_the_stream(wired: Raw) -> None:
    stream, peer = wired
    peer.close()
    with pytest.raises(PeerLost, match="got the message whole"):
        flood(stream, INLINE)
    with pytest.raises(PeerLost):
        receive(stream)


def test_a_reset_connection_is_a_loss(kind: Any) -> None:
    with opened(kind, "tcp") as (stream, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        with pytest.raises(PeerLost):
            receive(stream)


@pytest.mark.parametrize("wait", ["receive", "send", "ready"])
def test_a_close_from_another_thread_ends_a_wait(wired: Raw, wait: str) -> None:
    stream, _ = wired
    timer = threading.Timer(0.05, stream.close)
    timer.start()
    if wait == "ready":
        assert stream.ready(TIMEOUT)
    else:
        with pytest.raises(AgentClosed, match="closed here"):
            stream.receive(math.inf) if wait == "receive" else send(stream, bytes(1 << 24), math.inf)
    timer.join(TIMEOUT)
    stream.close()
    assert stream.fileno() == -1


def test_a_closed_stream_says_so_whatever_it_is_asked(wired: Raw) -> None:
    stream, peer = wired
    peer.sendall(packed() * 2)
    receive(stream)
    stream.close()
    stream.close()
    assert peer.recv(1) == b""
    assert (stream.fileno(), stream.idle(), stream.hung_up(), stream.ready(0.0)) == (-1, False, True, True)
    assert stream.take_descriptor() == -1
    with pytest.raises(AgentClosed):
        send(stream)
    with pytest.raises(AgentClosed):
        receive(stream)


def test_a_close_while_others_use_the_stream_never_touches_another_descriptor(kind: Any) -> None:
    """The number of a socket that is closed too early would be the next pair's, which must get nothing."""
    for _ in range(100):
        with opened(kind) as (stream, _peer):
            with (
                beside(lambda s=stream: [send(s, bytes(1000)) for _ in range(1000)]),
                beside(lambda s=stream: s.receive(math.inf)),
            ):
                stream.close()
                one, other = socket.socketpair()
        with one, other:
            for each in (one, other):
                each.setblocking(False)
                with pytest.raises(BlockingIOError):
                    each.recv(1)


def test_ready_sees_messages_in_the_kernel_and_those_received_ahead(wired: Raw) -> None:
    stream, peer = wired
    assert not any(map(stream.ready, (0.0, 0.02)))
    peer.sendall(packed() * 2)
    assert stream.ready(TIMEOUT)
    receive(stream)
    assert stream.ready(TIMEOUT)
    receive(stream)
    assert not stream.ready(0.0)
    peer.close()
    assert stream.ready(math.inf)


def test_idle_and_hung_up_see_what_the_peer_did(wired: Raw) -> None:
    stream, peer = wired
    assert stream.idle()
    assert not stream.hung_up()
    peer.sendall(packed())
    assert stream.ready(TIMEOUT)
    assert not stream.idle()
    assert not stream.hung_up()
    peer.close()
    receive(stream)
    assert stream.ready(TIMEOUT)
    assert not stream.idle()
    assert stream.hung_up()


@pytest.mark.needs("unix")
def test_hung_up_sees_a_peer_that_left_messages(wired: Raw) -> None:
    stream, peer = wired
    peer.sendall(packed() * 3)
    peer.close()
    receive(stream)
    assert stream.ready(TIMEOUT)
    assert stream.hung_up()


def test_an_announced_length_takes_no_memory(wired: Raw) -> None:
    stream, peer = wired
    peer.sendall(HEAD.pack(2, 0, *map(len, FRONT), 1, 0, 1 << 29) + b"".join(FRONT) + bytes(1000))
    tracemalloc.start()
    try:
        with pytest.raises(CallTimeout):
            receive(stream, 0.1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
