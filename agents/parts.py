"""Parts: messages of several parts in and out of a ZeroMQ socket.

The library's own loops (``recv_multipart``, ``send_multipart``) combine members of an enumeration for every
part, which takes longer than to send it.
"""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from ..protocol.frames import Buffer

NOW = int(zmq.NOBLOCK)
MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
RCVMORE = int(zmq.RCVMORE)

WITHOUT_COPY = 1 << 16
"""Contents from this many bytes on go to and come from libzmq without a copy."""

_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)


def is_readable(socket: zmq.Socket[bytes]) -> bool:
    """True when a message is there; cheaper than to try."""
    return bool(int(socket.get(_EVENTS)) & _READABLE)


def receive_parts(socket: zmq.Socket[bytes]) -> list[bytes]:
    """All parts of the next message.

    Raises:
        zmq.Again: when there is none.
    """
    receive, get = socket.recv, socket.get
    parts = [receive(NOW)]
    while get(RCVMORE):
        parts.append(receive(NOW))
    return parts


def send_parts(socket: zmq.Socket[bytes], route: Sequence[bytes], frames: Sequence[Buffer]) -> None:
    """Send a route and five frames; a large content must not be changed until it went.

    Raises:
        zmq.ZMQError: when the first part cannot be sent now; after it, all others can.
    """
    send, (header, serializer, content, msgid, signature) = socket.send, frames
    for part in route:
        send(part, MORE)
    send(header, MORE)
    send(serializer, MORE)
    if len(content) < WITHOUT_COPY:
        send(content, MORE)
    else:
        send(content, MORE, copy=False)
    send(msgid, MORE)
    send(signature, NOW)
