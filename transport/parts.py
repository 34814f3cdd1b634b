"""Parts: messages of several parts in and out of a ZeroMQ socket.

The library's own ways (``recv_multipart``, ``send_multipart``, ``get``) look at members of an enumeration or
at options that are not used here, for every part, which takes longer than to send it.
"""

from __future__ import annotations

import os
import socket as stdlib_socket
from collections.abc import Callable, Sequence

import zmq
import zmq.backend

from ..protocol.frames import Buffer

NOW = int(zmq.NOBLOCK)
MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)

WITHOUT_COPY = 1 << 16
"""Contents from this many bytes on go to and come from libzmq without a copy."""

_READABLE = int(zmq.POLLIN)

send_part = zmq.backend.Socket.send
"""As the socket's own, without its options: socket, part, flags."""


def is_readable(socket: zmq.Socket[bytes]) -> bool:
    """True when a message is there; cheaper than to try."""
    return bool(zmq.zmq_poll([(socket, _READABLE)], 0))


def receive_parts(
    socket: zmq.Socket[bytes], arrived: Callable[[zmq.Frame], None] | None = None
) -> list[Buffer]:
    """All parts of the next message; a large one is a read-only view.

    Args:
        socket: where it is.
        arrived: given the last part as it came.

    Raises:
        zmq.Again: when there is none.
    """
    receive = socket.recv
    parts: list[Buffer] = []
    while True:
        frame = receive(NOW, False)
        parts.append(frame.bytes if len(frame) < WITHOUT_COPY else frame.buffer.toreadonly())
        if not frame.more:
            if arrived is not None:
                arrived(frame)
            return parts


def reached_at(frame: zmq.Frame) -> str:
    """Host of this machine that the sender of a part reached, as endpoints name it; empty when unknown."""
    try:
        descriptor = os.dup(int(frame.get(zmq.SRCFD)))
    except (OSError, ValueError, zmq.ZMQError):  # its connection is over
        return ""
    try:
        carrier = stdlib_socket.socket(fileno=descriptor)
    except OSError:  # over, and its number is something else's
        os.close(descriptor)
        return ""
    with carrier:
        try:
            family, name = carrier.family, carrier.getsockname()
        except OSError:
            return ""
    host = name[0] if family in (stdlib_socket.AF_INET, stdlib_socket.AF_INET6) else ""
    return f"[{host}]" if ":" in host else host


def send_parts(
    socket: zmq.Socket[bytes],
    route: Sequence[Buffer],
    frames: Sequence[Buffer],
    whole: zmq.Frame | None = None,
) -> None:
    """Send a route and five frames; a large content must not be changed until it went.

    Args:
        socket: where.
        route: what goes before the frames.
        frames: of the message.
        whole: the content as it is to go; None when that is found here.

    Raises:
        zmq.ZMQError: when the first part cannot be sent now; after it, all others can.
    """
    send, (header, serializer, content, msgid, signature) = send_part, frames
    # Before anything is sent: what fails behind the first part would join this message and the next one.
    if whole is None and len(content) >= WITHOUT_COPY:
        whole = zmq.Frame(content, copy=False)
    for part in route:
        send(socket, part, MORE)
    send(socket, header, MORE)
    send(socket, serializer, MORE)
    if whole is None:
        send(socket, content, MORE)
    else:
        socket.send(whole, MORE, copy=False)
    send(socket, msgid, MORE)
    send(socket, signature, NOW)
