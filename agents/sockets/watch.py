"""Watch: what libzmq's monitor tells of a bound socket: strangers, and when its address is free.

Port scanners, browsers and random bytes end inside libzmq, which drops them; its monitor is the
only one that sees them. And libzmq gives an address back some time after a socket was closed,
while whoever stopped an agent may want to start the next one at once.
"""

from __future__ import annotations

import logging
import math
import time

import zmq
from zmq.utils.monitor import recv_monitor_message

from ..counters import Counters
from .endpoints import new_monitor
from .loop import Loop

logger = logging.getLogger("pzc.watch")

LINGER_MS = 1000
"""Milliseconds that libzmq tries to deliver what was sent before a socket was closed."""

RELEASE_TIMEOUT = 1.0
"""Seconds to wait for an address to become free."""

_CLOSED = zmq.EVENT_CLOSED | zmq.EVENT_CLOSE_FAILED
_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class Watch:
    """Watches one bound socket; I/O thread only.

    Args:
        loop: owner of the socket.
        socket: the bound socket.
        endpoint: where it is bound; empty for nowhere.
        counters: where the count of failed handshakes goes.
        name: of that count.
    """

    def __init__(
        self, loop: Loop, socket: zmq.Socket[bytes], endpoint: str, counters: Counters, name: str
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._endpoint = endpoint
        self._counters = counters
        self._name = name
        self._monitor = new_monitor(socket, _FAILED | _CLOSED)
        loop.register(self._monitor, self._on_event)

    def _on_event(self) -> None:
        while self._monitor.poll(0):
            self._take()

    def _take(self) -> bool:
        event = recv_monitor_message(self._monitor)["event"]
        if event & _FAILED:
            self._counters.add(self._name)
        return bool(event & _CLOSED)

    def close(self) -> None:
        """Close the socket after what was sent; its address is free when this returns.

        Unbinding would free it as well, and drop what connections over tcp and ipc have not sent yet.
        """
        self._loop.unregister(self._monitor)
        self._loop.unregister(self._socket)
        inproc = self._endpoint.startswith("inproc://")
        if inproc:
            self._socket.unbind(self._endpoint)
        self._socket.close(LINGER_MS)
        if self._endpoint and not inproc:
            self._wait_until_free()
        self._monitor.close(0)

    def _wait_until_free(self) -> None:
        deadline = time.monotonic() + RELEASE_TIMEOUT
        free = False
        while not free and (left := deadline - time.monotonic()) > 0:
            free = bool(self._monitor.poll(math.ceil(left * 1000))) and self._take()
        if not free:
            logger.info("%s was not given back in time", self._endpoint)
