"""Greeting: how two processes of one user on one host find each other's Unix sockets.

The listening socket has an abstract name, which leaves nothing behind and follows from the agent's id.
Whoever connects is told a fresh nonce, which stands behind both ids under the signatures of the connection.
"""

from __future__ import annotations

import math
import os
import socket as sockets
import threading
import time
from functools import partial

from ..protocol.errors import PeerLost, PzcError
from ..protocol.frames import PZC01, Buffer, format_header
from ..shm import machine
from .inherited import LANE, mine
from .link_stream import LinkStream, peer_uid

GREETING = 1.0
"""Seconds that a greeting on a Unix connection may take."""


_NONCE_SIZE = 32


def address(agent_id: str) -> str:
    """Where the agent of that id listens."""
    return f"{LANE.decode()}{agent_id}"


def greeting(agent_id: str, nonce: str) -> list[Buffer]:
    """What whoever connects to that agent receives first."""
    return [format_header(PZC01, agent_id, "", 0), b"", nonce.encode(), b"", b""]


def connect(agent_id: str, endpoint: str, deadline: float = math.inf) -> tuple[LinkStream, str]:
    """A connection to the agent of that id on this host, and the nonce of the connection.

    It takes `greeting` seconds at most, and ends at the deadline (monotonic seconds).

    Raises:
        PeerLost: when there is none for this user.
    """
    if not machine.LANE:
        raise PeerLost(
            f"{endpoint} cannot be reached with transport='unix': this system has no Unix sockets that tell "
            "their user; use transport='tcp'"
        )
    now = time.monotonic()
    until = min(deadline, now + GREETING)
    try:
        socket = mine(partial(sockets.socket, sockets.AF_UNIX, sockets.SOCK_STREAM))
    except OSError as exc:
        raise PeerLost(f"{endpoint} cannot be connected to: {exc} (see ulimit -n)") from exc
    try:
        socket.settimeout(max(0.001, until - now))
        socket.connect(address(agent_id))
        if peer_uid(socket) != os.geteuid():
            raise PeerLost(f"the fast lane of {endpoint} belongs to another user")
        socket.settimeout(None)
    except OSError as exc:
        socket.close()
        raise PeerLost(f"{endpoint} has no fast lane on this host: {exc}") from exc
    stream = LinkStream(socket, endpoint)
    try:
        greeted = stream.receive(until, threading.Event())
        nonce = bytes(greeted[2]).decode("ascii", "replace")
        if greeted[0] != format_header(PZC01, agent_id, "", 0) or len(nonce) != _NONCE_SIZE:
            raise PeerLost(f"the fast lane of {endpoint} did not greet as agent {agent_id}")
    except BaseException as exc:
        stream.close()
        if isinstance(exc, PeerLost) or not isinstance(exc, PzcError):
            raise
        raise PeerLost(f"the fast lane of {endpoint} did not answer: {exc}") from exc
    return stream, nonce
