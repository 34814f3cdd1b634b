"""Watch: what libzmq's monitor tells of a bound socket: strangers, and when its address is free.

Port scanners, browsers and random bytes end inside libzmq, which drops them; its monitor is the
only one that sees them. Nor does libzmq bound how many are connected: who comes when there are
`Limits.strangers` already is hung up::

    event           connections    then
    accepted        below bound    counted
    accepted        at the bound   counted as ``<name>_turned_away``, hung up
    disconnected    any            one less

And libzmq gives an address back some time after a socket was closed,
while whoever stopped an agent may want to start the next one at once.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket as stdlib_socket
import time

import zmq

from ..protocol import limits
from .counters import Counters
from .endpoints import new_monitor, receive_event
from .loop import Loop

logger = logging.getLogger("pzc.watch")

LINGER_MS = 1000
"""Milliseconds that libzmq tries to deliver what was sent before a socket was closed."""

RELEASE_TIMEOUT = 1.0
"""Seconds to wait for an address to become free."""

_CLOSED = zmq.EVENT_CLOSED | zmq.EVENT_CLOSE_FAILED
_CAME, _WENT = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


_TELL = 60.0  # seconds between two lines in the log


def hang_up(descriptor: int) -> None:
    """End a connection of libzmq, which notices that and closes its descriptor."""
    with contextlib.suppress(OSError), stdlib_socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(stdlib_socket.SHUT_RDWR)


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
        self._connected: set[int] = set()
        self._told = -math.inf
        self._monitor = new_monitor(socket, _FAILED | _CLOSED | _CAME | _WENT)
        loop.register(self._monitor, self._on_event)

    def _on_event(self) -> None:
        while self._monitor.poll(0):
            self._take()

    def _take(self) -> bool:
        event, value, _ = receive_event(self._monitor)
        if event & _FAILED:
            self._counters.add(self._name)
        elif event == _CAME:
            self._came(value)
        elif event == _WENT:
            self._connected.discard(value)
        return bool(event & _CLOSED)

    def _came(self, descriptor: int) -> None:
        if len(self._connected) >= limits.current.strangers:
            self._counters.add(f"{self._name}_turned_away")
            if time.monotonic() - self._told > _TELL:
                self._told = time.monotonic()
                logger.warning(
                    "%s has %d connections and takes no more: see whose they are; [limits] strangers",
                    self._endpoint, len(self._connected),
                )  # fmt: skip
            hang_up(descriptor)
        self._connected.add(descriptor)

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
