"""Presence: who asks here is there, and holds a lock, streams, handles or calls for as long as it is.

A client that holds something keeps one ``alive`` request here. It is answered `PULSE` seconds late, or when
the next one comes, and that answer tells whether its way back still exists. A client whose way is gone and
who does not come back by another one within `GRACE` is dead, as is one that is silent for `silence`: what it
holds is released. Its lock it keeps for the lock's ttl when it is only silent; but one that was silent ever
since it was given the lock died before its first sign of life, and loses the lock with the rest. While this
process itself stood still, nobody was silent.

A client whose call runs need not hold anything. Its calls are looked at every `call_look` seconds, but those
that it has given up or detached::

    caller      event                                       next
    there       its process has ended (same host)           gone: its calls are cancelled
                its connection is over                      missing
                a note finds no way to it (REP)             missing
    missing     it is heard of by another connection        missing, for `silence` seconds more
                its way is there again, its calls are over  there
                `silence` seconds; REP: `GRACE` seconds     gone
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from ...delivery.holders import Held, Holders
from ...delivery.locks import Changed, Event, Granted, Lock, Owner, Refusal
from ...delivery.standstill import Standstill
from ...protocol import limits
from ...protocol.contents import as_text
from ...protocol.errors import PzcError, Refused
from ...protocol.keyring import Role
from ...protocol.message import Identity
from ...transport.lifelines import Lifeline
from ...transport.loop import Loop, Timer
from .call import Asker, Call, Calls, note_of
from .replies import Replies, authorize

logger = logging.getLogger("pzc.presence")

PULSE = 0.25
"""Seconds by which an ``alive`` request is answered late."""

GRACE = 0.5
"""Seconds that a client without way back has to come by another one."""

LOOK = 0.25
"""Most seconds between two looks at the signs of life, and at whether the callers of what runs are there."""

_DEFAULT_TTL = 30.0

_SIGN = "alive"  # held by whoever gave a sign of life; silence after it may mean that all was let go
_GRANT = "lock"  # held from the grant of the lock on, for the same reason

OnChange = Callable[[Changed], None]


class Presence:
    """Lock, signs of life and callers of one agent; safe from any thread.

    Args:
        loop: for the timers.
        replies: sends the answers.
        calls: that run or wait.
        reads_allowed: others may read while somebody holds the lock.
        forget: called with a dead agent.
        on_change: told every change of the lock's owner.

    Attributes:
        missing: callers that have no way back any more: when they are given up, in monotonic seconds.
        looking: somebody's calls are looked at.
    """

    def __init__(
        self,
        loop: Loop,
        replies: Replies,
        calls: Calls,
        reads_allowed: bool,
        forget: Callable[[Identity], None],
        on_change: OnChange,
    ) -> None:
        self._loop = loop
        self._replies = replies
        self._calls = calls
        self.missing: dict[Identity, float] = {}
        self.looking = False
        self._looks = Standstill(LOOK, time.monotonic())
        self._lifelines: dict[int, tuple[Lifeline, Counter[Identity]]] = {}
        self._forget = forget
        self._on_change = on_change
        self._mutex = threading.Lock()
        self._holders: Holders[Callable[[], None]] = Holders()
        self._signs: dict[Identity, Call] = {}  # the ``alive`` of each that is not answered yet
        self._granted: dict[Identity, int] = {}  # tickets of `_GRANT`
        self._mute: set[Identity] = set()  # of those, who gave no sign of life since
        self._suspects: dict[Identity, Timer] = {}
        self._alarm: Timer | None = None
        self._standstill = Standstill(LOOK, time.monotonic())
        self.lock: Lock[Call] = Lock(reads_allowed=reads_allowed)

    def words(self) -> dict[str, Callable[[Call, dict[str, Any]], None]]:
        """The control words that this answers."""
        return {"lock": self._on_lock, "unlock": self._on_unlock, "alive": self._on_alive}

    def check(self, caller: Asker, token: object, reads: bool) -> None:
        """Judge a call by the lock.

        Args:
            caller: who calls.
            token: of the lock that the call relies on; None when it relies on none.
            reads: the call only reads.

        Raises:
            LockedBy: somebody else holds it.
            LockLost: the caller relies on a lock that it does not hold (any more).
        """
        if self.lock.owner is None and not token:
            return
        with self._mutex:
            self.lock.check(caller.key_name, caller.agent, as_text(token or ""), reads)

    def hold(self, agent: Identity, what: str, release: Callable[[], None]) -> int:
        """Note what an agent holds; ``release`` is called when it is dead.

        Raises:
            Refused: when too many agents of its key hold something.
        """
        with self._mutex:
            ticket = self._holders.hold(agent, what, release, self._look_at_time())
        self._set_alarm()
        return ticket

    def drop(self, ticket: int) -> None:
        """The agent has let go by itself."""
        with self._mutex:
            self._holders.drop(ticket)

    def _on_lock(self, request: Call, content: dict[str, Any]) -> None:
        authorize(request.caller.key, Role.OPERATOR)
        owner = _owner(request, content)
        ttl, reason = _number(content.get("ttl"), _DEFAULT_TTL), as_text(content.get("reason", ""))
        takeover = content.get("takeover") is True
        if takeover:
            authorize(request.caller.key, Role.ADMIN)
        with self._mutex:
            now, wall = self._look_at_time(), time.time()
            if takeover:
                outcome, events = self.lock.takeover(owner, ttl, reason, request, now, wall)
            else:
                until = now + _number(content.get("wait"), 0.0)
                outcome, events = self.lock.acquire(owner, ttl, reason, until, request, now, wall)
        self._tell(events)
        if isinstance(outcome, PzcError):
            raise outcome
        if isinstance(outcome, Granted):
            self._tell([outcome])
        self._set_alarm()

    def _on_unlock(self, request: Call, content: dict[str, Any]) -> None:
        owner = _owner(request, content)
        let_go = self.lock.give_up if content.get("given_up") is True else self.lock.release
        with self._mutex:
            held, events = let_go(owner, self._look_at_time())
            if held:
                self._mute.discard(owner.identity)
                self._holders.drop(self._granted.pop(owner.identity, -1))
        self._tell(events)
        self._replies.reply(request, {"pzc": "unlock", "held": held})

    def _on_alive(self, request: Call, _: dict[str, Any]) -> None:
        agent = request.caller.identity
        with self._mutex:
            now = self._look_at_time()
            suspect = self._suspects.pop(agent, None)
            self._mute.discard(agent)
            self._holders.touch(agent, now)
            if not self._holders.holding(agent):
                self._holders.hold(agent, _SIGN, _nothing, now)
            earlier, self._signs[agent] = self._signs.get(agent), request
            events = self.lock.renew(agent, now)
        if suspect is not None:
            suspect.cancel()
        self._tell(events)
        if earlier is None:
            self._loop.call_later(PULSE, partial(self._pulse, agent))
        else:
            self._replies.reply(earlier, {"pzc": "alive"})
        self._set_alarm()

    def _pulse(self, agent: Identity) -> None:
        with self._mutex:
            request = self._signs.pop(agent, None)
        if request is None or self._replies.reply(request, {"pzc": "alive"}):
            return
        with self._mutex:
            if agent not in self._suspects and agent not in self._signs and self._holders.holding(agent):
                self._suspects[agent] = self._loop.call_later(GRACE, partial(self.gone, agent))

    def gone(self, agent: Identity) -> None:
        """An agent is dead: release what it held, cancel what it asked for; I/O thread."""
        self.missing.pop(agent, None)
        with self._mutex:
            now = self._look_at_time()
            suspect = self._suspects.pop(agent, None)
            released, _ = self._forget_holder(agent)
            events = self.lock.gone(agent, now)
        if suspect is not None:
            suspect.cancel()
        logger.info("agent %s is gone; %d things that it held are released", agent.shown, len(released))
        self._release(agent, [held.release for held in released])
        self._tell(events)

    def _release(self, agent: Identity, releases: list[Callable[[], None]]) -> None:
        for release in (*releases, partial(self._forget, agent)):
            try:
                release()
            except Exception:
                logger.exception("something that agent %s held could not be released", agent.shown)

    def _set_alarm(self) -> None:
        with self._mutex:
            times = [
                t
                for t in (self.lock.next_due(), self._holders.next_due(limits.current.silence))
                if t is not None
            ]
            if not times:
                return
            due = min(time.monotonic() + LOOK, *times)
            if self._alarm is not None:
                if self._alarm.due <= due:
                    return
                self._alarm.cancel()
            self._alarm = self._loop.call_later(max(0.0, due - time.monotonic()), self._ring)

    def _ring(self) -> None:
        with self._mutex:
            now = self._look_at_time()
            self._alarm = None
            events = self.lock.expire(now)
            silent: list[tuple[Identity, list[Held[Callable[[], None]]]]] = []
            for agent in self._holders.silent(now, limits.current.silence):
                released, mute = self._forget_holder(agent)
                silent.append((agent, released))
                if mute or self.lock.owner is None or self.lock.owner.identity != agent:
                    events += self.lock.gone(agent, now)
        self._tell(events)
        for agent, released in silent:
            logger.info(
                "agent %s is silent for %g s; what it held is released", agent.shown, limits.current.silence
            )
            if any(held.what not in (_SIGN, _GRANT) for held in released):
                self._release(agent, [held.release for held in released])
        self._set_alarm()

    def _look_at_time(self) -> float:
        """The time; whoever was heard of before this process stood still is excused. With the mutex."""
        now = time.monotonic()
        stood = self._standstill.look(now)
        self.lock.excuse(stood)
        self._holders.excuse(stood, now)
        return now

    def _forget_holder(self, agent: Identity) -> tuple[list[Held[Callable[[], None]]], bool]:
        """What an agent held, and whether it was silent since it was given the lock; with the mutex."""
        mute = agent in self._mute
        self._mute.discard(agent)
        self._granted.pop(agent, None)
        return self._holders.gone(agent), mute

    def _tell(self, events: list[Event[Call]]) -> None:
        for event in events:
            if isinstance(event, Granted):
                self._expect(event.owner.identity)
                self._replies.reply(event.ticket, {"pzc": "lock", "owner": event.owner.label})
            elif isinstance(event, Refusal):
                self._replies.refuse(event.ticket, event.error)
            elif isinstance(event, Changed):
                self._on_change(event)

    def _expect(self, agent: Identity) -> None:
        """An agent is given the lock: its silence counts from now on."""
        now = time.monotonic()
        with self._mutex:
            if agent not in self._granted:
                with contextlib.suppress(Refused):  # too many agents of its key hold something
                    self._granted[agent] = self._holders.hold(agent, _GRANT, _nothing, now)
            self._mute.add(agent)
            self._holders.touch(agent, now)
        self._set_alarm()

    def follow(self, pid: int, agent: Identity) -> None:
        """Learn at once when the process of an agent of this host ends; each needs one `unfollow`."""
        with self._mutex:
            known = self._lifelines.get(pid)
            if known is None:
                known = Lifeline(self._loop, pid, partial(self._ended, pid)), Counter[Identity]()
                self._lifelines[pid] = known
            known[1][agent] += 1

    def unfollow(self, pid: int, agent: Identity) -> None:
        """A connection of an agent of this host is over."""
        with self._mutex:
            lifeline, agents = self._lifelines.get(pid, (None, Counter[Identity]()))
            agents[agent] -= 1
            if lifeline is not None and not +agents:
                del self._lifelines[pid]
                lifeline.close()

    def _ended(self, pid: int) -> None:
        with self._mutex:
            _, agents = self._lifelines.pop(pid, (None, Counter[Identity]()))
        for agent in +agents:
            self.gone(agent)

    def close(self) -> None:
        """Follow no process any more."""
        with self._mutex:
            lifelines = [lifeline for lifeline, _ in self._lifelines.values()]
            self._lifelines.clear()
        for lifeline in lifelines:
            lifeline.close()

    def heard(self, agent: Identity) -> None:
        """An agent has sent something; it counts for one that is missing."""
        if agent in self.missing:
            self.missing[agent] = time.monotonic() + limits.current.silence

    def look(self) -> None:
        """Look at the callers of what runs now and then, until nothing runs; any thread."""
        self.looking = True
        self._looks = Standstill(LOOK, time.monotonic())
        self._loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        late = [call for call in self._calls.all() if now - call.began >= LOOK]
        left = {call.caller.identity: call.caller.carrier.connected for call in late if self._has_left(call)}
        for agent, connected in left.items():
            self.missing.setdefault(agent, now + (limits.current.silence if connected else GRACE))
        stood = self._looks.look(now)
        for agent, until in list(self.missing.items()):
            if agent not in left:
                self.missing.pop(agent, None)
            elif now >= until + stood:
                self.gone(agent)
            else:
                self.missing[agent] = until + stood
        if late or len(self._calls):
            self._loop.call_later(LOOK, self._look)
        else:
            self.looking = False

    def _has_left(self, call: Call) -> bool:
        carrier = call.caller.carrier
        if call.cancelled or call.detached:  # nobody waits for it: that its way is lost tells nothing
            return False
        if carrier.connected:
            return carrier.is_gone()
        able = call.can_refer and call.patience is not None and not call.oneway
        return able and not self._replies.reply(call, note_of(call))

    def describe(self) -> dict[str, Any] | None:
        """Who holds the lock, since when and why; None when nobody does."""
        with self._mutex:
            return self.lock.describe()

    def holders(self) -> int:
        """Number of things that clients hold."""
        with self._mutex:
            return len(self._holders)


def _owner(request: Call, content: dict[str, Any]) -> Owner:
    caller, said = request.caller, as_text(content.get("by", ""))
    return Owner(caller.key_name, caller.agent, as_text(content.get("token", "")), caller.key_id, said)


def _number(value: object, default: float) -> float:
    try:
        return float(value) if isinstance(value, int | float) else default
    except OverflowError:
        return default


def _nothing() -> None:
    return None
