"""LabState: all that is known of a lab now, under every monitor. Pure, as `watched`; its owner locks it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...protocol.contents import as_table
from ...protocol.shown import printable
from ..values import age
from .live import Live
from .troubles import FORGOTTEN, Trouble, sorted_troubles, troubles_of, worst_of
from .watched import Told, Watched, number

MOST_AGENTS, MOST_LIVES, MOST_LINES = 2000, 4000, 500
"""Agents, live values, and lines of the log that are kept."""

LATE = 60.0
"""Seconds that a pipeline may be behind."""


class Line(NamedTuple):
    """One line of the log.

    Attributes:
        number: from 1, without gaps.
        at: time, as it was given.
        level: ``bad``, ``warn`` or ``note``.
        agent: whom it is about.
        words: what happened.
    """

    number: int
    at: float
    level: str
    agent: str
    words: str


class LabState:
    """Agents by name, their live values, processes of a lab file, and a log of what changed.

    Attributes:
        agents: by the name under which each is watched.
        lives: newest values, by agent and topic.
        processes: as `pzc status` tells them; ``lag`` is added where it is known.
        lines: of the log, the newest last.
        left_out: agents that were too many.
    """

    def __init__(self) -> None:
        self.agents: dict[str, Watched] = {}
        self.lives: dict[tuple[str, str], Live] = {}
        self.processes: list[dict[str, Any]] = []
        self.lines: deque[Line] = deque(maxlen=MOST_LINES)
        self.left_out = 0
        self._number = 0
        self._known: dict[tuple[str, str, str], Trouble] = {}

    def note(self, now: float, level: str, agent: str, words: str) -> None:
        """Write a line of the log."""
        self._number += 1
        self.lines.append(Line(self._number, now, level, agent, printable(words, 500)))

    def come(self, name: str, now: float, about: Mapping[str, Any] | None = None) -> None:
        """A name is there, perhaps again."""
        watched = self.agents.get(name)
        if watched is None:
            if len(self.agents) >= MOST_AGENTS:
                self.left_out += 1
                return
            self.agents[name] = Watched(name, now, about)
            return
        if watched.state == "gone":
            self.note(now, "note", name, "is there again")
        watched.come(now)

    def leave(self, name: str, now: float) -> None:
        """A name is gone: a server is remembered, an agent that serves nothing is not."""
        watched = self.agents.get(name)
        if watched is None:
            return
        watched.leave(now)
        if not watched.serves:
            self._forget(name)

    def _forget(self, name: str) -> None:
        del self.agents[name]
        self.lives = {key: live for key, live in self.lives.items() if key[0] != name}

    def hear(self, name: str, told: Told, now: float) -> None:
        """An agent answered."""
        watched = self.agents.get(name)
        if watched is None or watched.state == "gone":
            return
        before, topics = watched.holds(), watched.topics
        if watched.hear(told, now):
            self.note(now, "note", name, "was restarted")
        for topic in topics.keys() - watched.topics.keys():  # it has ended, its last value and error too
            self.lives.pop((name, topic), None)
        held = watched.holds()
        if held != before:
            self.note(now, "note", name, f"lock: {held}" if held else "lock: free")

    def fail(self, name: str, error: str, now: float) -> None:
        """An agent did not answer."""
        watched = self.agents.get(name)
        if watched is not None:
            watched.fail(error, now)

    def take(self, name: str, topic: str, content: object, now: float) -> None:
        """A value of a topic came."""
        live = self.lives.get((name, topic))
        if live is None:
            if len(self.lives) >= MOST_LIVES or name not in self.agents:
                return
            live = self.lives[name, topic] = Live()
        live.take(content, now)

    def clean(self, now: float) -> None:
        """Forget who is gone for long, and write what trouble began and ended to the log."""
        for name, watched in list(self.agents.items()):
            if watched.state == "gone" and now - watched.since > FORGOTTEN:
                self._forget(name)
        troubles = {(each.agent, each.kind, each.what): each for each in self.troubles(now)}
        for key, trouble in troubles.items():
            if key not in self._known:
                self.note(now, trouble.level, trouble.agent, trouble.words)
        for key, trouble in self._known.items():
            if key not in troubles:
                self.note(now, "note", trouble.agent, f"over: {trouble.words}")
        self._known = troubles

    def troubles(self, now: float) -> list[Trouble]:
        """What to look at, the worst first."""
        found = [each for watched in self.agents.values() for each in troubles_of(watched, now)]
        for (name, topic), live in self.lives.items():
            watched = self.agents.get(name)
            if live.error and watched is not None and watched.answers:
                lasting = now - live.error_since
                words = f"{topic} cannot be read for {age(lasting)}: {live.error}"
                found.append(Trouble("bad", name, "unread", topic, words, lasting))
        for row in self.processes:
            found += _of_process(row)
        return sorted_troubles(found)

    def gaps(self) -> dict[tuple[str, str], int]:
        """Gaps and losses that readers saw, by the publisher's agent id and the topic."""
        found: dict[tuple[str, str], int] = {}
        for watched in self.agents.values():
            for each in watched.subscriptions:
                key = str(each.get("publisher", "")), str(each.get("topic", ""))
                found[key] = found.get(key, 0) + int(number(each.get("gaps")))
        return found

    def tell(self, now: float) -> dict[str, Any]:
        """All of it in terms of JSON."""
        gaps, troubles = self.gaps(), self.troubles(now)
        worst = worst_of(troubles)
        agents = [self.detail(name, now, gaps) | {"trouble": worst.get(name, "")} for name in self.agents]
        return {
            "agents": agents, "troubles": [each._asdict() for each in troubles],
            "processes": self.processes, "left_out": self.left_out,
        }  # fmt: skip

    def detail(self, name: str, now: float, gaps: Mapping[tuple[str, str], int]) -> dict[str, Any]:
        """One agent, with the newest values and the `gaps` of its topics."""
        watched = self.agents[name]
        told = watched.tell(now)
        agent_id = str(told["agent_id"])
        for topic, about in as_table(told.get("topics")).items():
            about["gaps"] = gaps.get((agent_id, topic), 0)
            live = self.lives.get((watched.name, topic))
            if live is not None:
                about["value"], about["error"] = live.tell(now, live.count)["text"], live.error
        return told


def _of_process(row: Mapping[str, Any]) -> list[Trouble]:
    name, state = str(row.get("name", "")), row.get("state")
    if state in ("waiting", "failed", "stopped"):
        why = str(row.get("does", "")) or "it was ended"
        return [Trouble("bad", name, "process", "", f"does not run: {why}", number(row.get("since")))]
    lag = number(row.get("lag"))
    if lag > LATE:
        return [Trouble("warn", name, "late", "", f"the tables are {age(lag)} behind", 0.0)]
    return []
