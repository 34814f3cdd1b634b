"""Carriers: what a link needs to speak with its publisher, under an agent id of its own.

Links outlive the agents whose subscriptions they serve, so they borrow nothing of them but the protocol.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from ....protocol.errors import CallTimeout, PeerLost
from ....protocol.link_messages import Report
from ....transport import loops
from ....transport.counters import Counters
from ....transport.descriptors import Starved
from ....transport.endpoints import is_direct
from ....transport.loop import Loop
from ....transport.peer import Peer
from ....transport.wire import Protocol
from ...client.client import Client
from . import inside
from .inside import Inside, Take
from .reader_transports import OverTcp, OverUnix, ReaderTransport

logger = logging.getLogger("pzc.links")

ATTEMPT = 2.0
"""Seconds that one attempt to open a broken link may take."""

LOOK_ELSEWHERE = 0.5
"""Seconds after which it is asked whether the publisher has moved."""

UNLINK_TIMEOUT = 0.5
"""Seconds that the last word to a publisher over tcp may take."""


class Carriers:
    """Sockets of one link; safe from any thread.

    Args:
        protocol: formats, checks and decodes.
        peer: the publisher.
        take: gets what a publisher of this process sends; None: that goes like from any other.
        poll: the next long poll.
        receiver: its loop.

    Attributes:
        loop: the I/O thread.
        counters: where everything is counted.
    """

    def __init__(
        self,
        protocol: Protocol,
        peer: Peer,
        take: Take | None,
        poll: Callable[[bool], Report],
        receiver: Loop,
    ) -> None:
        self.loop = loops.acquire()
        self.counters = Counters()
        self._protocol = protocol
        self._agent_id = os.urandom(16).hex()
        self._client = Client(self.loop, protocol, self._agent_id, self.counters)
        self._client.learn(peer)
        self._elsewhere = ""
        self._take = take
        self._poll = poll
        self._receiver = receiver
        self._unix: OverUnix | None = None

    def move(self, before: str, endpoint: str) -> bool:
        """The publisher is at another endpoint from now on; False when that is known."""
        known = self._elsewhere or before
        self._elsewhere = endpoint
        return endpoint != known

    def meet(self, endpoint: str, deadline: float) -> Peer:
        """Who is at an endpoint now, or where the publisher went, also meanwhile; errors as `Client.peer`."""
        with suppress(CallTimeout):
            return self._meet(endpoint, min(deadline, monotonic() + LOOK_ELSEWHERE))
        return self._meet(endpoint, deadline)

    def _meet(self, endpoint: str, deadline: float) -> Peer:
        where = self._elsewhere or endpoint
        self._client.forget(where)
        return self._client.peer(where, deadline)

    def lost(self, reason: BaseException) -> None:
        """The transport broke for that reason."""
        self.counters.add("links_lost")
        if self._unix is not None and isinstance(reason, Starved):
            self._unix.hopeless = True

    @property
    def goes_elsewhere(self) -> bool:
        """Whether the next transport is another than the last one, which was refused."""
        return self._unix is not None and self._unix.hopeless

    def transport_again(self, peer: Peer, before: str, deadline: float) -> ReaderTransport:
        """As `transport`, in place of one that broke: the same if it can be had and helps, else another."""
        unix, self._unix = self._unix, None
        if unix is not None and unix.hopeless:
            return self.transport(peer, "tcp", deadline)
        try:
            return self.transport(peer, "auto" if before == "inproc" else before, deadline)
        except PeerLost:
            return self.transport(peer, "tcp", deadline)

    def transport(self, peer: Peer, transport: str, deadline: float) -> ReaderTransport:
        """A transport to a publisher that `ReaderTransport.open` has not been called for.

        Raises:
            PeerLost: when there is no such transport.
        """
        if self._take is not None and transport in ("auto", "inproc"):
            hear = inside.find(peer.agent_id, self._protocol.fingerprint)
            if hear is not None and is_direct(peer):
                return Inside(hear, peer, self._agent_id, self._take)
            if transport == "inproc":
                raise PeerLost(f"{peer.endpoint} is not in this process; use another transport than inproc")
        if transport == "unix" or (transport == "auto" and peer.has_lane and is_direct(peer)):
            try:
                self._unix = OverUnix(self._receiver, self._client, peer, deadline)
                return self._unix
            except PeerLost as exc:
                if transport == "unix":
                    raise
                logger.debug("the link to %s goes over tcp: %s", peer.endpoint, exc)
        return OverTcp(self._client, peer, self._poll)

    def hang_up(self) -> None:
        """End every wait, also that of a poll; any thread."""
        self._client.hang_up()

    def close(self) -> None:
        """Give back everything; not in the I/O thread."""
        try:
            self._client.close()
        except Exception:
            logger.exception("a link could not let go of everything")
        loops.release(self.loop)
