"""Pool: the connections that are open to one endpoint, and who uses it.

::

    transport   first                            else
    auto        idle or new unix                 idle or new tcp
    unix        idle or new unix                 PeerLost
    tcp         idle or new tcp                  -

A peer that could not be reached over a Unix socket is not tried again there until it is met anew. A peer that
was reached at a port that is not its own stands behind a forwarder, whose way is respected.

Connections that nobody has used for `Limits.connection_idle` seconds are closed, all but one while somebody
holds the peer; and there are never more idle ones than there are holders, once one has left. A pool that is
empty then is forgotten, and who its peer is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ...protocol import limits
from ...protocol.errors import PeerLost
from ...protocol.frames import PZC00
from ...transport import families, greeting
from ...transport.counters import Counters
from ...transport.dealer_socket import DealerSocket
from ...transport.endpoints import is_direct, is_named, split
from ...transport.exchange import UnixExchange
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.timers import until_next
from ...transport.wire import Protocol
from .abort import AbortSignal
from .connection import Connection, Sealed
from .dialling import settle

MAX_IDLE = 8
"""Idle connections kept per endpoint and kind."""


_READ = 1.0
"""Seconds in which a peer has read what was posted over a connection before that was closed."""


class Pool:
    """Connections to one endpoint; safe from any thread.

    Args:
        pools: of the agent.
        endpoint: of the peer.

    Attributes:
        users: how many hold the peer.
    """

    def __init__(self, pools: Pools, endpoint: str) -> None:
        self.users = 0
        self._pools = pools
        self._idle: dict[str, list[Connection]] = {"unix": [], "tcp": []}
        self._unix, self._tcp = self._idle["unix"], self._idle["tcp"]
        self._without_unix = ""
        # Over inproc nothing tells that the peer was replaced, and a new socket costs little.
        self._room = 0 if pools.closed or endpoint.startswith("inproc://") else MAX_IDLE

    def take(self, peer: Peer, transport: str, deadline: float) -> Connection:
        """The best connection to a peer, by the deadline; give it back with `give` or `discard`.

        Args:
            peer: who is there.
            transport: as in the module's docstring.
            deadline: in monotonic seconds.

        Raises:
            AgentClosed: when the agent was stopped.
            PeerLost: when there is no such way.
        """
        if transport != "tcp":
            idle = self._unix
            while idle:
                try:
                    connection = idle.pop()
                except IndexError:  # another thread was quicker
                    break
                if connection.peer is peer or connection.peer.agent_id == peer.agent_id:
                    return connection
                self.discard(connection)
            if transport == "unix" or (
                peer.agent_id != self._without_unix and peer.has_lane and is_direct(peer)
            ):
                made = self._new_unix(peer, transport == "unix", deadline)
                if made is not None:
                    return made
        idle = self._tcp
        while idle:
            try:
                connection = idle.pop()
            except IndexError:
                break
            if connection.transport.idle():  # a ZeroMQ socket takes messages for a peer that has gone
                if connection.peer is not peer:
                    connection.turn_to(peer)
                return connection
            self.discard(connection)
        return self._pools.opened(lambda: self._pools.tcp(peer, deadline))

    def _new_unix(self, peer: Peer, forced: bool, deadline: float) -> Connection | None:
        try:
            return self._pools.opened(lambda: self._pools.unix(peer, deadline))
        except PeerLost:
            if forced:
                raise
            self._without_unix = peer.agent_id
            return None

    def give(self, connection: Connection) -> None:
        """Return a connection on which nothing is outstanding."""
        idle = self._idle[connection.kind]
        if len(idle) >= self._room:
            self.discard(connection)
            return
        connection.used = True
        idle.append(connection)
        if not self._room:  # retired meanwhile
            self.clear()

    def discard(self, connection: Connection) -> None:
        """Close a connection that cannot be used again: its reply never came."""
        unread = connection.unread.copy()
        connection.close()
        self._pools.let_go(connection)
        if unread:  # what was posted is still on its way
            self._pools.hold(unread)

    def clear(self, keep: int = 0) -> None:
        """Close the idle connections, but for those that were used last; every way is tried again."""
        if not keep:
            self._without_unix = ""
        for idle in (self._unix, self._tcp):
            while len(idle) > keep:
                with suppress(IndexError):  # another thread was quicker
                    self.discard(idle.pop(0))

    def retire(self) -> None:
        """Close what is idle, and keep nothing of what is given back from now on."""
        self._room = 0
        self.clear()

    def sweep(self, now: float) -> None:
        """Close what was found idle `connection_idle` seconds ago, but for one while somebody is here.

        Args:
            now: monotonic seconds.
        """
        before = now - limits.current.connection_idle
        for idle in (self._unix, self._tcp):
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
        return not (self.users or self._unix or self._tcp)


class Pools:
    """The pools of one agent; safe from any thread.

    Args:
        loop: whose context the sockets are of.
        protocol: of the agent.
        agent_id: of the agent.
        rep_endpoint: of the agent, for originals.
        counters: where oddities are counted.
        abort: set when the agent is stopped.

    Attributes:
        open: connections, idle ones as well, and what is being opened.
        closed: nothing is given out any more.
        on_unused: told each endpoint that nobody holds, or has asked for long.
    """

    def __init__(
        self, loop: Loop, protocol: Protocol, agent_id: str, rep_endpoint: str, counters: Counters,
        abort: AbortSignal,
    ) -> None:  # fmt: skip
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._rep_endpoint = rep_endpoint
        self._counters = counters
        self._abort = abort
        self._of: dict[str, Pool] = {}
        self._lock = threading.Lock()
        self._returned = threading.Event()
        self._sweeping = False
        self.open: set[object] = set()
        self.closed = False
        self.on_unused: Callable[[str], object] = bool
        self.find = self._of.get

    def of(self, endpoint: str) -> Pool:
        """The pool of an endpoint."""
        pool = self._of.get(endpoint)
        if pool is None:
            with self._lock:
                pool = self._of.setdefault(endpoint, Pool(self, endpoint))
        return pool

    def join(self, endpoint: str) -> Callable[[], None]:
        """Somebody holds the peer at an endpoint from now on.

        Returns:
            What ends that; any thread, and more than once.
        """
        with self._lock:
            pool = self._of.setdefault(endpoint, Pool(self, endpoint))
            pool.users += 1
        token = [pool]

        def leave() -> None:
            with self._lock:
                if not token:
                    return
                token.pop().users -= 1
            pool.clear(keep=pool.users)
            self._sweep_later()

        return leave

    def opened(self, make: Callable[[], Connection]) -> Connection:
        """A new connection, counted as in use from before it is made.

        Raises:
            AgentClosed: when the agent was stopped.
        """
        place = object()
        self.open.add(place)
        try:
            if self.closed:
                raise self._abort.error()
            connection = make()
            self.open.add(connection)
        finally:
            self.let_go(place)
        self._sweep_later()
        return connection

    def unix(self, peer: Peer, deadline: float) -> Connection:
        """A new Unix connection to a peer.

        Raises:
            PeerLost: when it has none for this user on this host.
        """
        stream, nonce = greeting.connect(peer.agent_id, peer.endpoint, deadline)
        return Connection(stream, "unix", peer, self._protocol, self._agent_id, self._counters, f"/{nonce}")

    def dedicated(self, peer: Peer, deadline: float, serializer: str | None = None) -> UnixExchange:
        """As `unix`, for whoever sends and receives himself, mostly in that serializer."""
        stream, nonce = greeting.connect(peer.agent_id, peer.endpoint, deadline)
        sealed = Sealed(peer, self._protocol, self._agent_id, self._counters, f"/{nonce}", stream, serializer)
        return sealed.over(stream)

    def tcp(self, peer: Peer, deadline: float) -> Connection:
        """A new ZeroMQ connection to an endpoint.

        Raises:
            PeerLost: when its host name leads nowhere by the deadline.
        """
        settle(peer.endpoint, deadline, self._abort)
        if is_named(families.place(peer.endpoint)):
            host, _ = split(peer.endpoint)
            error = PeerLost(
                f"{peer.endpoint} cannot be reached: no address of {host} is known here; is it spelt right?"
            )
            error.absent = True
            raise error
        dealer = DealerSocket(self._loop.context, peer.endpoint)
        return Connection(dealer, "tcp", peer, self._protocol, self._own(peer), self._counters)

    def sealed(self, peer: Peer) -> Sealed:
        """What makes and reads the messages of a ZeroMQ connection that is somebody else's."""
        return Sealed(peer, self._protocol, self._own(peer), self._counters)

    def _own(self, peer: Peer) -> str:
        """What this agent calls itself there."""
        return self._rep_endpoint if peer.dialect == PZC00 else self._agent_id

    def let_go(self, used: object) -> None:
        """Something is open no longer."""
        self.open.discard(used)
        if self.closed:
            self._returned.set()

    def hold(self, unread: dict[int, object]) -> None:
        """Hold what was posted over a connection that is closed now, until its peer has surely read it."""
        self._loop.call_later(_READ, unread.clear)

    def forget(self, endpoint: str) -> None:
        """Close the idle connections to an endpoint."""
        pool = self._of.get(endpoint)
        if pool is not None:
            pool.clear()

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(until_next(limits.current.connection_idle / 2), self._sweep)

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
        if self._of and not self.closed:
            self._sweep_later()

    def close(self, timeout: float = 2.0) -> None:
        """Give out nothing more, close every connection, and wait until none is in use."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self.closed = True
            pools = list(self._of.values())
        for pool in pools:
            pool.retire()
        while self.open and (left := deadline - time.monotonic()) > 0:
            self._returned.wait(left)
            self._returned.clear()
