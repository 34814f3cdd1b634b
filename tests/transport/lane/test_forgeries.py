"""A lane hands out nothing that its peer did not say, and what it leaves to Python is refused there."""

from __future__ import annotations

import socket
import struct

import pytest

from pzc.protocol.errors import PzcError
from pzc.protocol.keyring import Key
from pzc.transport import framing

from tests.transport.lane.ends import KEY, LaneError, Python, ask, recorded, recorded_reply, wire

OTHER = Key("another secret of the lab", "mallory")


def refused_by_python(data: bytes, asks: bool) -> bool:
    """Whether a session in Python takes nothing of it, either."""
    one, other = socket.socketpair()
    python = Python(one, asks, KEY)
    try:
        with other:
            other.sendall(data)
        python.receive()
    except PzcError:
        return True
    finally:
        python.close()
    return False


def accepted(data: bytes, asks: bool) -> bool:
    """Whether a lane, or the session behind it, takes a message out of these bytes."""
    with wire(asks) as (c, other):
        other.sendall(data)
        try:
            if c.take(0.0) is not None:
                return True
        except LaneError:  # it waits for more: the lengths were forged
            return False
        left, _ = c.unread()
    assert left == data
    return not refused_by_python(data, asks)


@pytest.mark.parametrize("asks", [False, True], ids=["a request", "a reply"])
def test_no_bit_can_be_changed(asks: bool) -> None:
    request = recorded(b"hello, world")
    msgid = request[-(12 + 8 + 32 + 1 + 45) :][:45].decode()
    data = recorded_reply(b"hello, world", msgid) if asks else request
    assert accepted(data, asks)
    taken = []
    for place in range(8 * len(data)):
        forged = bytearray(data)
        forged[place // 8] ^= 1 << place % 8
        if accepted(bytes(forged), asks):
            taken.append(place)
    assert not taken


def test_no_message_is_taken_as_one_of_the_other_direction() -> None:
    data = recorded(b"x")
    assert not accepted(data, asks=True)
    assert not accepted(
        recorded_reply(b"x", "urn:uuid:" + "-".join(["0" * 8, "0" * 4, "8000", "8000", "0" * 12])), False
    )


def test_no_other_key_and_no_missing_one_is_taken() -> None:
    for key in (OTHER, None):
        assert not accepted(recorded(b"x", key=key), asks=False)


def test_bytes_of_one_message_do_not_pass_for_anothers() -> None:
    """The body moved into the signature, a shorter id: every length is under the tag."""
    data = recorded(b"x" * 40)
    kind, a, b, c, d, e, extra = framing.HEAD.unpack_from(data)
    for moved in (1, 8, 40):
        head = framing.HEAD.pack(kind, a, b, c, d + moved, e - moved, extra)
        assert not accepted(head + data[framing.HEAD.size :], asks=False)
        head = framing.HEAD.pack(kind, a + moved, b, c, d, e - moved, extra)
        assert not accepted(head + data[framing.HEAD.size :], asks=False)


def test_a_replayed_request_is_left_to_python() -> None:
    data = recorded(b"x")
    with wire(False) as (c, other):
        other.sendall(data)
        assert len(c.take(5.0)) == 1
        other.sendall(data)
        assert c.take(5.0) is None
        assert c.unread()[0] == data


def test_a_request_that_was_overtaken_is_left_to_python() -> None:
    first, second = recorded(b"1", first=7), recorded(b"2", first=8)
    with wire(False) as (c, other):
        other.sendall(second + first)
        assert [each[0] for each in c.take(5.0)] == [b"2"]
        assert c.take(5.0) is None


def test_what_python_took_counts_as_taken() -> None:
    with wire(False, last=7) as (c, other):
        other.sendall(recorded(b"x", first=7))
        assert c.take(5.0) is None


def test_a_descriptor_without_a_message_for_it_ends_the_connection() -> None:
    with wire(False) as (c, other), open("/dev/null", "rb") as file:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", file.fileno()))]
        other.sendmsg([recorded(b"x")], rights)
        with pytest.raises(LaneError, match="descriptor"):
            c.take(5.0)


def test_more_descriptors_than_any_message_has_end_the_connection() -> None:
    with wire(False) as (c, other), open("/dev/null", "rb") as file:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("12i", *[file.fileno()] * 12))]
        other.sendmsg([b"\x01"], rights)
        with pytest.raises(LaneError, match="descriptor"):
            c.take(5.0)


@pytest.mark.parametrize(
    "options",
    [{"key": b"short"}, {"key_id": b"1234567"}, {"serializer": b"x" * 33}, {"own": (b"x" * 513, b"", 1)}],
)
def test_what_a_lane_cannot_have_is_refused_when_it_is_made(options: dict[str, object]) -> None:
    from pzc.transport.compiled import LANE

    one, other = socket.socketpair()
    given = {
        "fd": one.fileno(), "asks": True, "key": bytes(32), "key_id": b"12345678", "serializer": b"pickle",
        "own": (b"", b"", 1), "peer": (b"", b"", 2), "count": int, **options,
    }  # fmt: skip
    with one, other, pytest.raises(ValueError, match=r"lane|header"):
        LANE(**given)  # type: ignore[misc]


def test_a_body_over_the_limit_is_refused_and_nothing_is_sent() -> None:
    with wire(True) as (c, other):
        other.setblocking(False)
        with pytest.raises(ValueError, match="65537 bytes"):
            ask(c, bytes(65537), 5.0)
        with pytest.raises(BlockingIOError):
            other.recv(1)
