"""Hidden: names that are asked for where their addresses are of no use, as loopback's on another machine.

::

    an asker                            event               then
    asks beyond the machine for a name  not heard inside    it is told, and the name is noted, after `PAUSE`
    asks beyond the machine for a name  heard inside        nothing: it finds the name there
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .records import Entry

BIND = "start it with --bind tcp://0.0.0.0:PORT (rep_endpoint= in Python)"
"""What is to be done about an agent that others look for in vain."""

LOOKED_FOR = f"%s was looked for from another machine, and is bound to loopback, for this one only: {BIND}"
"""What its own log tells of it."""

PAUSE = 0.1
"""Seconds within which an asker of this machine is heard inside it as well."""

AT_ONCE = 3
"""Names in one answer, of any length."""

MOST = 256
"""Askers, questions and names that are remembered."""


class Hiding:
    """What one process hides, and what it was told that others hide; times are monotonic seconds.

    Attributes:
        heard: hosts by the names that others hide there.
        noted: names hidden here that were asked for, since somebody took them away.
    """

    def __init__(self) -> None:
        self.heard: dict[str, str] = {}
        self.noted: list[str] = []
        self._near: dict[bytes, float] = {}
        self._asked: list[tuple[float, bytes, int, tuple[str, ...], str]] = []
        self._known: set[str] = set()

    def near(self, process: bytes, now: float) -> None:
        """A process has asked inside this machine."""
        if len(self._near) >= MOST:
            self._near.clear()
        self._near[process] = now

    def ask(
        self, process: bytes, view: int, unseen: Iterable[Entry], patterns: Sequence[str], now: float
    ) -> None:
        """A process has asked on another view, where some entries are not seen."""
        found = [
            each for each in unseen if each.name in patterns and each.kind != "topic" and each.scope == "all"
        ][:AT_ONCE]
        if found and len(self._asked) < MOST:
            names = tuple(entry.name for entry in found)
            self._asked.append((now + PAUSE, process, view, names, found[0].host))

    @property
    def next(self) -> float | None:
        """When to call `due`."""
        return self._asked[0][0] if self._asked else None

    def due(self, now: float) -> list[tuple[int, tuple[str, ...], str]]:
        """Views, the names to be told there as hidden, and this host."""
        found: list[tuple[int, tuple[str, ...], str]] = []
        while self._asked and self._asked[0][0] <= now:
            at, process, view, names, host = self._asked.pop(0)
            if self._near.get(process, 0.0) < at - 2 * PAUSE:
                found.append((view, names, host))
                self.noted += [name for name in names if name not in self._known]
                self._known.update(names if len(self._known) < MOST else ())
        return found

    def learn(self, names: Iterable[str], host: str) -> None:
        """Another process hides names."""
        for name in names:
            if (len(self.heard) < MOST or name in self.heard) and f"{name}{host}".isprintable():
                self.heard[name] = host
