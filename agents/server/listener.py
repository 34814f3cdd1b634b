"""Listener: the sockets of one agent at which calls arrive over streams, Unix and TCP.

The I/O thread accepts. Each connection has a thread of its own, which shakes hands, reads, runs and answers::

    connection      event                                          next
    -               accepted                                       in handshake
    in handshake    the key is known and may have one more         open
    in handshake    refused, `HANDSHAKE` seconds, 64 newer ones    closed
    open            idle for `IDLE` seconds, hung up, broke rules  closed
    open            the agent stops                                closed, after the call that runs

Strangers can only fill the handshakes, where the newest pushes out the oldest, and no key can have more than
half of what is open: so neither keeps out the clients of another key.
"""

from __future__ import annotations

import errno
import logging
import os
import socket as sockets
import threading
from collections.abc import Iterator
from functools import partial
from itertools import count
from time import monotonic

from ...delivery.throttle import Throttle
from ...protocol import limits
from ...protocol.errors import AgentClosed, LocalLimit, PeerLost, PzcError
from ...protocol.frames import PZC01, format_header
from ...protocol.handshake import RANDOM_SIZE, ServerHandshake
from ...shm import machine
from ...transport.connecting import accept_handshake, listen_tcp, listen_unix, stream_address
from ...transport.counters import Counters
from ...transport.inherited import mine
from ...transport.link_stream import has_ended
from ...transport.loop import Loop
from ...transport.threads import begin
from ...transport.wire import Protocol
from .call import Asker
from .connection import AcceptedConnection
from .dispatcher import Dispatcher

logger = logging.getLogger("pzc.stream")

CLOSE_TIMEOUT = 2.0
"""Seconds that `Listener.close` waits for the answers of the calls that run."""

HANDSHAKE = 2.0
"""Seconds that a client has for its handshake."""

_USER = os.geteuid() if machine.LANE else None
_HANDSHAKES = 64
_BATCH = 16
_PAUSE = 0.25  # seconds without accepting, once no descriptor, memory or thread was left for a connection
_DYING = 0.25  # seconds within which a process whose connections its end has closed is seen to have ended
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """The listening sockets of one agent, and the connections that they accepted.

    Args:
        loop: accepts connections.
        protocol: checks handshakes.
        agent_id: of this agent.
        endpoint: where to listen on TCP; empty for nowhere.
        counters: where everything is counted.
        dispatcher: answers requests in the thread that brings them.

    Attributes:
        name: of the Unix socket, in the abstract space; empty without one.
        endpoint: of the TCP socket, with its real port; empty without one.

    Raises:
        ConfigError, BindError: for the endpoint.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        agent_id: str,
        endpoint: str,
        counters: Counters,
        dispatcher: Dispatcher,
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._agent_id, self._header = agent_id, format_header(PZC01, agent_id, "", 0)
        self._counters = counters
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._handshakes: dict[AcceptedConnection, threading.Thread] = {}  # the oldest first
        self._open: dict[AcceptedConnection, threading.Thread] = {}
        self._refusals = Throttle(1.0)
        self._resting = self._closed = False
        self._listening: list[sockets.socket] = []
        self.name = self.endpoint = ""
        if PZC01 not in protocol.codec.accept:
            return
        if endpoint:
            tcp, self.endpoint = listen_tcp(endpoint)
            self._listening.append(tcp)
        unix = listen_unix(agent_id)
        if unix is not None:
            self._listening.append(unix)
            self.name = stream_address(agent_id)[1:]

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        """Accept connections; I/O thread."""
        for listening in self._listening:
            listening.setblocking(False)
            self._loop.register(listening.fileno(), partial(self._on_connect, listening))

    def stop_listening(self) -> None:
        """Accept no more; I/O thread."""
        self._unregister()
        for listening in self._listening:
            listening.close()
        self._listening.clear()

    def _unregister(self) -> None:
        for listening in self._listening:
            self._loop.unregister(listening.fileno())

    def _on_connect(self, listening: sockets.socket) -> None:
        for _ in range(_BATCH):
            try:
                accepted = mine(lambda: listening.accept()[0])
                self._take(accepted)
            except BlockingIOError:
                return
            except (OSError, LocalLimit) as exc:
                if isinstance(exc, LocalLimit) or exc.errno in _SCARCE:
                    self._rest(exc)
                    return
            else:
                self._resting = False

    def _take(self, accepted: sockets.socket) -> None:
        with accepted:  # which the connection takes over
            connection = AcceptedConnection(
                accepted, self._protocol, self._dispatcher, self._counters, self._loop
            )
        if connection.user not in (None, _USER):
            self._counters.add("stream_turned_away")
            connection.end()
            return
        thread = threading.Thread(target=self._serve, args=(connection,), name="pzc-stream", daemon=True)
        with self._lock:
            oldest = next(iter(self._handshakes)) if len(self._handshakes) >= _HANDSHAKES else None
            if oldest is not None:
                del self._handshakes[oldest]
            self._handshakes[connection] = thread
        if oldest is not None:
            self._counters.add("stream_pushed_out")
            oldest.end()
        try:
            begin(thread)
        except LocalLimit:
            self._forget(connection)
            connection.end()
            raise

    def _rest(self, error: Exception) -> None:
        """Accept nothing for a moment: a connection that cannot be accepted keeps its socket readable."""
        self._counters.add("stream_rests")
        if not self._resting:
            self._resting = True
            logger.warning(
                "agent %s accepts no more connections for now, and its clients call it over REP: %s; close "
                "what is not needed, or raise the limit (ulimit -n, ulimit -u)", self._agent_id, error,
            )  # fmt: skip
        self._unregister()
        self._loop.call_later(_PAUSE, self.start)

    def _serve(self, connection: AcceptedConnection) -> None:
        """Shake hands, and answer until the connection ends; in its thread."""
        try:
            asker = self._meet(connection)
            if asker is not None:
                self._answer(connection, asker)
        except PzcError as exc:
            logger.debug("a connection from %s ended: %s", connection.place, exc)
        except Exception:
            logger.exception("a connection from %s failed", connection.place)
        finally:
            connection.stream.close()
            self._forget(connection)

    def _meet(self, connection: AcceptedConnection) -> Asker | None:
        """Who asks over a connection; None for a client that is refused, or gone."""
        protocol = self._protocol
        sessions = partial(self._admit, connection, count())
        handshake = ServerHandshake(
            protocol.codec, self._agent_id, protocol.epoch, connection.kind, os.urandom(RANDOM_SIZE), sessions
        )
        try:
            agreement = accept_handshake(connection.stream, handshake, monotonic() + HANDSHAKE)
        except AgentClosed:  # pushed out, or the agent stops
            return None
        except PzcError as exc:
            self._counters.add("stream_refused")
            with self._lock:
                logs = self._refusals.admit(monotonic())
            if logs:
                logger.info("a connection from %s was refused: %s", connection.place, exc)
            return None
        self._counters.add("stream_connections")
        return connection.agree(agreement, self._header)

    def _admit(
        self, connection: AcceptedConnection, asked: Iterator[int], session: str, agent_id: str, key_id: str
    ) -> None:
        """Give a connection its place, once its key is proved: without a key at once, else when asked again.

        Raises:
            PeerLost: when newer ones have pushed it out, or the agent or the key has as many as it may have.
        """
        most = limits.current.connections
        share = max(1, most // 2) if key_id else most  # without keys all clients are one
        with self._lock:
            theirs = sum(each.key_id == key_id for each in self._open)
            full = len(self._open) >= most or theirs >= share
            if full or connection not in self._handshakes:
                self._counters.add("stream_turned_away")
                raise PeerLost(f"this agent takes no more streams: {len(self._open)} are open")
            if next(asked) or not key_id:
                connection.key_id = key_id
                self._open[connection] = self._handshakes.pop(connection)

    def _forget(self, connection: AcceptedConnection) -> None:
        with self._lock:
            self._handshakes.pop(connection, None)
            self._open.pop(connection, None)

    def _answer(self, connection: AcceptedConnection, asker: Asker) -> None:
        """Serve a connection, and release what an agent of this host holds once its process has ended."""
        presence, pid = self._dispatcher.presence, connection.pid
        if pid:
            presence.follow(pid, asker.identity)
        try:
            connection.serve(asker)
        finally:
            connection.stream.close()
            if pid and has_ended(pid, 0.0 if self._closed else _DYING):
                self._loop.call(partial(presence.gone, asker.identity))
            elif pid:
                presence.unfollow(pid, asker.identity)

    def close(self) -> None:
        """End every connection; the calls that run have `CLOSE_TIMEOUT` seconds to be answered."""
        with self._lock:
            self._closed = True
            threads = {**self._handshakes, **self._open}
        deadline = monotonic() + CLOSE_TIMEOUT
        for connection in threads:
            connection.end()
        for connection, thread in threads.items():
            thread.join(max(0.0, deadline - monotonic()))
            connection.stream.close()
