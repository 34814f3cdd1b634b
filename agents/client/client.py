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
from ...protocol.contents import PS
from ...protocol.errors import AgentClosed, CallTimeout, PeerLost, PzcError
from ...protocol.frames import PZC00
from ...protocol.peer import Peer
from ...protocol.reply import Reply, reply_of
from ...protocol.values import TRAVELLING
from ...transport.counters import Counters
from ...transport.dealer_socket import TOLD_AFTER, TOLD_FOR
from ...transport.exchange import UnixExchange
from ...transport.executor import NO_THREAD, STALLED_CALLBACKS, Executor
from ...transport.loop import Loop
from ...transport.wire import Protocol as Wire
from .abort import STOPPED, AbortSignal
from .connection import Answer
from .exchanges import Exchanges, repeated
from .heartbeat import Heartbeat
from .interfaces import Served
from .many import in_receiver
from .pending import Pending, PendingCall
from .pipelines import Pipelines
from .pool import Pools
from .terms import USUAL, Terms

logger = logging.getLogger("pzc.requests")

_PATIENCE = 0.5
"""Seconds that a silent endpoint is waited for before it is asked again where its agent is."""

_TELL = 5.0
"""Seconds in which somebody is told what nobody waits for."""

LOOK_FOR = 3.0
"""Seconds that a name is waited for which nobody answers to."""


class Found(NamedTuple):
    """Where somebody is, who that is, and the seconds that are left of those given."""

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
        pools = Pools(loop, protocol, agent_id, rep_endpoint, counters, closed)
        super().__init__(protocol, pools, closed, counters)
        self.heartbeat = Heartbeat(loop, self.submit_to)
        self._pipelines = Pipelines(loop, pools, self, self.heartbeat)
        self._pipeline, self.wait_for_id = self._pipelines.of, self._pipelines.wait_for_id
        self._callbacks = Executor("pzc-futures", spare=STALLED_CALLBACKS)

    # --- what proxies use ------------------------------------------------------------------------------

    def call(
        self, ref: Served, action: str, options: dict[str, Any], terms: Terms = USUAL,
        abort: AbortSignal | None = None,
    ) -> Any:  # fmt: skip
        """One call of a served object, waited for in this thread.

        Args:
            ref: what it is made of.
            action: of the Proxy-Server protocol.
            options: of the action; not to be used again.
            terms: how it is made.
            abort: ends the wait for an idempotent one besides the end of ``ref``; it may move meanwhile.

        Returns:
            The value that it returned, or what ``ref`` makes of another reply; None of a one-way call.

        Raises:
            Exception: what the remote member raised.
            CallTimeout: no reply in time.
            PeerLost: nobody answers there, or the connection broke during the call.
            AgentClosed: ``ref`` was closed, or the agent stopped.
            SignatureError, ProtocolError, SerializeError, Refused: see the tree.
        """
        timeout, transport, idempotent, detached, oneway, keeps = terms
        seconds = ref.timeout if timeout is None else timeout
        if transport is None:
            transport = ref.transport
        content = (PS, action, options)
        if oneway:
            options["oneway"] = True
            return self.send(ref.endpoint, content, seconds, transport, keeps)
        options["timeout"] = seconds
        if detached:
            options["detached"] = True
        started = time.monotonic()
        if idempotent:
            answer, message, word = self._repeat(ref, content, seconds, started, transport, abort)
        else:
            if self.known(ref.endpoint) is None and ref.follower is not None:
                self.reach(ref.here, seconds)  # it may have moved with its name
            answer, message, word = self.exchange(
                ref.endpoint, content, seconds, started, transport, ref.abort
            )
        if message.facts.sender != ref.server:
            ref.notice(reply_of(message, answer))
        if word == "return":
            value = answer[2]
            return ref.arrived(value) if value.__class__ in TRAVELLING else value
        return ref.read(reply_of(message, answer), timeout)

    def submit(self, ref: Served, action: str, options: dict[str, Any], terms: Terms = USUAL) -> Pending:
        """As `call`, without waiting; never blocks.

        Returns:
            A `PendingCall`; of a one-way call what ends when it was sent.

        Raises:
            SerializeError: when the arguments cannot be expressed.
            AgentClosed: when the agent was stopped.
        """
        timeout, _, _, detached, oneway, _ = terms  # what it keeps is let go behind it, the same way
        seconds = ref.timeout if timeout is None else timeout
        peer = self.known(ref.endpoint) or ref.peer  # as last met
        content = (PS, action, options)
        if oneway:
            options["oneway"] = True
            return self.send_to(peer, content, seconds)
        options["timeout"] = seconds
        if detached:
            options["detached"] = True
        entry = PendingCall(ref, peer, content, seconds, detached=detached)
        self._pipeline(peer).submit(entry)
        return entry

    def attach(self, ref: Served, peer: Peer, call_id: str, until: float | None = None) -> PendingCall:
        """The future of a call that was made before, by its id; asked for until then (monotonic seconds)."""
        entry = PendingCall(ref, peer, None, ref.timeout)
        entry.msgid = call_id
        entry.ask_on(until=until)
        return entry

    def ask(self, ref: Served, content: dict[str, Any], timeout: float | None = None) -> Reply:
        """A control word to the server of a reference; errors as `call`."""
        seconds = ref.timeout if timeout is None else timeout
        started = time.monotonic()
        answer, message, _ = self.exchange(ref.endpoint, content, seconds, started, ref.transport, ref.abort)
        return reply_of(message, answer)

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

    def give_up(self, ref: Served | None, error: Callable[[], BaseException]) -> None:
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

    # --- what everybody uses ---------------------------------------------------------------------------

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

    def submit_to(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """As `request`, to a known peer, without waiting; callbacks run in the I/O thread and must be quick.

        Raises:
            SerializeError: when the content cannot be expressed.
            AgentClosed: when the agent was stopped.
        """
        entry = Pending(peer, content, timeout)
        self._pipeline(peer).submit(entry)
        return entry

    def send_to(self, peer: Peer, content: object, timeout: float) -> Pending:
        """As `send`, to a known peer, without waiting, behind what was asked with `submit_to`."""
        entry = Pending(peer, content, timeout)
        entry.answered = False
        self._pipeline(peer).submit(entry)
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
        return self._pools.dedicated(peer, deadline, serializer)

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

    def _repeat(
        self, ref: Served, content: object, seconds: float, started: float, transport: str,
        abort: AbortSignal | None,
    ) -> Answer:  # fmt: skip
        """As `exchange`, again and again when the peer is lost, wherever ``ref`` is by then."""

        def here(left: float) -> Place:
            if abort is not None and abort.is_set():
                raise abort.error()
            return ref.here(left)

        def once() -> Answer:
            if self.known(ref.endpoint) is None and ref.follower is not None:
                self.reach(here, max(0.001, started + seconds - time.monotonic()))
            ends = ref.abort if abort is None else AbortSignal(ref.abort, abort)
            if ends.is_set() and not ends.abandoned:
                raise ends.error()
            return self.exchange(ref.endpoint, content, seconds, started, transport, ends, recover=False)

        return repeated(once, seconds, self.closed)
