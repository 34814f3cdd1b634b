"""Client: asks others, in the name of one agent, and waits (`Exchanges`) or does not (`Pipelines`)."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from ...discovery.records import Place
from ...protocol.errors import AgentClosed, CallTimeout, PeerLost, PzcError
from ...protocol.frames import PZC00
from ...transport.counters import Counters
from ...transport.dealer_socket import TOLD_AFTER, TOLD_FOR
from ...transport.exchange import UnixExchange
from ...transport.executor import NO_THREAD, STALLED_CALLBACKS, Executor
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.wire import Protocol as Wire
from ..reply import Reply, reply_of
from .abort import STOPPED, AbortSignal
from .connection_pool import Pools
from .connector import Connector
from .exchanges import Exchanges
from .heartbeat import Heartbeat
from .many import in_receiver
from .pending import Pending, PendingCall
from .pipelines import Pipelines

logger = logging.getLogger("pzc.requests")

_PATIENCE = 0.5
"""Seconds that a silent endpoint is waited for before it is asked again where its agent is."""

_TELL = 5.0
"""Seconds in which somebody is told what nobody waits for."""

LOOK_FOR = 3.0
"""Seconds to wait for a name that no agent answers to."""


class Found(NamedTuple):
    """Endpoint and identity of a peer, and the seconds that remain of the timeout."""

    place: Place
    peer: Peer
    left: float


class Client(Exchanges):
    """Asks others in the name of one agent; safe from any thread.

    Args:
        loop: of the I/O thread; not given back.
        protocol: formats and checks.
        agent_id: sender of PZC01 messages.
        counters: where oddities are counted.
        rep_endpoint: sender of PZC00 messages; default none, for one that answers to nobody.

    Attributes:
        closed: set by `hang_up`.
        heartbeat: shows servers that whoever holds something there is alive.
    """

    def __init__(
        self, loop: Loop, protocol: Wire, agent_id: str, counters: Counters, rep_endpoint: str = ""
    ) -> None:
        self.loop = loop
        closed = AbortSignal()
        pools = Pools(Connector(loop, protocol, agent_id, rep_endpoint, counters, closed))
        super().__init__(protocol, pools, closed, counters)
        self.heartbeat = Heartbeat(loop, self.submit_to)
        self._pipelines = Pipelines(loop, pools, self, self.heartbeat)
        self.wait_for_id = self._pipelines.wait_for_id
        self._callbacks = Executor("pzc-futures", spare=STALLED_CALLBACKS)

    def tell(self, peer: Peer, content: dict[str, Any]) -> None:
        """A control word whose answer nobody waits for; any thread, finalizers included."""
        if peer.dialect == PZC00:
            return
        try:
            self.send_to(peer, {**content, "oneway": True}, _TELL)
        except PzcError as exc:
            logger.debug("%s could not be told %s: %s", peer.endpoint, content, exc)

    def cancel(self, entry: PendingCall) -> None:
        """A future was given up: its call as well; any thread."""
        entry.given_up = True
        self._pipelines.drop(entry)
        if entry.sent and not entry.detached:
            self.tell(entry.peer, {"pzc": "cancel", "id": entry.msgid})

    def join(self, peer: Peer) -> Callable[[], None]:
        """Somebody uses a peer until calling what is returned; the last one leaves no connection behind."""
        leave, endpoint = self._pools.join(peer.endpoint), peer.endpoint

        def left() -> None:
            leave()
            if (pool := self._pools.find(endpoint)) is None or not pool.users:
                self._pipelines.leave(endpoint)

        return left

    def give_up(self, ref: object, error: Callable[[], BaseException]) -> None:
        """End the calls of a reference, or of all, that nobody waits for now, and call them off."""
        for entry in self._pipelines.pending.copy():
            if isinstance(entry, PendingCall) and ref in (None, entry.ref):
                entry.give_up(error())

    def call_back(self, function: Callable[[Future[Any]], object], future: Future[Any]) -> None:
        """Run a callback of a user's, in a thread that may wait."""
        if not (self.loop.in_thread() or in_receiver()):
            function(future)
            return
        try:
            self._callbacks.submit(partial(function, future))
        except AgentClosed:
            threading.Thread(target=function, args=(future,), name="pzc-futures", daemon=True).start()
        except RuntimeError:  # no thread is left
            self.loop.call_later(NO_THREAD, partial(self.call_back, function, future))

    def request(self, endpoint: str, content: object, timeout: float, transport: str = "auto") -> Reply:
        """Send content, return the reply. It is sent again only when the first one surely did not run.

        Args:
            endpoint: of the peer's REP.
            content: anything the serializer can express.
            timeout: seconds for everything, the handshake included.
            transport: ``auto``, ``unix`` or ``tcp``.

        Raises:
            CallTimeout, PeerLost, SignatureError, ProtocolError, SerializeError: see the tree.
            PzcError: whatever the peer refused with.
        """
        started = time.monotonic()
        answer, message, _ = self.exchange(endpoint, content, timeout, started, transport, self.closed)
        return reply_of(message, answer)

    def submit(self, entry: Pending) -> None:
        """Send a call that is not awaited now; AgentClosed when the agent was stopped."""
        self._pipelines.of(entry.peer).submit(entry)

    def submit_to(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """As `request`, to a known peer, without waiting; callbacks run in the I/O thread and must be quick.

        Raises:
            SerializeError: when the content cannot be expressed.
            AgentClosed: when the agent was stopped.
        """
        entry = Pending(peer, content, timeout)
        self.submit(entry)
        return entry

    def send_to(self, peer: Peer, content: object, timeout: float) -> Pending:
        """As `send`, to a known peer, without waiting, behind what was asked with `submit_to`."""
        entry = Pending(peer, content, timeout)
        entry.answered = False
        self.submit(entry)
        return entry

    def reach(self, where: Callable[[float], Place], timeout: float) -> Found:
        """Somebody who may be on the move, once met.

        Args:
            where: tells the place as it is known now, within a time in seconds.
            timeout: seconds.

        Raises:
            CallTimeout, PeerLost, SignatureError: as `request`; at the last place. A place that is settled,
                and where no agent is, is given up after `LOOK_FOR` seconds.
        """
        started = time.monotonic()
        deadline, tell_at, patience = started + timeout, started + TOLD_AFTER, LOOK_FOR
        while True:
            place = where(max(0.001, deadline - time.monotonic()))
            now = time.monotonic()
            until = min(deadline, now + (patience if place.settled else _PATIENCE))
            try:
                peer = self.peer(place.endpoint, max(until, now + 0.001))
                return Found(place, peer, max(0.001, deadline - time.monotonic()))
            except (PeerLost, CallTimeout) as error:
                self.forget(place.endpoint)
                now = time.monotonic()
                left, patience = deadline - now, timeout
                over = isinstance(error, PeerLost) and (error.absent or now < until)
                if left <= 0.001 or (place.settled and over):
                    raise
                if now >= tell_at and left > TOLD_FOR and not place.settled:
                    tell_at = math.inf
                    logger.warning("waiting, since %s", error)
                self.closed.wait(min(_PATIENCE / 10, left))  # a refusal comes at once

    def dedicate(self, peer: Peer, deadline: float, serializer: str) -> UnixExchange:
        """A Unix connection of its own to a peer, of no pool.

        Args:
            peer: at the other end.
            deadline: in monotonic seconds.
            serializer: of its small messages, as a rule.

        Raises:
            PeerLost: when the peer has none for this user on this host.
        """
        return self._pools.connector.dedicated(peer, deadline, serializer)

    def hang_up(self) -> None:
        """End every wait, and begin no other; any thread."""
        self.closed.abort(STOPPED)

    def close(self) -> None:
        """End every wait, and give everything back; not in the I/O thread."""
        self.give_up(None, partial(AgentClosed, STOPPED))
        self.hang_up()
        self.heartbeat.close()
        self._pools.close()
        self._pipelines.close()
        for function in self._callbacks.abandon():
            try:
                function()
            except BaseException:  # of a user's
                logger.exception("a callback of a future failed")
