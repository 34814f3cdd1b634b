"""Call table: what a server knows of its clients' calls, so that each runs at most once and keeps its answer.

Each request carries its session, its number, and the *floor*: every lower number is settled at the client::

    call        event                                             next        result
    unknown     admit                                             running     RUNS
                cancel                                            forgotten   False
    running     admit, join                                       running     JOINED
                cancel                                            running     True
                finish                                            answered    replies that wait
    answered    admit, join                                       answered    ANSWERED
                settled and not attachable, old, or no room       forgotten
    forgotten   admit                                             forgotten   LOST

Forgotten numbers above the floor become ranges, because a call that runs for hours holds the floor back
while millions follow. Beyond `MAX_RANGES` the lowest two are joined: a request from their gap is lost, and
never runs twice. A session that is forgotten, or of a server before its restart, is new to the handshake: the
client's calls are lost then, and it settles them. The caller locks: one thread at a time uses the table.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from enum import Enum, auto
from typing import Generic, TypeVar

from ..protocol.errors import Refused

SILENT = 600.0
"""Seconds without a connection after which a session ends; no call is sent again after so long."""

SMALL, OVERHEAD = 4096, 700
"""Bytes of the largest small answer; bytes that an answered call takes beside its content."""

MAX_SESSIONS, MAX_RANGES = 1000, 100
"""Sessions of one key; ranges of one session, 80 bytes each."""

R = TypeVar("R")
A = TypeVar("A")


class CallOutcome(Enum):
    """What becomes of a request."""

    RUNS = auto()
    JOINED = auto()
    ANSWERED = auto()
    LOST = auto()


class AdmittedCall(Generic[R, A]):
    """A call that runs or was answered; an attachable answer is kept although it is settled."""

    __slots__ = ("answer", "answered_at", "attachable", "number", "queue", "replies", "session", "size")

    def __init__(self, session: CallSession[R, A], number: int, reply: R) -> None:
        self.session, self.number, self.replies = session, number, [reply]
        self.answer: A | None = None
        self.answered_at, self.size, self.attachable = math.inf, 0, False
        self.queue: AnswerQueue[R, A] | None = None

    def forget(self) -> None:
        """Drop the answer; does nothing while the call runs."""
        if self.queue is not None:
            del self.queue[self], self.session.calls[self.number]
            self.queue.bytes -= self.size
            self.session.forget(self.number)


class AnswerQueue(OrderedDict[AdmittedCall[R, A], None]):
    """Answered calls of a key, oldest first, and the bytes that they take."""

    bytes = 0


class CallsOfKey(Generic[R, A]):
    """Sessions and answers of one key, and how many calls and joined requests wait for an answer."""

    def __init__(self) -> None:
        self.sessions: dict[str, CallSession[R, A]] = {}
        self.small, self.large = AnswerQueue[R, A](), AnswerQueue[R, A]()  # no large one displaces small ones
        self.waiting = 0


class CallSession(Generic[R, A]):
    """Calls of one client epoch; whoever knows the resume key may go on with them."""

    def __init__(self, key: CallsOfKey[R, A], resume_key: bytes) -> None:
        self.key, self.resume_key = key, resume_key
        self.connections, self.silent_since, self.floor = 0, math.inf, 0.0
        self.calls: dict[int, AdmittedCall[R, A]] = {}
        self.starts: list[int] = []  # of the ranges of forgotten numbers, rising
        self.ends: list[int] = []

    def has_forgotten(self, number: int) -> bool:
        """Whether a call was settled, answered, cancelled before it came, or lost."""
        at = bisect_right(self.starts, number)
        return number < self.floor or (at > 0 and number <= self.ends[at - 1])

    def forget(self, number: int) -> None:
        """Never run this call (again)."""
        if not self.has_forgotten(number):
            starts, ends, at = self.starts, self.ends, bisect_right(self.starts, number)
            low = at - (at > 0 and ends[at - 1] == number - 1)
            high = at + (at < len(starts) and starts[at] == number + 1)
            starts[low:high] = [min([number, *starts[low:high]])]
            ends[low:high] = [max([number, *ends[low:high]])]
            if len(starts) > MAX_RANGES:
                del starts[1], ends[0]

    def settle(self, floor: float) -> None:
        """Forget what lies below the floor; infinity ends the session: no call of it runs any more."""
        few = floor - self.floor < len(self.calls)
        below = range(int(self.floor), int(floor)) if few else [n for n in self.calls if n < floor]
        self.floor = max(self.floor, floor)
        for call in filter(None, map(self.calls.get, below)):
            if not call.attachable:
                call.forget()
        while self.ends and self.ends[0] < floor:
            del self.starts[0], self.ends[0]


class CallTable(Generic[R, A]):
    """Calls of all clients: R sends a reply, A is an answer.

    Args:
        kept: seconds for which an answer is kept.
        room: bytes of large answers of each key; small ones have a quarter of it beside them.
        most: calls and joined requests of each key that wait for an answer.
    """

    def __init__(self, kept: float = 60.0, room: int = 64 << 20, most: int = 10_000) -> None:
        self._kept, self._room, self._most = kept, room, most
        self._keys: dict[str, CallsOfKey[R, A]] = {}

    def session(self, key_id: str, name: str) -> CallSession[R, A] | None:
        """Find the session that a client can resume."""
        key = self._keys.get(key_id)
        return key.sessions.get(name) if key else None

    def open(self, key_id: str, name: str, resume_key: bytes) -> CallSession[R, A]:
        """Return the session of a new connection; raises Refused without room for another."""
        key = self._keys.get(key_id) or self._keys.setdefault(key_id, CallsOfKey())
        session = key.sessions.get(name)
        if session is None:
            if len(key.sessions) >= MAX_SESSIONS:
                self._evict(key)
            session = key.sessions[name] = CallSession(key, resume_key)
        session.connections += 1
        return session

    def _evict(self, key: CallsOfKey[R, A]) -> None:
        quiet = [(each.silent_since, name) for name, each in key.sessions.items() if not each.connections]
        for _, name in sorted(quiet):
            calls = [*key.sessions[name].calls.values()]
            if all(call.queue is not None for call in calls):
                for call in calls:
                    call.forget()
                del key.sessions[name]
                return
        raise Refused(f"{MAX_SESSIONS} clients with this key are connected: close some")

    def close(self, session: CallSession[R, A], now: float) -> None:
        """A connection of the session has ended."""
        session.connections, session.silent_since = session.connections - 1, now

    def admit(self, session: CallSession[R, A], number: int, floor: int, reply: R) -> CallOutcome:
        """Judge a request, whether it was sent before or not; raises Refused if too many wait."""
        if floor > session.floor:
            session.settle(floor)
        call = session.calls.get(number)
        if call:
            return self.join(call, reply)
        if number < session.floor or (session.starts and session.has_forgotten(number)):
            return CallOutcome.LOST
        self._count(session.key)
        session.calls[number] = AdmittedCall(session, number, reply)
        return CallOutcome.RUNS

    def join(self, call: AdmittedCall[R, A], reply: R) -> CallOutcome:
        """Wait for an answer, unless it is there; raises Refused if too many wait."""
        if call.queue is not None:
            return CallOutcome.ANSWERED
        if call.replies:
            self._count(call.session.key)
        call.replies.append(reply)
        return CallOutcome.JOINED

    def _count(self, key: CallsOfKey[R, A]) -> None:
        if key.waiting >= self._most:
            raise Refused(
                f"{self._most} calls of this key wait for their answers: wait for some, or cancel them"
            )
        key.waiting += 1

    def leave(self, call: AdmittedCall[R, A], reply: R) -> None:
        """Wait no longer."""
        if reply in call.replies:
            call.replies.remove(reply)
            call.session.key.waiting -= bool(call.replies)

    def find(self, key_id: str, name: str, number: int) -> AdmittedCall[R, A] | None:
        """Find a call that runs or was answered in any session of a key."""
        session = self.session(key_id, name)
        return session.calls.get(number) if session else None

    def cancel(self, session: CallSession[R, A], number: int) -> bool:
        """Return whether the call runs, so that the caller stops it; one that has not come never runs."""
        call = session.calls.get(number)
        if call is None:
            session.forget(number)
            return False
        call.attachable = True  # the client gave up, perhaps just before the answer came
        return call.queue is None

    def finish(self, call: AdmittedCall[R, A], answer: A, size: int, now: float) -> list[R]:
        """Keep an answer of ``size`` bytes; return the replies that wait for it."""
        replies, call.replies, key = call.replies, [], call.session.key
        key.waiting -= len(replies) or 1
        call.answer, call.size, call.answered_at = answer, size + OVERHEAD, now
        call.queue = queue = key.small if size <= SMALL else key.large
        queue[call] = None
        queue.bytes += call.size
        if call.number < call.session.floor and not call.attachable:
            call.forget()
        room = self._room if queue is key.large else self._room // 4
        while queue.bytes > room:
            (call if call.size > room else next(iter(queue))).forget()
        return replies

    def expire(self, now: float) -> None:
        """Forget old answers, and sessions that were silent for long."""
        for key_id, key in [*self._keys.items()]:
            for queue in (key.small, key.large):
                while queue and (oldest := next(iter(queue))).answered_at <= now - self._kept:
                    oldest.forget()
            for name, session in [*key.sessions.items()]:
                if not (session.connections or session.calls) and session.silent_since <= now - SILENT:
                    del key.sessions[name]
            if not key.sessions:
                del self._keys[key_id]
