from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from pzc.transport.parts import WITHOUT_COPY, receive_parts

Socket = zmq.Socket[bytes]


@pytest.fixture
def ends() -> Iterator[tuple[Socket, Socket]]:
    context = zmq.Context()
    one, other = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    one.bind("inproc://parts")
    other.connect("inproc://parts")
    yield one, other
    context.destroy(0)


def test_only_a_large_part_is_received_without_a_copy_and_nobody_can_write_to_it(
    ends: tuple[Socket, Socket],
) -> None:
    sent = [b"route", bytes(WITHOUT_COPY - 1), bytes(WITHOUT_COPY), b""]
    ends[0].send_multipart(sent)
    ends[1].poll(5000)
    parts = receive_parts(ends[1])
    assert parts == sent
    assert [type(part) for part in parts] == [bytes, bytes, memoryview, bytes]
    assert memoryview(parts[2]).readonly
