"""Connector: opens the connections of one agent, and knows which of its sockets are in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ...protocol.errors import AgentClosed, LocalLimit, PeerLost
from ...protocol.frames import PZC00
from ...transport import families, greeting
from ...transport.counters import Counters
from ...transport.dealer_socket import DealerSocket
from ...transport.endpoints import is_named, split
from ...transport.exchange import UnixExchange
from ...transport.executor import Executor
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.wire import Protocol
from .abort import AbortSignal
from .connection import RepConnection, Sealed
from .dialling import settle
from .pooled_connection import PooledConnection, open_stream

_READ = 1.0
"""Seconds in which a peer has read what was posted over a connection before that was closed."""


class Connector:
    """Opens connections; safe from any thread.

    Args:
        loop: whose context the sockets are of.
        protocol: of the agent.
        agent_id: of the agent.
        rep_endpoint: of the agent, for originals.
        counters: where oddities are counted.
        abort: set when the agent is stopped.

    Attributes:
        open: connections, idle ones as well, and sockets that are being opened.
        closed: nothing is opened any more.
        call_later: has a function called by the I/O thread after some seconds.
    """

    def __init__(
        self, loop: Loop, protocol: Protocol, agent_id: str, rep_endpoint: str, counters: Counters,
        abort: AbortSignal,
    ) -> None:  # fmt: skip
        self._context, self.call_later = loop.context, loop.call_later
        self._protocol = protocol
        self._agent_id, self._rep_endpoint = agent_id, rep_endpoint
        self._counters = counters
        self._abort = abort
        self._returned = threading.Event()
        self._helpers = Executor("pzc-connect", threads=2)
        self.open: set[object] = set()
        self.closed = False

    def stream(self, peer: Peer, kind: str, deadline: float) -> PooledConnection:
        """A new stream to a peer; arguments and errors as `open_stream`."""
        connection = open_stream(self._protocol, self._agent_id, peer, kind, deadline)
        self.open.add(connection)
        return connection

    def run_beside(self, function: Callable[[], object]) -> None:
        """Run what opens a connection, in a helper's thread."""
        with suppress(AgentClosed, LocalLimit):  # stopped, or no thread is left
            self._helpers.submit(function)

    def rep(self, peer: Peer, deadline: float) -> RepConnection:
        """A new socket that asks a REP endpoint, counted as in use from before it is made.

        Raises:
            AgentClosed: when the agent was stopped.
            PeerLost: when its host name leads nowhere by the deadline.
        """
        place = object()
        self.open.add(place)
        try:
            if self.closed:
                raise self._abort.error()
            settle(peer.endpoint, deadline, self._abort)
            if is_named(families.place(peer.endpoint)):
                host, _ = split(peer.endpoint)
                error = PeerLost(
                    f"{peer.endpoint} cannot be reached: no address of {host} is known here; is it spelt "
                    "right?"
                )
                error.absent = True
                raise error
            dealer = DealerSocket(self._context, peer.endpoint)
            connection = RepConnection(dealer, peer, self._protocol, self._own(peer), self._counters)
            self.open.add(connection)
            return connection
        finally:
            self.let_go(place)

    def dedicated(self, peer: Peer, deadline: float, serializer: str | None = None) -> UnixExchange:
        """A Unix connection for whoever sends and receives himself, mostly in that serializer.

        Raises:
            PeerLost: when it has none for this user on this host.
        """
        stream, nonce = greeting.connect(peer.agent_id, peer.endpoint, deadline)
        sealed = Sealed(peer, self._protocol, self._agent_id, self._counters, f"/{nonce}", serializer)
        return sealed.over(stream)

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
        self.call_later(_READ, unread.clear)

    def close(self, timeout: float) -> None:
        """Wait until no connection is in use; what their calls owe the peer is sent then."""
        deadline = time.monotonic() + timeout
        self._helpers.abandon()
        while self.open and (left := deadline - time.monotonic()) > 0:
            self._returned.wait(left)
            self._returned.clear()
