"""Exchanges: the only place where it is decided what becomes of a request that has no reply.

::

    what happened to a request                          what follows
    the connection broke before it went out whole       another connection
    refused: the agent was replaced, or by its clock    a new handshake, then once more (see `after_refusal`)
    the connection broke when it had gone out           the result is asked for, for `call_recovery` s
    no reply in time                                    called off; CallTimeout, which says what runs
    its caller was closed or interrupted                called off; AgentClosed, or whatever ended the wait

What is called off never runs, or learns that nobody waits for it; unless it is to outlive its caller.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, TypeVar

from ...protocol import limits
from ...protocol.contents import as_table, read_ps_message
from ...protocol.errors import (
    AgentClosed,
    CallTimeout,
    LocalProtocolError,
    PeerLost,
    ProtocolError,
    PzcError,
    SerializeError,
    SignatureError,
    StaleMessage,
)
from ...protocol.frames import PZC00, PZC01, Kind
from ...protocol.message import Facts, Message
from ...transport.counters import Counters
from ...transport.peer import Peer
from ...transport.wire import Protocol
from ..current import current
from ..reply import Reply, accepted, reply_of
from .abort import AbortSignal
from .connection import Answer
from .connection_pool import Connection, ConnectionPool, Pools
from .notes import NotRun, late, note_in
from .peers import Peers

FIRST = 0.05
"""Seconds of the first pause, at most; each further one may be twice as long."""

LONGEST = 1.0
"""Seconds of the longest pause."""

T = TypeVar("T")


def repeated(function: Callable[[], T], timeout: float, closed: threading.Event) -> T:
    """The result of a function, called again for as long as the peer is lost; raises its last error.

    ::

        outcome of a try               then
        a result                       it is returned
        the error that may pass by     another try after a pause; raised when there is no time for one
        another error                  raised

    Args:
        function: what to call.
        timeout: seconds for all tries together.
        closed: ends a pause.
    """
    until, most = time.monotonic() + timeout, FIRST
    while True:
        try:
            return function()
        except PeerLost:
            pause = random.uniform(0.0, most)  # so that callers do not come together
            if time.monotonic() + pause >= until:
                raise
        closed.wait(pause)
        most = min(2 * most, LONGEST)


_SOON = 20.0
"""Seconds within which no request can have become stale on its way; less than the freshness window."""

_FIRST, _LONGEST = 0.02, 0.5
"""Seconds of the first and of the longest pause before a result is asked for again."""

_ASKED = 0.15
"""Seconds in which a server of this host tells what runs."""

_SENT: Answer = None, Message(Facts.of(PZC01, Kind.REPLY, "", "", None), "", None, "json", b""), "sent"
"""In place of the reply to a request that wants none."""

_GIVEN_UP = (CallTimeout, AgentClosed)


class Exchanges(ABC):
    """Requests of one agent that are waited for; safe from any thread.

    Args:
        protocol: of the agent.
        pools: of the agent.
        closed: set when the agent was stopped.
        counters: where oddities are counted.

    Attributes:
        closed: set when the agent was stopped.
        known: gives the peer behind an endpoint, when it was met.
        learn: takes a peer as met.
        unusable: why nothing can be asked any more; empty as long as it can.
    """

    def __init__(self, protocol: Protocol, pools: Pools, closed: AbortSignal, counters: Counters) -> None:
        self.closed = closed
        self.counters = counters
        self._pools = pools
        self._find = pools.find
        self.unusable = ""
        peers = Peers(protocol, self._ask_stranger)
        self._meet = peers.meet
        self.known: Callable[[str], Peer | None] = peers.get
        self.learn, self._forget = peers.learn, peers.forget
        pools.on_unused = peers.leave

    @abstractmethod
    def tell(self, peer: Peer, content: dict[str, Any]) -> None:
        """Tell a peer a control word without waiting; see `Client`."""

    def exchange(
        self, endpoint: str, content: Any, seconds: float, started: float, transport: str,
        abort: AbortSignal, *, recover: bool = True, keeps: Sequence[object] | None = None,
    ) -> Answer:  # fmt: skip
        """The reply to a request.

        Args:
            endpoint: of the peer.
            content: of the request.
            seconds: for everything.
            started: when that began, in monotonic seconds.
            transport: as `ConnectionPool.take`.
            abort: ends the wait.
            recover: ask for the result when the connection breaks; an idempotent call is sent again instead.
            keeps: see `send`, for a request that wants no answer; None for one that does.

        Raises:
            PzcError: as `Client.request`.
        """
        if self.unusable:
            raise AgentClosed(self.unusable)
        deadline, again = started + seconds, False
        connection: Connection | None = None
        try:
            peer = self.known(endpoint) or self._meet(endpoint, deadline)
            while True:
                pool = self._find(endpoint) or self._pools.of(endpoint)
                connection = pool.take(peer, transport, deadline)
                try:
                    if keeps is None and ((call := current()) is None or call.cancelled):
                        found = connection.exchange(content, deadline, abort)
                    else:
                        found = self._ask(connection, content, deadline, abort, keeps)
                except BaseException as error:
                    if not self._may_have_run(error, pool, connection, content, transport, abort):
                        transport = "rep"
                        continue
                    if not recover:
                        raise
                    found = self._recover(peer, error, connection.msgid, deadline, abort)
                else:
                    pool.give(connection)
                if found[2]:  # no refusal
                    return found
                reply = reply_of(found[1], found[0])
                if reply.refusal is None:
                    return found
                if again and reply.sender == peer.agent_id:
                    accepted(reply)
                peer, again = self.after_refusal(peer, reply, started, deadline), True
        except CallTimeout as error:
            if not isinstance(error, NotRun):
                self.forget(endpoint)
            raise late(error, endpoint, seconds, connection and connection.note) from error
        except (PeerLost, ProtocolError) as error:
            if not isinstance(error, LocalProtocolError):
                self.forget(endpoint)
            raise

    def _ask(
        self, connection: Connection, content: Any, deadline: float, abort: AbortSignal,
        keeps: Sequence[object] | None,
    ) -> Answer:  # fmt: skip
        """Send a request that wants no answer, or one that is called off with the call that is executed here.

        The answer of the latter is waited for all the same. What is asked for after that, to tidy up, is not
        called off.
        """
        call = current()
        if keeps is not None or call is None:
            return self._post(connection, content, deadline, keeps or ())
        waits = threading.Lock()  # taken for good when nobody waits: the connection is another call's then

        def call_off() -> None:
            if waits.acquire(blocking=False):
                try:
                    self._call_off(connection, content)
                finally:
                    waits.release()

        call.watch(call_off)
        try:
            return connection.exchange(content, deadline, abort)
        finally:
            call.unwatch(call_off)
            waits.acquire()

    def _may_have_run(
        self, error: BaseException, pool: ConnectionPool, connection: Connection, content: Any,
        transport: str, abort: AbortSignal,
    ) -> TypeGuard[PeerLost]:  # fmt: skip
        """Close the connection of a request that failed, and say what becomes of that; raises what ends it.

        Returns:
            True for the loss of one that may have run; False for one that did not, and can take another way.
        """
        peer, sent = connection.peer, connection.sent
        try:
            if isinstance(error, PeerLost):
                if sent and peer.dialect == PZC01 and peer.agent_id:
                    return True
                if not sent and transport != "unix" and connection.kind != "rep":
                    pool.lose(connection)
                    return False
            elif connection.msgid and not (isinstance(error, PzcError) and not isinstance(error, _GIVEN_UP)):
                if isinstance(error, CallTimeout) and connection.kind != "rep":
                    connection.note = self._what_runs(connection)
                self._call_off(connection, content)
            if isinstance(error, CallTimeout | PeerLost) and sent and peer.dialect == PZC01:
                error.call_id = f"{connection.msgid}@{peer.endpoint}"
            if isinstance(error, AgentClosed) and abort.is_set():
                raise abort.error() from error
            raise error
        finally:
            unsent = isinstance(error, SerializeError | LocalProtocolError) and not sent
            (pool.give if unsent else pool.discard)(connection)
            del error  # its traceback holds this frame

    def _call_off(self, connection: Connection, content: Any) -> None:
        """Nobody waits for a call any more."""
        call = read_ps_message(content)
        if call is None or connection.peer.dialect == PZC00:
            return
        options = as_table(call[1])
        if not (options.get("detached") or options.get("oneway")):
            self.tell(connection.peer, {"pzc": "cancel", "id": connection.msgid})

    def _what_runs(self, connection: Connection) -> dict[str, Any] | None:
        """What a call's server says of it, which is asked for when it went over a stream."""
        with contextlib.suppress(PzcError):
            until = time.monotonic() + _ASKED
            answer, _, _ = self._once(connection.peer, {"pzc": "running"}, until, self.closed)
            return note_in(answer, connection.msgid)
        return None

    def _recover(
        self, peer: Peer, lost: PeerLost, call_id: str, deadline: float, abort: AbortSignal
    ) -> Answer:
        """The reply of a call whose connection broke: its peer may live, and keep the result."""
        ask = {"pzc": "future", "id": call_id}
        until, pause = min(deadline, time.monotonic() + limits.current.call_recovery), _FIRST
        while time.monotonic() < until and not abort.is_set():
            try:
                answer, message, word = self._once(peer, ask, until, abort)
            except (PeerLost, CallTimeout):
                abort.wait(min(pause, max(0.0, until - time.monotonic())))
                pause = min(2 * pause, _LONGEST)
                continue
            if reply_of(message, answer).refusal is not None:
                break
            if (told := read_ps_message(answer)) is None or told[0] != "pending":
                self.counters.add("calls_recovered")
                return answer, message, word
            until = deadline  # it runs there
        try:
            if abort.is_set():
                raise abort.error()
            lost.call_id = f"{call_id}@{peer.endpoint}"
            raise lost.with_traceback(None)
        finally:
            del lost  # its traceback holds this frame

    def _once(self, peer: Peer, content: object, deadline: float, abort: AbortSignal) -> Answer:
        """One request by REP, whatever comes of it."""
        pool = self._pools.of(peer.endpoint)
        connection = pool.take(peer, "rep", deadline)
        try:
            answer = connection.exchange(content, deadline, abort)
        except BaseException:
            pool.discard(connection)
            raise
        pool.give(connection)
        return answer

    def _ask_stranger(self, peer: Peer, content: object, deadline: float) -> Reply:
        """One request of a handshake."""
        answer, message, _ = self._once(peer, content, deadline, self.closed)
        return reply_of(message, answer)

    def send(
        self, endpoint: str, content: object, timeout: float, transport: str = "auto",
        keeps: Sequence[object] = (),
    ) -> None:  # fmt: skip
        """Send a request that says of itself that it wants no answer; errors as `exchange`.

        What it keeps is held until its peer has read it.
        """
        started, ends = time.monotonic(), self.closed
        self.exchange(endpoint, content, timeout, started, transport, ends, recover=False, keeps=keeps)

    def _post(
        self, connection: Connection, content: object, deadline: float, keeps: Sequence[object]
    ) -> Answer:
        """Send a request that wants no answer.

        By REP a ping goes after it, and is answered: a ZeroMQ socket takes messages for nobody, and for
        another agent; and a call that takes a stream next must not overtake this one.
        """
        connection.post(content, deadline, keeps)
        return connection.exchange("ping", deadline, self.closed) if connection.kind == "rep" else _SENT

    def peer(self, endpoint: str, deadline: float) -> Peer:
        """The peer behind an endpoint, by the deadline in monotonic seconds; errors as `exchange`."""
        return self.known(endpoint) or self._meet(endpoint, deadline)

    def forget(self, endpoint: str) -> None:
        """Shake hands anew, over new connections, before the next request."""
        self._forget(endpoint)
        self._pools.forget(endpoint)

    def after_refusal(self, peer: Peer, reply: Reply, started: float, deadline: float) -> Peer:
        """The peer to send a refused request to once more, after a fresh handshake.

        A refusal proves that nothing ran only if nobody on the way can have provoked it beside the
        execution: by sending a copy again, altered, late, or to another agent. So it must come from
        an agent that has replaced the one addressed, or be about the clock, and soon.

        Args:
            peer: whom the request was addressed to.
            reply: with the refusal.
            started: when the request was made, in monotonic seconds.
            deadline: of the handshake, in monotonic seconds.

        Raises:
            PzcError: the refusal, when the request must not be sent again.
        """
        replaced = isinstance(reply.refusal, SignatureError) and reply.sender != peer.agent_id
        stale = isinstance(reply.refusal, StaleMessage) and time.monotonic() - started < _SOON
        if peer.dialect == PZC01 and (replaced or stale):
            self._forget(peer.endpoint)
            fresh = self._meet(peer.endpoint, deadline)
            if fresh.agent_id == reply.sender:
                return fresh
            if fresh.agent_id != peer.agent_id:
                raise PeerLost(
                    f"{peer.endpoint} was restarted during the call, which may or may not have run"
                )
        if isinstance(reply.refusal, CallTimeout):  # its turn did not come; this says what ran instead
            raise NotRun(str(reply.refusal))
        accepted(reply)
        return peer
