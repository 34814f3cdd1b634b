"""Locks: who may call one served object alone, and who waits for it.

Every event first lets pass what time has ended: tickets past ``wait_until`` are refused, then an
owner that was silent for its ttl is out. After that::

    lock       event                               next lock       told
    free       acquire, takeover by A              A               taken, Granted(ticket)
    held by A  acquire, takeover by A              A, renewed      Granted(ticket)
               acquire by B, not yet wait_until    A, B waits      Waiting(ticket)
               acquire by B, no time or no room    A               LockedBy
               takeover by B                       B               taken over, Granted(ticket)
               release by A                        next            released
               A silent for ttl                    next            expired
               gone(A's agent)                     next            lost
               release by B                        A               False
               give_up by A                        next            released
               give_up by B, then for 60 s         A               Refusal of each ticket of B
               acquire, takeover by B              as it was       LockLost: the request comes late
               renew(A's agent)                    A for ttl more  -
               excuse(seconds)                     A, seconds more -
    ticket     the lock passes to its owner        ended           Granted(ticket)
               wait_until                          ended           Refusal(ticket, LockedBy)
               gone(its agent)                     ended           Removed(ticket)
               withdraw                            ended           True

*next* is the owner of the oldest ticket (taken, Granted), or free when nobody waits. Tickets are first
come, first served, except that the new owner's other tickets are granted with its first: they would wait
for their own proxy. Who gives up does not use its token again: its earlier requests may still be on their way
by another connection, and are not granted. A call is judged by `Lock.check`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from ..protocol.errors import LocalProtocolError, LockedBy, LockLost, Refused, RemoteProtocolError
from ..protocol.message import Identity
from ..protocol.shown import printable

_WAITING = 500  # requests of one key that may wait for one lock
MIN_TTL, MAX_TTL, MAX_REASON, MAX_TOKEN = 0.1, 86_400.0, 200, 128
MAX_GIVEN_UP, GIVEN_UP = 1000, 60.0
"""Owners that gave up without having the lock and are refused, at most; and for how many seconds."""

T = TypeVar("T", bound=Hashable)
Kind = Literal["taken", "released", "expired", "lost", "taken over"]


@dataclass(frozen=True, slots=True)
class Owner:
    """One proxy: what may hold a lock.

    Attributes:
        key: proven name of the signing key; empty when unsigned.
        agent: agent id, or REP endpoint of a PZC00 peer.
        token: random text of one proxy, 1 to 128 characters; kept out of logs.
        key_id: of the signing key; empty when unsigned.
        said: whose process it is, as that says itself: ``alice@bench (process 4711)``.

    Raises:
        RemoteProtocolError: for a token of another length.
    """

    key: str
    agent: str
    token: str = field(repr=False)
    key_id: str = ""
    said: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.token) <= MAX_TOKEN:
            raise RemoteProtocolError(
                f"the lock token of {self.label} has {len(self.token)} characters, expected 1 to {MAX_TOKEN}"
            )

    @property
    def identity(self) -> Identity:
        """Of the agent whose proxy it is."""
        return Identity(self.key_id, self.agent)

    @property
    def label(self) -> str:
        """What people read: ``alice (agent 3f2a90c1)``; of a key without a name what the process says."""
        agent, said = f"agent {self.identity.short}", printable(self.said)
        if self.key and not (said and self.key == self.key_id):
            return f"{self.key} ({agent})"
        return said if self.key else f"{said or agent} (unsigned)"


@dataclass(frozen=True, slots=True)
class Granted(Generic[T]):
    """The owner of this ticket holds the lock."""

    ticket: T
    owner: Owner


@dataclass(frozen=True, slots=True)
class Waiting(Generic[T]):
    """The ticket stands in the queue; exactly one later event, or `Lock.withdraw`, ends it."""

    ticket: T


@dataclass(frozen=True, slots=True)
class Refusal(Generic[T]):
    """The ticket waited in vain; ``error`` is for its caller."""

    ticket: T
    error: LockedBy


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """The ticket's agent is gone: nobody is left to answer."""

    ticket: T


@dataclass(frozen=True, slots=True)
class Changed:
    """Ownership changed, to be logged and audited.

    Attributes:
        kind: ``taken``, ``released``, ``expired``, ``lost`` or ``taken over``.
        owner: who has it now (``taken``) or had it until now (the others).
        by: who did it, the new owner for ``taken over``; None for ``expired`` and ``lost``.
    """

    kind: Kind
    owner: Owner
    by: Owner | None


Event = Granted[T] | Refusal[T] | Removed[T] | Changed
Outcome = Granted[T] | Waiting[T] | LockedBy | Refused


@dataclass(frozen=True, slots=True)
class _Claim:
    owner: Owner
    ttl: float
    reason: str
    until: float
    wall_offset: float  # Unix time minus monotonic time when it was made


class Lock(Generic[T]):
    """The exclusive lock of one served object; see the table in the module's docstring.

    Times ``now`` and ``wait_until`` are monotonic seconds, ``wall`` is in Unix seconds. Events are listed
    in the order in which they happened.

    Args:
        reads_allowed: whether calls that only read pass while somebody else holds the lock.

    Attributes:
        owner: who holds the lock, or None. A call without token needs no `check` while it is None.
    """

    def __init__(self, *, reads_allowed: bool = True) -> None:
        self.reads_allowed = reads_allowed
        self.owner: Owner | None = None
        self._ttl = self._deadline = self._since = 0.0
        self._reason = ""
        self._waiting: dict[T, _Claim] = {}
        self._given_up: dict[Owner, float] = {}  # until when their requests come late; oldest first
        self._ended: Changed | None = None

    def check(self, key: str, agent: str, token: str, reads: bool) -> None:
        """Judge a call by whom it comes from.

        Args:
            key: proven name of the key that signed it; empty when unsigned.
            agent: agent id of its sender.
            token: what the caller relies on; empty when it does not claim to hold the lock.
            reads: whether the call only reads.

        Raises:
            LockedBy: somebody else holds the lock.
            LockLost: the call carries a token, but its caller does not hold the lock, even if nobody does:
                it believes to be alone, so it must not run.
        """
        owner = self.owner
        if owner is None:
            if not token:
                return
        elif token == owner.token and key == owner.key and agent == owner.agent:
            return
        if token:
            raise self._lost(key, agent, token)
        if owner is not None and not (reads and self.reads_allowed):
            raise self._locked_by(owner)

    def acquire(
        self, owner: Owner, ttl: float, reason: str, wait_until: float, ticket: T, now: float, wall: float
    ) -> tuple[Outcome[T], list[Event[T]]]:
        """Take the lock, renew it, or wait for it.

        Args:
            owner: who wants it. Its own lock is renewed: the longer ttl and the last non-empty reason count.
            ttl: seconds of silence after which the owner is out; brought into 0.1 s to 1 day.
            reason: shown to others; cut to 200 characters.
            wait_until: when to give up, at most 1 day ahead; ``now`` or earlier to not wait at all.
            ticket: of the caller's choice, unique among those that wait.
            now: the time.
            wall: the same moment in Unix seconds.

        Returns:
            `Granted`, `Waiting` or what to raise (`LockedBy`; `Refused`); and what else happened.

        Raises:
            LockLost: when the owner has given up asking.
            LocalProtocolError: when the ticket already waits.
        """
        self._check_late(owner, now)
        if ticket in self._waiting:
            raise LocalProtocolError(f"ticket {ticket!r} already waits for the lock; use one per request")
        events = self.expire(now)
        claim = _claim(owner, ttl, reason, min(wait_until, now + MAX_TTL), wall - now)
        holder = self.owner
        if holder is None or holder == owner:
            return Granted(ticket, owner), events + self._pass_to(claim, now)
        if not wait_until > now:
            return self._locked_by(holder), events
        if sum(other.owner.key_id == owner.key_id for other in self._waiting.values()) >= _WAITING:
            wait = f"{_WAITING} requests with this key wait for this lock"
            return Refused(f"no room: {wait}; {holder.label} holds it: try again later"), events
        self._waiting[ticket] = claim
        return Waiting(ticket), events

    def takeover(
        self, owner: Owner, ttl: float, reason: str, ticket: T, now: float, wall: float
    ) -> tuple[Granted[T], list[Event[T]]]:
        """Take the lock whoever holds it; that ``owner`` may do so was checked before.

        Args:
            owner: the new owner, before all who wait.
            ttl: as for `acquire`.
            reason: as for `acquire`.
            ticket: as for `acquire`; it never waits.
            now: the time.
            wall: the same moment in Unix seconds.

        Raises:
            LockLost: when the owner has given up asking.
        """
        self._check_late(owner, now)
        events = self.expire(now)
        events += self._pass_to(_claim(owner, ttl, reason, now, wall - now), now)
        return Granted(ticket, owner), events

    def release(self, owner: Owner, now: float) -> tuple[bool, list[Event[T]]]:
        """Give the lock back; False when ``owner`` does not hold it (any more)."""
        events = self.expire(now)
        if self.owner != owner:
            return False, events
        return True, events + self._free(owner, "released", owner, now)

    def give_up(self, owner: Owner, now: float) -> tuple[bool, list[Event[T]]]:
        """Give the lock back, or refuse it to ``owner``: now, and for a while; otherwise as `release`."""
        held, events = self.release(owner, now)
        if held:
            return held, events
        self._given_up = {other: until for other, until in self._given_up.items() if until > now}
        self._given_up[owner] = now + GIVEN_UP
        if len(self._given_up) > MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]
        holder = self.owner
        if holder is None:
            return held, events
        tickets = [ticket for ticket, claim in self._waiting.items() if claim.owner == owner]
        for ticket in tickets:
            del self._waiting[ticket]
        return held, [*events, *(Refusal(ticket, self._locked_by(holder)) for ticket in tickets)]

    def withdraw(self, ticket: T) -> bool:
        """Forget a ticket whose caller gave up; False when it does not wait (any more)."""
        return self._waiting.pop(ticket, None) is not None

    def renew(self, agent: Identity, now: float) -> list[Event[T]]:
        """Note a sign of life of an agent; it comes too late once the ttl has passed."""
        owner = self.owner
        if owner is None or owner.identity != agent:
            return []
        if self._deadline <= now:
            return self.expire(now)
        self._deadline = max(self._deadline, now + self._ttl)
        return []

    def excuse(self, seconds: float) -> None:
        """Whoever keeps the lock stood still for so long: its owner was not silent then."""
        self._deadline += seconds

    def gone(self, agent: Identity, now: float) -> list[Event[T]]:
        """Free what a dead agent holds, and remove its tickets before anything is granted."""
        removed = [ticket for ticket, claim in self._waiting.items() if claim.owner.identity == agent]
        for ticket in removed:
            del self._waiting[ticket]
        events: list[Event[T]] = [Removed(ticket) for ticket in removed]
        events += self.expire(now)
        if self.owner is not None and self.owner.identity == agent:
            events += self._free(self.owner, "lost", None, now)
        return events

    def expire(self, now: float) -> list[Event[T]]:
        """Let pass what time has ended; to be called at `next_due` at the latest."""
        owner = self.owner
        if owner is None:
            return []
        late = [ticket for ticket, claim in self._waiting.items() if claim.until <= now]
        for ticket in late:
            del self._waiting[ticket]
        events: list[Event[T]] = [Refusal(ticket, self._locked_by(owner)) for ticket in late]
        return events + self._free(owner, "expired", None, now) if self._deadline <= now else events

    def next_due(self) -> float | None:
        """When `expire` has something to do, in monotonic seconds; None while free."""
        if self.owner is None:
            return None
        return min([self._deadline, *(claim.until for claim in self._waiting.values())])

    def describe(self) -> dict[str, str | float] | None:
        """Say who holds the lock: ``owner since reason ttl waiting``; None while free."""
        if self.owner is None:
            return None
        return {
            "owner": self.owner.label, "since": self._since, "reason": self._reason, "ttl": self._ttl,
            "waiting": len(self._waiting),
        }  # fmt: skip

    def _check_late(self, owner: Owner, now: float) -> None:
        if self._given_up.get(owner, now) > now:
            raise LockLost("whoever asked for the lock gave up before this request came: nobody waits for it")

    def _pass_to(self, claim: _Claim, now: float) -> list[Event[T]]:
        """Make the claim's owner the owner, and grant the tickets that it has waiting."""
        old, new = self.owner, claim.owner
        events: list[Event[T]] = []
        if old != new:
            change = Changed("taken", new, new) if old is None else Changed("taken over", old, new)
            if old is not None:
                self._ended = change
            self.owner, self._since = new, now + claim.wall_offset
            self._ttl = self._deadline = 0.0
            self._reason = ""
            events.append(change)
        self._renew(claim, now)
        for ticket in [ticket for ticket, other in self._waiting.items() if other.owner == new]:
            self._renew(self._waiting.pop(ticket), now)
            events.append(Granted(ticket, new))
        return events

    def _renew(self, claim: _Claim, now: float) -> None:
        # An inner acquire with a short ttl must not shorten what the outer one relies on.
        self._ttl = max(self._ttl, claim.ttl)
        self._deadline = max(self._deadline, now + self._ttl)
        self._reason = claim.reason or self._reason

    def _free(self, owner: Owner, kind: Kind, by: Owner | None, now: float) -> list[Event[T]]:
        self._ended = Changed(kind, owner, by)
        self.owner = None
        events: list[Event[T]] = [self._ended]
        oldest = next(iter(self._waiting.values()), None)
        return events if oldest is None else events + self._pass_to(oldest, now)

    def _locked_by(self, owner: Owner) -> LockedBy:
        return LockedBy(owner.label, self._since, self._reason)

    def _lost(self, key: str, agent: str, token: str) -> LockLost:
        ended = self._ended
        what = "is not held by this caller: it ended, or the server was restarted"
        of = None if ended is None else (ended.owner.key, ended.owner.agent, ended.owner.token)
        if ended is not None and of == (key, agent, token):
            what = _ENDS[ended.kind] if ended.by is None else f"was {ended.kind} by {ended.by.label}"
        held = "nobody holds it" if self.owner is None else f"{self.owner.label} holds it"
        return LockLost(
            f"the lock that this call relies on {what}; now {held}. The call did not run: acquire it again"
        )


_ENDS = {
    "expired": "expired, because nothing was heard of its owner for its ttl",
    "lost": "was freed, because its owner was taken for dead",
}


def _claim(owner: Owner, ttl: float, reason: str, until: float, wall_offset: float) -> _Claim:
    # In this order a NaN becomes the shortest ttl instead of one that never ends.
    bounded = float(max(MIN_TTL, min(ttl, MAX_TTL)))
    # The reason ends in other people's terminals and logs: no line breaks, no control characters.
    shown = "".join(c if c.isprintable() else " " for c in reason[:MAX_REASON])
    return _Claim(owner, bounded, shown, until, wall_offset)
