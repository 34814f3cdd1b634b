"""What a stream makes of hostile bytes, descriptors, signals, forks and misuse."""

from __future__ import annotations

import array
import math
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pzc.protocol.errors import (
    CallTimeout,
    LocalProtocolError,
    PeerLost,
    PzcError,
    RemoteProtocolError,
    SignatureError,
)
from pzc.protocol.frames import MAX_CONTENT, MAX_HEADER, MAX_MSGID, MAX_SERIALIZER, MAX_SIGNATURE

from tests.contract.rigs.alarms import Alarm, alarm
from tests.transport.stream_ends import (
    FRONT,
    GCM,
    HEAD,
    HMAC,
    KEYS,
    LARGE,
    TIMEOUT,
    Raw,
    beside,
    opened,
    packed,
    receive,
    send,
    stream_class,
)

LENGTHS = tuple(map(len, FRONT))
HEADS = {
    "version": (1, 0, *LENGTHS, 1, 0, 7),
    "flags": (2, 2, *LENGTHS, 1, 0, 7),
    "reserved": (2, 0, *LENGTHS, 1, 1, 7),
    "header": (2, 0, MAX_HEADER + 1, 4, 3, 1, 0, 7),
    "serializer": (2, 0, 6, MAX_SERIALIZER + 1, 3, 1, 0, 7),
    "message id": (2, 0, 6, 4, MAX_MSGID + 1, 1, 0, 7),
    "content": (2, 0, *LENGTHS, 1, 0, MAX_CONTENT + 1),
    "largest number": (2, 0, *LENGTHS, 1, 0, (1 << 64) - 1),
}

both_suites = pytest.mark.parametrize("suite", [HMAC, GCM], ids=["hmac", "gcm"])


def carry(peer: socket.socket, data: bytes, *descriptors: int) -> None:
    rights = array.array("i", descriptors).tobytes()
    peer.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def in_a_child(work: Callable[[], object]) -> bytes:
    """What a forked child printed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


def error_of(work: Callable[[], object]) -> str:
    try:
        return f"returned {work()!r}"
    except PzcError as exc:
        return type(exc).__name__


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_head_that_breaks_the_rules_closes_the_stream(wired: Raw, head: tuple[int, ...]) -> None:
    stream, peer = wired
    peer.sendall(packed() + HEAD.pack(*head))
    assert receive(stream) == b"content"
    with pytest.raises(RemoteProtocolError):
        receive(stream)
    assert stream.hung_up()
    with pytest.raises(PeerLost):
        receive(stream)


@both_suites
@pytest.mark.parametrize("size", [5, LARGE])
@pytest.mark.parametrize("place", ["front", "content", "tag", "suite", "counter", "key", "unsigned"])
def test_what_was_changed_on_the_way_is_refused_and_closes_the_stream(
    local: Raw, suite: int, size: int, place: str
) -> None:
    stream, peer = local
    stream.protect(suite, *KEYS[::-1])
    data = bytearray(packed(bytes(size), suite, number=place == "counter", key=KEYS[place == "key"]))
    tag = {HMAC: 32, GCM: 16}[suite]
    if place == "unsigned":
        data = bytearray(packed(bytes(size)))
    elif place in ("front", "content", "tag", "suite"):
        at = {
            "front": HEAD.size + 2,
            "content": HEAD.size + sum(LENGTHS) + size // 2,
            "tag": -1,
            "suite": -tag - 1,
        }
        data[at[place]] ^= 1
    with beside(lambda: peer.sendall(data)), pytest.raises(SignatureError):
        receive(stream)
    assert stream.hung_up()


@both_suites
def test_a_message_repeated_is_refused(local: Raw, suite: int) -> None:
    stream, peer = local
    stream.protect(suite, *KEYS[::-1])
    peer.sendall(packed(suite=suite) * 2)
    receive(stream)
    with pytest.raises(SignatureError):
        receive(stream)


@pytest.mark.parametrize("size", [0, 3, 500])
def test_a_signature_of_another_size_is_refused(local: Raw, size: int) -> None:
    stream, peer = local
    peer.sendall(HEAD.pack(2, 0, *LENGTHS, size, 0, 0) + b"".join(FRONT) + bytes(size))
    with pytest.raises(SignatureError):
        receive(stream)


def test_a_signature_above_the_limit_breaks_the_rules(local: Raw) -> None:
    stream, peer = local
    peer.sendall(
        HEAD.pack(2, 0, *LENGTHS, MAX_SIGNATURE + 1, 0, 0) + b"".join(FRONT) + bytes(MAX_SIGNATURE + 1)
    )
    with pytest.raises((RemoteProtocolError, SignatureError)):
        receive(stream)


@pytest.mark.needs("unix")
@pytest.mark.parametrize("size", [5, LARGE])
def test_a_descriptor_comes_with_its_message_and_is_taken_once(kind: Any, size: int) -> None:
    with opened(kind) as (one, peer):
        other = kind(peer)
        reading, writing = os.pipe()
        with beside(lambda: [send(one, bytes(size)), send(one, bytes(size), descriptor=writing), send(one)]):
            receive(other)
            assert other.take_descriptor() == -1
            receive(other)
            came = other.take_descriptor()
            assert other.take_descriptor() == -1
            receive(other)
        os.write(came, b"x")
        assert os.read(reading, 1) == b"x"
        assert not os.get_inheritable(came)
        for each in (reading, writing, came):
            os.close(each)
        other.close()


@pytest.mark.needs("unix")
def test_descriptors_that_are_not_taken_are_closed(kind: Any) -> None:
    reading, writing = os.pipe()
    with opened(kind) as (one, peer):
        other = kind(peer)
        for _ in range(5):
            send(one, descriptor=writing)
        os.close(writing)
        for _ in range(5):
            receive(other)
        other.close()
    assert os.read(reading, 1) == b""
    os.close(reading)


@pytest.mark.needs("unix")
def test_one_may_come_along_with_the_end_of_another_message(local: Raw) -> None:
    stream, peer = local
    message = packed(flags=1)
    carry(peer, message, 1)
    receive(stream)
    carry(peer, message[:10], 1)
    with beside(lambda: receive(stream)) as found:
        peer.sendall(message[10:])
        carry(peer, message, 1)
    assert found == [b"content"]
    receive(stream)


@pytest.mark.needs("unix")
@pytest.mark.parametrize("rights", [0, 3, 8])
def test_descriptors_in_a_wrong_number_break_the_rules(local: Raw, rights: int) -> None:
    stream, peer = local
    carry(peer, packed(flags=1), *[1] * rights)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RemoteProtocolError):
        receive(stream)
    assert len(os.listdir("/proc/self/fd")) < before


@pytest.mark.needs("unix")
def test_a_descriptor_of_a_message_without_the_flag_breaks_the_rules(local: Raw) -> None:
    stream, peer = local
    carry(peer, packed(), 1)
    with pytest.raises(RemoteProtocolError):
        receive(stream)


def test_a_descriptor_over_tcp_is_refused_at_either_end(kind: Any) -> None:
    with opened(kind, "tcp") as (stream, peer):
        with pytest.raises(LocalProtocolError, match="Unix"):
            send(stream, descriptor=1)
        send(stream)
        assert peer.recv(4096) == packed()
        peer.sendall(packed(flags=1))
        with pytest.raises(RemoteProtocolError):
            receive(stream)


def test_a_signal_between_messages_runs_its_handler_and_the_stream_works_on(wired: Raw) -> None:
    stream, peer = wired
    for seconds in (0.0099, 0.01, 0.0101, 0.02, 0.05):
        with alarm(seconds), pytest.raises(Alarm):
            stream.receive(math.inf)
    peer.sendall(packed())
    assert receive(stream) == b"content"


@pytest.mark.parametrize("size", [5, LARGE])
def test_a_signal_that_raises_inside_a_message_closes_the_stream(wired: Raw, size: int) -> None:
    stream, peer = wired
    peer.sendall(packed(bytes(size))[:30])
    with alarm(0.02), pytest.raises(Alarm):
        stream.receive(math.inf)
    assert not stream.idle()
    with pytest.raises(PeerLost):
        receive(stream)


def test_a_signal_that_raises_while_the_peer_takes_nothing_closes_the_stream(wired: Raw) -> None:
    stream, _ = wired
    with alarm(0.02), pytest.raises(Alarm):
        send(stream, bytes(1 << 26), math.inf)
    with pytest.raises(PeerLost):
        send(stream)


def test_signals_are_seen_while_a_large_content_flows(local: Raw) -> None:
    stream, peer = local
    done = threading.Event()

    def feed() -> None:
        peer.sendall(HEAD.pack(2, 0, *LENGTHS, 1, 0, MAX_CONTENT) + b"".join(FRONT))
        while not done.is_set():
            try:
                peer.sendall(bytes(1 << 18))
            except OSError:
                return

    with beside(feed):
        try:
            with alarm(0.02), pytest.raises(Alarm):
                stream.receive(math.inf)
        finally:
            done.set()
            stream.close()


def test_signals_do_not_stretch_a_deadline(wired: Raw) -> None:
    stream, _ = wired
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        with pytest.raises(CallTimeout):
            receive(stream, 0.5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("deadline", [-math.inf, -1.0, 0.0])
def test_a_deadline_long_ago_waits_for_nothing(wired: Raw, deadline: float) -> None:
    stream, peer = wired
    with pytest.raises(CallTimeout):
        stream.receive(deadline)
    peer.sendall(packed())
    assert stream.ready(TIMEOUT)
    assert stream.receive(deadline)[3] == b"content"


def test_a_stream_in_a_forked_child_is_closed_and_its_parent_goes_on(wired: Raw) -> None:
    stream, peer = wired
    peer.sendall(packed() * 2)
    receive(stream)
    said = in_a_child(
        lambda: (
            error_of(lambda: receive(stream)),
            error_of(lambda: send(stream)),
            stream.idle(),
            stream.close(),
        )
    )
    assert said == b"('AgentClosed', 'AgentClosed', False, None)"
    assert receive(stream) == b"content"
    send(stream)
    assert peer.recv(4096) == packed()


def test_a_forked_child_does_not_keep_a_connection_alive(wired: Raw) -> None:
    stream, peer = wired
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        peer.close()
        os.read(reading, 1)
        os._exit(0)
    stream.close()
    peer.settimeout(TIMEOUT)
    assert peer.recv(1) == b""
    os.write(writing, b"x")
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)


def test_a_compiled_stream_that_was_not_initialised_only_raises() -> None:
    made = stream_class("compiled").__new__(stream_class("compiled"))
    for work in (lambda: made.receive(1.0), lambda: made.send(*FRONT, b"", 1.0)):
        with pytest.raises(PeerLost):
            work()
    assert made.fileno() == -1
