"""Holdings: what the sessions of clients hold at a server, and when they are dead.

A session is an `Identity`. It holds locks, handles, streams and subscriptions; calls of it may run as well
(it is *busy*). Its control connection brings a keepalive each second while it holds something::

    session        event                                    next           result
    unknown        connect, hold                            heard now      ticket of `hold`
    connected      heard, disconnect                        heard now      -
                   expire: holds nothing                    heard now      -
    disconnected   connect                                  connected      -
                   drop of its last holding, expire:        unknown        -
                   holds nothing, is not busy
    any            expire: not heard for `GRACE` seconds    unknown        what it held
                   end: its process is known to have ended  unknown        what it held

A server that stood still (SIGSTOP, suspend) heard nobody meanwhile. `expire` is called every `LOOK` seconds
or more often; by as much as it comes late, all that was heard counts as heard later.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..protocol.errors import Refused
from ..protocol.message import Identity
from .standstill import Standstill

GRACE = 4.0
"""Seconds without a sign of life after which a session is dead."""

LOOK = 0.5
"""Most seconds between two calls of `Holdings.expire` while there are sessions."""

MAX_SESSIONS, MAX_HOLDINGS = 10_000, 100_000
"""Sessions of one key that are connected or hold something; things that they hold."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Holding(Generic[R]):
    """One thing that a session holds.

    Attributes:
        ticket: for `Holdings.drop`; never used twice.
        session: whose it is.
        what: for people, such as ``lock`` or ``stream``.
        release: whatever the caller needs to release it.
    """

    ticket: int
    session: Identity
    what: str
    release: R


@dataclass(slots=True)
class SessionHoldings(Generic[R]):
    """What one session holds, oldest first, and when it was heard of."""

    heard: float
    connections: int = 0
    things: dict[int, Holding[R]] = field(default_factory=dict[int, Holding[R]])


class Holdings(Generic[R]):
    """See the module's docstring. Times are monotonic seconds; the length counts what is held."""

    def __init__(self, now: float) -> None:
        self._sessions: dict[Identity, SessionHoldings[R]] = {}
        self._things: dict[int, Holding[R]] = {}
        self._sessions_of, self._things_of = Counter[str](), Counter[str]()
        self._standstill = Standstill(LOOK, now)
        self._last_ticket = 0

    def __len__(self) -> int:
        return len(self._things)

    def connect(self, session: Identity, now: float) -> None:
        """A control connection of the session was opened. Raises Refused without room."""
        known = self._of(session, "control connection", now)
        known.connections += 1
        known.heard = now

    def disconnect(self, session: Identity, now: float) -> None:
        """A control connection has ended; nothing for a session that is dead."""
        known = self._sessions.get(session)
        if known is not None and known.connections:
            known.connections -= 1
            known.heard = max(known.heard, now)

    def heard(self, session: Identity, now: float) -> None:
        """The session gave a sign of life."""
        known = self._sessions.get(session)
        if known is not None:
            known.heard = max(known.heard, now)

    def hold(self, session: Identity, what: str, release: R, now: float) -> int:
        """Return the ticket of a new holding. It is no sign of life: its call may have waited for long.

        Raises:
            Refused: if the key has no room.
        """
        if self._things_of[session.key_id] >= MAX_HOLDINGS:
            raise Refused(f"no room for a {what}: clients with this key hold {MAX_HOLDINGS} things here")
        known = self._of(session, what, now)
        self._last_ticket = ticket = self._last_ticket + 1
        self._things[ticket] = known.things[ticket] = Holding(ticket, session, what, release)
        self._things_of[session.key_id] += 1
        return ticket

    def _of(self, session: Identity, what: str, now: float) -> SessionHoldings[R]:
        known = self._sessions.get(session)
        if known is None:
            if self._sessions_of[session.key_id] >= MAX_SESSIONS:
                raise Refused(f"no room for a {what}: {MAX_SESSIONS} clients with this key are here")
            self._sessions_of[session.key_id] += 1
            known = self._sessions[session] = SessionHoldings(now)
        return known

    def drop(self, ticket: int) -> bool:
        """Forget a holding that the client has released; False if it is gone already."""
        thing = self._things.pop(ticket, None)
        if thing is None:
            return False
        known = self._sessions[thing.session]
        del known.things[ticket]
        self._things_of[thing.session.key_id] -= 1
        return True

    def holding(self, session: Identity) -> bool:
        """Whether the session holds anything."""
        known = self._sessions.get(session)
        return known is not None and bool(known.things)

    def end(self, session: Identity) -> list[Holding[R]]:
        """Forget a session that said goodbye or is known to be dead; return what to release."""
        known = self._sessions.pop(session, None)
        if known is None:
            return []
        self._sessions_of[session.key_id] -= 1
        self._things_of[session.key_id] -= len(known.things)
        for ticket in known.things:
            del self._things[ticket]
        return [*known.things.values()]

    def expire(self, now: float, busy: Callable[[Identity], bool]) -> dict[Identity, list[Holding[R]]]:
        """Forget sessions that are dead.

        Args:
            now: monotonic seconds.
            busy: tells whether calls of a session run or wait.

        Returns:
            What to release, by dead session.
        """
        stood = self._standstill.look(now)
        dead: dict[Identity, list[Holding[R]]] = {}
        for session, known in [*self._sessions.items()]:
            known.heard = min(known.heard + stood, now)
            if known.things or (not known.connections and busy(session)):
                if known.heard + GRACE <= now:
                    dead[session] = self.end(session)
            elif known.connections:
                known.heard = now  # it need not send keepalives
            else:
                self.end(session)
        return dead

    def next_look(self, now: float) -> float:
        """When `expire` is due next; infinity while there are no sessions."""
        return now + LOOK if self._sessions else math.inf
