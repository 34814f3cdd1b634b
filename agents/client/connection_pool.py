"""Connection pool: the connections to one peer; a call takes one, asks, and gives it back.

::

    transport   the first that is there, or can be opened
    auto        Unix stream (same host, same user), TCP stream, REP
    unix        Unix stream; else PeerLost
    tcp         TCP stream, REP
    rep         REP; for handshakes, questions about a call, and calls that a stream did not take

A Unix stream is opened in the calling thread. A TCP stream is opened beside a call that goes by REP, so a
firewall that drops packets delays no call. A way that could not be opened is tried again after `RETRY_AFTER`
seconds, or when the peer is met again. A peer behind a forwarder is asked by REP only.

Connections that were idle for `Limits.connection_idle` seconds are closed, all but one while somebody holds
the peer; and there are never more idle ones than there are holders, once one has left. A pool that is empty,
and whose peer nobody holds, is forgotten, and who its peer is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ...protocol import limits
from ...protocol.errors import CallTimeout, PeerLost, PzcError
from ...transport.peer import Peer
from ...transport.timers import until_next
from .connection import RepConnection
from .connector import Connector
from .pooled_connection import PooledConnection, has_stream

logger = logging.getLogger("pzc.requests")

MAX_IDLE = 8
"""Idle connections kept per endpoint and kind."""

RETRY_AFTER = 30.0
"""Seconds until a stream that could not be opened is tried again."""

_UNIX_TIMEOUT, _TCP_TIMEOUT = 1.0, 5.0
"""Seconds in which a stream is connected and its handshake done."""

_WAYS = {"auto": ("unix", "tcp", "rep"), "unix": ("unix",), "tcp": ("tcp", "rep"), "rep": ("rep",)}

Connection = RepConnection | PooledConnection


class ConnectionPool:
    """Connections to one endpoint; safe from any thread.

    Args:
        connector: opens connections.
        endpoint: of the peer.

    Attributes:
        users: how many hold the peer.
    """

    def __init__(self, connector: Connector, endpoint: str) -> None:
        self.users = 0
        self._connector = connector
        self._idle: dict[str, list[Connection]] = {"unix": [], "tcp": [], "rep": []}
        self._room = dict.fromkeys(self._idle, 0 if connector.closed else MAX_IDLE)
        if endpoint.startswith("inproc://"):  # where nothing tells that the peer was replaced
            self._room["rep"] = 0
        self._pauses: dict[str, tuple[str, float]] = {}  # agent, and when a way to it is tried again

    def take(self, peer: Peer, transport: str, deadline: float) -> Connection:
        """The best connection to a peer, by the deadline; give it back with `give` or `discard`.

        Args:
            peer: who is there.
            transport: as in the module's docstring.
            deadline: in monotonic seconds.

        Raises:
            AgentClosed: when the agent was stopped.
            PeerLost: when there is no such way.
            SignatureError, VersionError, RemoteProtocolError: when a handshake was refused.
        """
        for kind in _WAYS[transport]:
            idle = self._idle[kind]
            while idle:
                try:
                    connection = idle.pop()
                except IndexError:  # another thread was quicker
                    break
                if connection.idle() and (connection.peer is peer or connection.turn_to(peer)):
                    return connection
                self.discard(connection)
            if kind == "rep":
                break
            if kind == "tcp":
                self._open_beside(peer)
            elif (made := self._open_unix(peer, transport == "unix", deadline)) is not None:
                return made
        return self._connector.rep(peer, deadline)

    def _open_unix(self, peer: Peer, forced: bool, deadline: float) -> PooledConnection | None:
        if not (forced or self._may_open("unix", peer)):
            return None
        until = min(deadline, time.monotonic() + _UNIX_TIMEOUT)
        try:
            return self._connector.stream(peer, "unix", until)
        except (PeerLost, CallTimeout) as exc:
            self._pause("unix", peer)
            if forced:
                raise PeerLost(f"{peer.endpoint} cannot be reached with transport='unix': {exc}") from exc
            return None

    def _open_beside(self, peer: Peer) -> None:
        """Open a TCP stream in a helper's thread, one at a time."""
        if self._may_open("tcp", peer):
            self._pause("tcp", peer)
            self._connector.run_beside(partial(self._open_tcp, peer))

    def _open_tcp(self, peer: Peer) -> None:
        try:
            connection = self._connector.stream(peer, "tcp", time.monotonic() + _TCP_TIMEOUT)
        except PzcError as exc:
            logger.info("%s is asked by REP: no stream to it could be opened: %s", peer.endpoint, exc)
            return
        self._pauses.pop("tcp", None)
        self.give(connection)

    def give(self, connection: Connection) -> None:
        """Return a connection on which nothing is outstanding."""
        kind = connection.kind
        idle = self._idle[kind]
        if len(idle) >= self._room[kind]:
            self.discard(connection)
            return
        connection.used = True
        idle.append(connection)
        if not self._room[kind]:  # retired meanwhile
            self.clear()

    def discard(self, connection: Connection) -> None:
        """Close a connection that cannot be used again."""
        connection.close()
        self._connector.let_go(connection)
        if connection.unread:  # what was posted is still on its way
            self._connector.hold(connection.unread)

    def lose(self, connection: Connection) -> None:
        """A stream broke before it took a request: the others surely did, and a new one would."""
        self.clear()
        self._pause(connection.kind, connection.peer)

    def _pause(self, kind: str, peer: Peer) -> None:
        self._pauses[kind] = peer.agent_id, time.monotonic() + RETRY_AFTER

    def _may_open(self, kind: str, peer: Peer) -> bool:
        agent, until = self._pauses.get(kind, ("", 0.0))
        return has_stream(peer, kind) and (agent != peer.agent_id or time.monotonic() >= until)

    def clear(self, keep: int = 0) -> None:
        """Close the idle connections, but for those that were used last; every way is tried again."""
        if not keep:
            self._pauses.clear()
        for idle in self._idle.values():
            while len(idle) > keep:
                with suppress(IndexError):  # another thread was quicker
                    self.discard(idle.pop(0))

    def retire(self) -> None:
        """Close what is idle, and keep nothing of what is given back from now on."""
        self._room = dict.fromkeys(self._room, 0)
        self.clear()

    def sweep(self, now: float) -> None:
        """Close what was found idle `connection_idle` seconds ago, but for one while somebody is here.

        Args:
            now: monotonic seconds.
        """
        before = now - limits.current.connection_idle
        for idle in self._idle.values():
            for connection in idle.copy():
                if connection.used:
                    connection.since, connection.used = now, False
                else:  # what was posted was read long since
                    connection.unread.clear()
            with suppress(IndexError):  # another thread was quicker
                while len(idle) > min(1, self.users) and not idle[0].used and idle[0].since < before:
                    self.discard(idle.pop(0))

    @property
    def empty(self) -> bool:
        """True when nothing is idle and nobody holds the peer."""
        return not (self.users or any(self._idle.values()))


class Pools:
    """The pools of one agent; safe from any thread.

    Args:
        connector: opens connections.

    Attributes:
        connector: opens connections.
        on_unused: told each endpoint that nobody holds, or has asked for long.
        find: gives the pool of an endpoint, or None.
    """

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self._of: dict[str, ConnectionPool] = {}
        self._lock = threading.Lock()
        self._sweeping = False
        self.on_unused: Callable[[str], object] = bool
        self.find = self._of.get

    def of(self, endpoint: str) -> ConnectionPool:
        """The pool of an endpoint."""
        with self._lock:
            pool = self._of.get(endpoint)
            if pool is None:
                pool = self._of[endpoint] = ConnectionPool(self.connector, endpoint)
                self._sweep_later()
        return pool

    def join(self, endpoint: str) -> Callable[[], None]:
        """Somebody holds the peer at an endpoint from now on.

        Returns:
            What ends that; any thread, and more than once.
        """
        with self._lock:
            pool = self._of.setdefault(endpoint, ConnectionPool(self.connector, endpoint))
            pool.users += 1
            self._sweep_later()
        token = [pool]

        def leave() -> None:
            with self._lock:
                if not token:
                    return
                token.pop().users -= 1
            pool.clear(keep=pool.users)
            self._sweep_later()

        return leave

    def forget(self, endpoint: str) -> None:
        """Close the idle connections to an endpoint."""
        pool = self._of.get(endpoint)
        if pool is not None:
            pool.clear()

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self.connector.call_later(until_next(limits.current.connection_idle / 2), self._sweep)

    def _sweep(self) -> None:
        now = time.monotonic()
        with self._lock:
            for endpoint, pool in list(self._of.items()):
                pool.sweep(now)
                if pool.empty:
                    pool.retire()
                    del self._of[endpoint]
                    self.on_unused(endpoint)
            self._sweeping = False
        if self._of and not self.connector.closed:
            self._sweep_later()

    def close(self, timeout: float = 2.0) -> None:
        """Give out nothing more, close every connection, and wait until none is in use."""
        with self._lock:
            self.connector.closed = True
            pools = list(self._of.values())
        for pool in pools:
            pool.retire()
        self.connector.close(timeout)
