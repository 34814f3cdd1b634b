"""Socket type: what kind of ZeroMQ socket is bound at an endpoint, as it says itself."""

from __future__ import annotations

import socket as sockets
import time

from . import endpoints

GREETING = b"\xff" + bytes(8) + b"\x7f\3\0" + b"NULL".ljust(20, b"\0") + bytes(32)
"""The first bytes of a connection of ZMTP 3 without encryption."""

_PROPERTY = b"\x0bSocket-Type\0\0\0"
_MOST_SAID = 1024


def hello(kind: bytes) -> bytes:
    """All that a socket of a type says of itself to a new connection."""
    ready = b"\5READY" + _PROPERTY + bytes((len(kind),)) + kind
    return GREETING + bytes((4, len(ready))) + ready


def socket_type(endpoint: str, timeout: float) -> str:
    """The type that a socket tells to a new connection; empty when none answers, or it tells none.

    Args:
        endpoint: ``tcp://`` or ``ipc://``.
        timeout: seconds.
    """
    until, heard = time.monotonic() + timeout, b""
    try:
        with _connected(endpoint, timeout) as connection:
            connection.sendall(hello(b"SUB"))
            while not (told := _told(heard)) and len(heard) < _MOST_SAID:
                connection.settimeout(max(0.001, until - time.monotonic()))
                said = connection.recv(_MOST_SAID)
                if not said:
                    return ""
                heard += said
            return told
    except (OSError, ValueError):
        return ""


def _connected(endpoint: str, timeout: float) -> sockets.socket:
    if not endpoint.startswith("ipc://"):
        host, port = endpoints.split(endpoint)
        return sockets.create_connection((host.strip("[]"), int(port)), timeout)
    connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(endpoint.removeprefix("ipc://"))
    except BaseException:
        connection.close()
        raise
    return connection


def _told(heard: bytes) -> str:
    _, found, rest = heard[len(GREETING) :].partition(_PROPERTY)
    size = rest[0] if rest else 0
    return rest[1 : 1 + size].decode("ascii", "replace") if found and size and len(rest) > size else ""
