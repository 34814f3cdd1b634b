"""Receiving: messages of five parts out of a SUB socket, many of them in succession.

To ask of each part whether another one follows takes as long as to receive it. So the first four are taken
to be followed by another one, and only the fifth is asked. Where that was wrong, what is returned are several
messages: those in front had fewer parts, and the last one may have any number.
"""

from __future__ import annotations

import zmq
import zmq.backend

from .parts import NOW

PARTS = 5
"""Of a message."""

_BEGIN = b"PZC0"

_receive = zmq.backend.Socket.recv


def receive_message(socket: zmq.Socket[bytes]) -> list[bytes]:
    """The parts of the next message; see the module's docstring for what is not of five parts.

    Raises:
        zmq.Again: when there is none.
    """
    receive = _receive
    header = receive(socket, NOW)
    serializer = content = msgid = None
    try:
        serializer = receive(socket, NOW)
        content = receive(socket, NOW)
        msgid = receive(socket, NOW)
        last = receive(socket, NOW, False)
    except zmq.Again:  # all that had come had fewer parts
        return [part for part in (header, serializer, content, msgid) if part is not None]
    parts = [header, serializer, content, msgid, last.bytes]
    while last.more:
        last = receive(socket, NOW, False)
        parts.append(last.bytes)
    return parts


def message_behind(parts: list[bytes]) -> list[bytes]:
    """The last message of several that were received as one, when it may be one of five parts; else empty."""
    last = parts[-PARTS:] if PARTS < len(parts) < 2 * PARTS else []
    return last if last and last[0].startswith(_BEGIN) else []
