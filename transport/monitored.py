"""What a monitor socket of libzmq tells; pyzmq's own reader brings asyncio along."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

_EVENT = struct.Struct("=hi")


class Told(NamedTuple):
    """One event of a monitored socket.

    Attributes:
        event: a bit of ``zmq.Event``.
        value: a descriptor or an error number.
        endpoint: whose connection it is about.
    """

    event: int
    value: int
    endpoint: bytes


def receive_event(monitor: Any, flags: int = 0) -> Told:
    """The next event; waits for one unless the flags say otherwise.

    Raises:
        zmq.Again: there is none, with ``zmq.NOBLOCK``.
    """
    numbers, endpoint = monitor.recv_multipart(flags)
    event, value = _EVENT.unpack(numbers)
    return Told(event, value, endpoint)
