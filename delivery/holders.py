"""Holders: which agents hold something here, and since when nothing was heard of them.

An agent is an `Identity`: what one key signs touches nothing of an agent of the same id with another key.
What an agent may hold: the lock, streams, waiting requests, queued calls. Whatever it holds must be
released once it is dead, so an agent is known here from its first thing to its last::

    agent      event                   then               returned
    unknown    hold(now)               known, heard now   ticket
               touch                   unknown            -
    known      touch(now)              heard now          -
               hold(now)               heard as before    ticket, or Refused
               drop of its last thing  unknown            True
               excuse(seconds)         heard so much later  -
               gone                    unknown            all that it held, oldest first
    any        drop of another ticket  as before          False

A client that holds something says so several times a second (``alive``); each of its messages is a `touch`.
`hold` is none: a call that was queued may begin to hold something long after its caller died.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..protocol.errors import Refused
from ..protocol.message import Identity

MAX_AGENTS = 10_000
"""Agents of one key that hold something at a time."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Held(Generic[R]):
    """One thing that an agent holds.

    Attributes:
        ticket: what `Holders.hold` returned.
        what: for people, such as ``lock`` or ``stream``.
        release: whatever the caller needs to release it.
    """

    ticket: int
    what: str
    release: R


@dataclass(slots=True)
class _Agent(Generic[R]):
    heard: float
    things: dict[int, Held[R]] = field(default_factory=dict[int, Held[R]])


class Holders(Generic[R]):
    """Keeps what each agent holds; see the table in the module's docstring. Its length counts the things."""

    def __init__(self) -> None:
        self._agents: OrderedDict[Identity, _Agent[R]] = OrderedDict()  # longest silent first
        self._agents_of: Counter[str] = Counter()  # by key id
        self._agent_of: dict[int, Identity] = {}
        self._last_ticket = 0
        self._now = float("-inf")

    def __len__(self) -> int:
        return len(self._agent_of)

    def touch(self, agent: Identity, now: float) -> None:
        """Note a sign of life, at ``now`` in monotonic seconds; costs nothing for one that holds nothing."""
        known = self._agents.get(agent)
        if known is not None:
            known.heard = self._advance(now)
            self._agents.move_to_end(agent)

    def hold(self, agent: Identity, what: str, release: R, now: float) -> int:
        """Note that an agent holds something.

        Args:
            agent: who holds it.
            what: for people, such as ``lock`` or ``stream``.
            release: whatever the caller needs to release it; comes back from `gone`.
            now: monotonic seconds; from here on it is silent, unless it was known before.

        Returns:
            The ticket for `drop`, never used twice.

        Raises:
            Refused: when `MAX_AGENTS` others of its key hold something.
        """
        known = self._agents.get(agent)
        if known is None:
            if self._agents_of[agent.key_id] >= MAX_AGENTS:
                raise Refused(
                    f"no room for a {what}: {MAX_AGENTS} agents with this key hold something here; "
                    "try again later"
                )
            self._agents_of[agent.key_id] += 1
            known = self._agents[agent] = _Agent(self._advance(now))
        self._last_ticket = ticket = self._last_ticket + 1
        known.things[ticket] = Held(ticket, what, release)
        self._agent_of[ticket] = agent
        return ticket

    def drop(self, ticket: int) -> bool:
        """Forget one thing; False when it was dropped before, or its agent was taken for dead."""
        agent = self._agent_of.pop(ticket, None)
        if agent is None:
            return False
        things = self._agents[agent].things
        del things[ticket]
        if not things:
            self._remove(agent)
        return True

    def gone(self, agent: Identity) -> list[Held[R]]:
        """Forget a dead agent; returns what to release, oldest first."""
        known = self._agents.get(agent)
        if known is None:
            return []
        self._remove(agent)
        for ticket in known.things:
            del self._agent_of[ticket]
        return list(known.things.values())

    def excuse(self, seconds: float, now: float) -> None:
        """Whoever asks stood still for so long, until now: nobody was silent then."""
        for known in self._agents.values() if seconds else ():
            known.heard = min(known.heard + seconds, now)

    def silent(self, now: float, limit: float) -> list[Identity]:
        """Agents that hold something and were not heard of for ``limit`` seconds, longest silent first."""
        late: list[Identity] = []
        for agent, known in self._agents.items():
            if known.heard + limit > now:
                break
            late.append(agent)
        return late

    def holding(self, agent: Identity) -> bool:
        """Whether the agent holds anything."""
        return agent in self._agents

    def next_due(self, limit: float) -> float | None:
        """When the next agent will have been silent for ``limit`` seconds; None while nothing is held."""
        first = next(iter(self._agents.values()), None)
        return None if first is None else first.heard + limit

    def _remove(self, agent: Identity) -> None:
        del self._agents[agent]
        self._agents_of[agent.key_id] -= 1

    def _advance(self, now: float) -> float:
        # A time read before another thread's keeps the agents ordered by silence.
        self._now = max(self._now, now)
        return self._now
