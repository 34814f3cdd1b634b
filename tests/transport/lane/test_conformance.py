"""A lane in C and a session in Python make and take the very same messages."""

from __future__ import annotations

import pickle
import socket
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pzc.protocol.keyring import Key
from pzc.transport import framing

from tests.effort import many
from tests.transport.lane.ends import KEY, NEVER, LaneError, Python, ask, lane, lanes, soon, wire

KEYS = pytest.mark.parametrize("key", [KEY, None], ids=["signed", "without keys"])
BODIES = pytest.mark.parametrize("size", [4, 300, 4096, 1 << 16])


def body_of(size: int) -> bytes:
    return pickle.dumps(None) if size == 4 else bytes(range(256)) * (size // 256 + 1)


def ends(c_asks: bool, key: Key | None, serializer: str = "pickle") -> tuple[Any, Python]:
    one, other = socket.socketpair()
    return lane(one, c_asks, key, serializer), Python(other, not c_asks, key, serializer)


@KEYS
@BODIES
def test_a_client_in_c_and_a_server_in_python_understand_each_other(key: Key | None, size: int) -> None:
    c, python = ends(True, key)
    body = body_of(size)[:size]
    try:
        for _ in range(3):
            [msgid], _ = c.post([body], 5.0)
            request = python.receive()
            assert (request.msgid, bytes(request.content), request.sequence) == (msgid, body, 3)
            python.send(body[::-1], request)
            [(answer, echoed, ms, counter)] = c.take(5.0)
            assert (answer, echoed, ms) == (body[::-1], msgid, 1_700_000_000_000)
            assert counter > 0
    finally:
        c.close()
        python.close()


@KEYS
@BODIES
def test_a_client_in_python_and_a_server_in_c_understand_each_other(key: Key | None, size: int) -> None:
    c, python = ends(False, key)
    body = body_of(size)[:size]
    try:
        for number in range(1, 4):
            msgid = python.send(body)
            [(taken, told, ms, counter)] = c.take(5.0)
            assert (taken, told, ms, counter) == (body, msgid, 1_700_000_000_000, number)
            assert c.last == number
            c.post([(body[::-1], told)], 5.0)
            reply = python.receive()
            assert (reply.msgid, bytes(reply.content)) == (msgid, body[::-1])
    finally:
        c.close()
        python.close()


@KEYS
def test_two_ends_in_c_understand_each_other(key: Key | None) -> None:
    with lanes(key) as (asks, answers):

        def serve() -> None:
            for _ in range(200):
                [(body, msgid, _, _)] = answers.take(5.0, 1)
                answers.post([(body + b"!", msgid)], 5.0)

        thread = threading.Thread(target=serve)
        thread.start()
        assert [ask(asks, b"%d" % i, 5.0) for i in range(200)] == [b"%d!" % i for i in range(200)]
        thread.join(5.0)


def test_both_make_the_same_bytes_of_the_same_message() -> None:
    """But for the time, which the lane reads by itself."""
    one, other = socket.socketpair()
    python = Python(one, True, KEY)
    try:
        python.send(b"abc")
        ours = other.recv(1 << 16)
    finally:
        python.close()
        other.close()
    with wire(True) as (c, other):
        c.post([b"abc"], 5.0)
        theirs = other.recv(1 << 16)
    head = framing.HEAD.unpack_from(ours)
    assert framing.HEAD.unpack_from(theirs) == head
    header_end = framing.HEAD.size + head[1] + head[2]
    assert ours[:header_end] == theirs[:header_end]
    assert (
        ours[header_end + 22 : header_end + 45] == theirs[header_end + 22 : header_end + 45]
    )  # counter, epoch
    assert ours[-8 - 3 :] == theirs[-8 - 3 :]  # key id, content


@pytest.mark.parametrize("serializer", ["msgpack", "json"])
def test_a_lane_speaks_the_serializer_of_its_connection(serializer: str) -> None:
    c, python = ends(True, KEY, serializer)
    try:
        c.post([b"[1]"], 5.0)
        request = python.receive()
        assert (request.serializer, bytes(request.content)) == (serializer, b"[1]")
        python.send(b"[2]", request, serializer)
        assert c.take(5.0)[0][0] == b"[2]"
    finally:
        c.close()
        python.close()


def test_many_requests_and_replies_share_writes_and_keep_their_order() -> None:
    with lanes() as (asks, answers):
        ids, _ = asks.post([b"%d" % i for i in range(100)], 5.0)
        assert len(set(ids)) == 100
        came = answers.take(5.0, 256)
        assert [(body, msgid) for body, msgid, _, _ in came] == [(b"%d" % i, ids[i]) for i in range(100)]
        answers.post([(body, msgid) for body, msgid, _, _ in reversed(came)], 5.0)
        assert [msgid for _, msgid, _, _ in asks.take(5.0, 256)] == ids[::-1]


def test_take_gives_at_most_as_many_as_asked_for() -> None:
    with lanes() as (asks, answers):
        asks.post([b"x"] * 10, 5.0)
        assert [len(answers.take(5.0, limit)) for limit in (1, 4, 64)] == [1, 4, 5]


def test_more_than_the_socket_holds_goes_while_the_other_end_takes() -> None:
    with lanes() as (asks, answers):
        bodies = [bytes([i]) * 50_000 for i in range(40)]
        got: list[bytes] = []

        def take() -> None:
            while len(got) < 40:
                got.extend(each[0] for each in answers.take(5.0))

        thread = threading.Thread(target=take)
        thread.start()
        asks.post(bodies, 5.0)
        thread.join(5.0)
        assert got == bodies


@settings(max_examples=many(200))
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8), st.data())
def test_messages_are_whole_however_they_are_cut(bodies: list[bytes], data: st.DataObject) -> None:
    with wire(True) as (asks, other):
        ids, _ = asks.post(bodies, 5.0)
        raw = other.recv(1 << 20)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    with wire(False) as (answers, other):
        got: list[tuple[bytes, str]] = []
        for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            other.sendall(raw[begin:end])
            try:
                while True:
                    got.extend(each[:2] for each in answers.take(0.0))
            except LaneError:
                pass
    assert got == list(zip(bodies, ids, strict=True))


def test_a_message_comes_byte_by_byte() -> None:
    with wire(True) as (asks, other):
        [msgid], _ = asks.post([b"hello"], 5.0)
        raw = other.recv(1 << 16)
    with wire(False) as (answers, other):
        for byte in raw[:-1]:
            other.sendall(bytes((byte,)))
            with pytest.raises(LaneError, match="late"):
                answers.take(0.0)
        other.sendall(raw[-1:])
        assert answers.take(0.0)[0][:2] == (b"hello", msgid)


def test_late_replies_are_skipped() -> None:
    with lanes() as (asks, answers):
        for number in range(3):
            with pytest.raises(LaneError, match="late"):
                ask(asks, b"%d" % number, 0.0)
        requests = answers.take(5.0)
        answers.post([(b"late", msgid) for _, msgid, _, _ in requests], 5.0)
        thread = threading.Thread(
            target=lambda: [answers.post([(b"now", msgid)], 5.0) for _, msgid, _, _ in answers.take(5.0)]
        )
        thread.start()
        assert ask(asks, b"3", 5.0) == b"now"
        thread.join(5.0)


def test_a_note_comes_before_the_reply() -> None:
    with lanes() as (asks, answers):
        with pytest.raises(LaneError, match="late"):
            ask(asks, b"x", 0.0)
        [(_, msgid, _, _)] = answers.take(5.0)
        assert asks.msgid == msgid
        answers.post([(b"running", msgid), (b"done", msgid)], 5.0)
        assert [ask(asks, None, 5.0), ask(asks, None, 5.0)] == [b"running", b"done"]


def test_what_is_unusual_goes_to_the_python_session_and_back() -> None:
    """A content in another serializer between two small ones."""
    one, other = socket.socketpair()
    client, beside = Python(one, True, KEY), other.dup()
    c = lane(other, False)
    python = Python(beside, False, KEY)
    try:
        client.send(b"before")
        client.send(b"5", name="json")
        client.send(b"after")
        assert [each[0] for each in c.take(5.0)] == [b"before"]
        assert c.take(5.0) is None
        assert c.take(5.0) is None  # it is still there
        data, fds = c.unread()
        assert len(fds) <= 1
        message, rest = python_reads(python, data, fds)
        assert message.decode() == 5
        c.last = message.stamp.counter
        c.feed(rest)
        assert c.take(5.0)[0][0] == b"after"
    finally:
        client.close()
        python.close()
        c.close()


def python_reads(python: Python, data: bytes, fds: list[int]) -> tuple[Any, bytes]:
    """What a stream makes of bytes that somebody else received: here it receives them anew."""
    one, other = socket.socketpair()
    again = Python(one, False, KEY)
    again.session.last = python.session.last
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fd.to_bytes(4, "little")) for fd in fds]
    with other:
        other.sendmsg([data], rights)
    for fd in fds:
        socket.close(fd)
    message = again.session.open(again.stream.receive(soon(), NEVER))
    message.content = bytes(message.content)
    again.close()
    return message, data[framing.HEAD.size + sum(framing.HEAD.unpack_from(data)[1:6]) :]


def test_an_ask_stops_before_the_unusual_and_waits_on_behind_it() -> None:
    one, other = socket.socketpair()
    c, python = lane(one, True), Python(other, False, KEY)
    try:
        with pytest.raises(LaneError, match="late"):
            ask(c, b"x", 0.0)
        request = python.receive()
        python.send(b"{}", request, "json")
        python.send(b"done", request)
        assert ask(c, None, 5.0) is None
        data, fds = c.unread()
        assert not fds
        size = framing.HEAD.size + sum(framing.HEAD.unpack_from(data)[1:6])
        c.feed(data[size:])
        assert ask(c, None, 5.0) == b"done"
    finally:
        c.close()
        python.close()
