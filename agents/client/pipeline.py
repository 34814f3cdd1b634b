"""Pipeline: the requests to one peer that nobody waits for now, many of them in flight.

They go over ZeroMQ, and over a Unix connection of their own once there is one (see `.many`), in their order,
as many as wait at once: written by a thread that submits, or else by the I/O thread. Replies come by ids::

    request    event                                          next
    -          submit                                         waiting
    waiting    written                                        sent
    waiting    cancelled, its time is over                    over, never sent
    sent       a note that the call runs                      sent
    sent       its reply                                      over
    sent       a refusal by an agent that replaced the peer   sent again, after a handshake (see `Client`)
    sent       lost with its connection                       over; the result of a call is asked for
    sent       cancelled, its time is over, agent stopped     over

Going over to the Unix connection keeps the order: what is submitted from then on is *held* until the peer has
answered a last request over ZeroMQ, behind which it has all that went before.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import zmq

from ...protocol.errors import AgentClosed, LocalLimit, PeerLost, PzcError
from ...protocol.message import Message
from ...transport.counters import Counters
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.threads import Condition
from ...transport.timers import LATE, Timer
from ...transport.watch import LINGER_MS
from ..reply import reply_of
from .connection import RUNNING, Sealed, is_running
from .heartbeat import Heartbeat
from .many import WORTH_IT, Transport, UnixTransport, ZmqTransport
from .pending import UNANSWERED, Pending

_MOST = 10_000  # deferred requests of one agent that may be unanswered

_SOON = 0.001
"""Seconds after which the I/O thread looks again for what waits, as long as there was something."""

_MANY = 16
"""Requests that wait, from which on a thread that submits another one writes them."""

_WHOLE = 1 << 16
"""Bytes that a Unix socket takes as a whole or not at all: when a write fails, none of them went."""

_WRITTEN = 1.0
"""Seconds that somebody waits at most for a request to be written."""


class Owner(Protocol):
    """The `Pipelines` of a client."""

    loop: Loop
    counters: Counters
    pending: dict[Pending, None]
    heartbeat: Heartbeat

    def of(self, peer: Peer) -> Pipeline: ...  # noqa: D102
    def refused(self, entry: Pending, message: Message, content: Any) -> None: ...  # noqa: D102
    def expired(self, entry: Pending) -> None: ...  # noqa: D102
    def crowded(self, pipeline: Pipeline) -> None: ...  # noqa: D102


class Pipeline:
    """Requests to one peer.

    Args:
        owner: whose they are.
        peer: who is asked.
        sealed: makes and reads the messages that go over ZeroMQ.
    """

    def __init__(self, owner: Owner, peer: Peer, sealed: Sealed) -> None:
        self.peer = peer
        self._owner = owner
        self._loop = owner.loop
        self._all = owner.pending
        self._pending: dict[Pending, None] = {}
        self._by_id: dict[str, Pending] = {}
        self._waiting: deque[tuple[Pending, Transport]] = deque()
        # Reentrant: a finalizer may run in the middle of anything, and tell a peer something.
        self._order = threading.RLock()
        self._writing = threading.Lock()
        self._changed = Condition()
        self._awake = self._alive = self._asked_over = self._held = False
        self._look_at = math.inf
        self._alarm: Timer | None = None
        self._zmq = ZmqTransport(self._loop, sealed, self.deliver, self.refuse, self.lose)
        self._transport: Transport = self._zmq
        self._told, self._unused = -math.inf, 0
        self.closed = False

    def submit(self, entry: Pending) -> None:
        """Send a request soon; any thread. It waits at most a moment, for a server that takes nothing.

        Raises:
            SerializeError, LocalProtocolError: when it cannot be sent.
            AgentClosed: when the agent was stopped.
        """
        if len(self._all) >= _MOST:
            entry.fail(LocalLimit(f"{_MOST} requests of this process are already unanswered"))
            return
        pending, waiting = self._pending, self._waiting
        with self._order:
            if self.closed:  # nobody has used it for long, or the agent was stopped
                self._owner.of(self.peer).submit(entry)
                return
            self._unused = 0
            transport = self._transport
            transport.make(entry)
            self._all[entry] = pending[entry] = None
            waiting.append((entry, transport))
        if entry.due < self._look_at:
            self._loop.call(partial(self._look_until, entry.due))
        if len(waiting) >= _MANY or (entry.answered and len(pending) <= len(waiting)):
            self._write()
        if waiting and not self._awake:
            self._awake = True
            self._loop.call(self._flush)
        if not self._asked_over and len(pending) >= WORTH_IT:
            self._asked_over = True
            self._owner.crowded(self)
        if not self._alive and entry.lasting:
            self._alive = True
            self._owner.heartbeat.watch(self.peer, self._unanswered_until)

    def remove(self, entry: Pending) -> bool:
        """A request is not in flight any more; False when it was not; any thread."""
        if self._pending.pop(entry, self) is self:
            return False
        self._all.pop(entry, None)
        self._by_id.pop(entry.msgid, None)
        return True

    def _unanswered_until(self) -> float:
        """When the oldest unanswered request is to be shown alive; infinite for none, then asked no more."""
        for entry in self._pending.copy():
            if entry.lasting:
                return entry.started + UNANSWERED
        self._alive = False
        return math.inf

    # --- writing ---------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write what waits, as far as this thread may, unless another one does; that one sees what came."""
        while self._may_write() and self._writing.acquire(blocking=False):
            try:
                while self._may_write():
                    self._write_some()
            except zmq.Again:  # the I/O thread comes back
                return
            finally:
                self._writing.release()

    def _may_write(self) -> bool:
        try:
            transport = self._waiting[0][1]
        except IndexError:  # nothing is left
            return False
        return transport.free() and not (self._held and transport is self._transport)

    def _write_some(self) -> None:
        """Write the first requests that wait; by the one thread that writes."""
        transport, entries = self._take()
        if not entries:
            return
        try:
            transport.write(entries)
        except PzcError:  # of the Unix connection, which is over: they go over ZeroMQ
            self._leave(transport)
            self._send_anew(entries)
        except zmq.Again:
            self._waiting.extendleft((entry, transport) for entry in reversed(entries))
            raise
        except zmq.ZMQError as exc:
            self._fail(entries, PeerLost(f"{self.peer.endpoint} cannot be sent to: {exc}"))
        except BaseException:
            text = f"writing to {self.peer.endpoint} was interrupted: the call may or may not have run"
            self._fail(entries, PeerLost(text))
            raise
        else:
            self._sent(entries, transport)

    def _take(self) -> tuple[Transport, list[Pending]]:
        """The first that wait no longer, for one write; without those that are over."""
        waiting, pending, entries, room = self._waiting, self._pending, list[Pending](), _WHOLE
        transport = waiting[0][1]
        while waiting and waiting[0][1] is transport and len(entries) < transport.most:
            entry = waiting[0][0]
            if entry in pending:
                room -= entry.size
                if entries and room < 0:
                    break
                entries.append(entry)
            waiting.popleft()
        return transport, entries

    def _fail(self, entries: Sequence[Pending], error: PzcError) -> None:
        for entry in entries:
            self.remove(entry)
            entry.fail(error)

    def _sent(self, entries: Sequence[Pending], transport: Transport) -> None:
        pending, by_id = self._pending, self._by_id
        for entry in entries:
            by_id[entry.msgid] = entry
            entry.sent, entry.transport, entry.made = True, transport, None
            if entry in pending and entry.answered:
                continue
            by_id.pop(entry.msgid, None)
            if not entry.answered:
                self._told = time.monotonic()
                self.remove(entry)
                entry.take(None, None)
            elif entry.given_up:
                entry.call_off()

    def _flush(self) -> None:
        """Write what waits; I/O thread. It looks again soon, so that what follows need not wake it."""
        waited = bool(self._waiting)
        self._write_here()
        if not (waited or self._waiting):
            self._awake = False
            if not self._waiting or self._awake:  # whoever submits sees that it is asleep, or is seen here
                return
            self._awake = True
        if not self.closed:
            self._loop.call_later(_SOON, self._flush)

    def _write_here(self) -> None:
        if not self.closed:
            self._write()
        with self._changed:
            self._changed.notify_all()

    def wait_for_id(self, entry: Pending) -> None:
        """Wait at most a moment until a request that was submitted has an id, or is over."""
        self._write()
        if not entry.msgid and not self._loop.in_thread():
            self._loop.call(self._write_here)
            with self._changed:
                self._changed.wait_for(lambda: entry.msgid or entry.done(), _WRITTEN)

    def _send_anew(self, entries: Sequence[Pending]) -> None:
        """Requests that did not go over a Unix connection."""
        for entry in entries:
            if self.remove(entry):
                try:
                    self.submit(entry)
                except PzcError as exc:
                    entry.fail(exc)

    # --- going over ------------------------------------------------------------------------------------

    def go_over(self, transport: UnixTransport, last: Pending) -> None:
        """What is submitted from now on goes over a Unix connection, once `let_go` is called; any thread.

        Args:
            transport: that connection, taken over.
            last: a request that goes over ZeroMQ first.

        Raises:
            AgentClosed: when the agent was stopped, or nobody has asked the peer for long.
        """
        with self._order:
            if self.closed:
                raise AgentClosed(f"{self.peer.endpoint} is not asked any more")
            self.submit(last)
            self._transport, self._held = transport, True

    def let_go(self) -> None:
        """What is held may go; any thread."""
        self._held = False
        self._loop.call(self._write_here)

    def leave_unix(self) -> None:
        """Nobody holds the peer any more: close its Unix connection, unless something is in flight."""
        with self._order:
            transport = self._transport
            if not isinstance(transport, UnixTransport) or self._pending:
                return
            self._transport, self._asked_over = self._zmq, False
        transport.close()

    def lose(self, transport: Transport, error: PzcError) -> None:
        """A connection is over; what was sent over it may have run; any thread."""
        self._leave(transport)
        for entry in self._pending.copy():
            if entry.transport is transport and self.remove(entry):
                entry.recover(error)

    def _leave(self, transport: Transport) -> None:
        with self._order:
            if self._transport is transport:
                self._transport = self._zmq

    # --- replies ---------------------------------------------------------------------------------------

    def deliver(self, messages: Sequence[Message]) -> None:
        """Messages came; in the thread that receives."""
        for message in messages:
            entry = self._by_id.get(message.msgid)
            if entry is None:
                with self._writing:  # perhaps it is just being written
                    entry = self._by_id.get(message.msgid)
            if entry is None:
                self.refuse()
            else:
                self._answer(message, entry)
        if self._waiting:  # a part of what was under way has arrived: the next can go
            self._loop.call(self._write_here)

    def refuse(self) -> None:
        """What came cannot be a reply; in the thread that receives."""
        self._owner.counters.add("replies_unexpected")

    def _answer(self, message: Message, entry: Pending) -> None:
        try:
            content = message.decode(writable=True)
        except BaseException as exc:
            self.remove(entry)
            entry.fail(exc)
            return
        kind = content.__class__
        if kind is tuple or kind is list:
            word = content[1] if len(content) == 3 else None
            if word.__class__ is str and word == RUNNING and is_running(content):
                entry.note = content[2]
                return
        if kind is not tuple and reply_of(message, content).refusal is not None:
            self._owner.refused(entry, message, content)
            return
        self.remove(entry)
        entry.take(message, content)

    # --- I/O thread ------------------------------------------------------------------------------------

    def _look_until(self, due: float) -> None:
        if due < self._look_at:
            self._look_at = due
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_later(max(0.0, due - time.monotonic()), self._look)

    def _look(self) -> None:
        now, due = time.monotonic(), self._look_at
        self._look_at, nearest = math.inf, math.inf if now < due + LATE else now + LATE
        for entry in self._pending.copy() if nearest == math.inf else ():
            if entry.due > now:
                nearest = min(nearest, entry.due)
            elif self.remove(entry):
                self._owner.expired(entry)
        self._look_until(nearest)

    def rest(self) -> bool:
        """Close it when nobody has used it since this was called before last; whether it is. I/O thread."""
        with self._order:
            self._unused = 0 if self._pending else self._unused + 1
            if self._unused > 2:
                self.close(PeerLost)
            return self.closed

    def close(self, error: Callable[[], BaseException]) -> None:
        """Write what waits, such as cancellations, fail what is in flight, and close the socket."""
        self._write_here()
        with self._order:
            self.closed, pending = True, self._pending.copy()
            transport, self._transport = self._transport, self._zmq
        if isinstance(transport, UnixTransport):
            transport.close()
        detached = any(each.detached for each in pending)  # libzmq goes on delivering what nobody waits for
        self._zmq.close(LINGER_MS if detached or time.monotonic() - self._told < LINGER_MS / 1000 else 0)
        for entry in pending:
            if self.remove(entry):
                entry.fail(error())
        if self._alarm is not None:
            self._alarm.cancel()
