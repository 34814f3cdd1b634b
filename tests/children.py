"""The processes below this one, as the kernel lists them; a list costs microseconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Child:
    """A process below this one.

    Attributes:
        pid: its number.
        started: when it began, in ticks since the machine did; with the number it is unique.
    """

    pid: int
    started: str

    def describe(self) -> str:
        """Its state and command line."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            command = Path(f"/proc/{self.pid}/cmdline").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "(it has just ended)"
        return f"({STATES.get(state, state)}): {command.replace(chr(0), ' ').strip()}"


STATES = {"S": "sleeping", "R": "running", "Z": "zombie", "T": "stopped", "D": "waiting for the kernel"}


def children(pid: int | str = "self") -> Iterator[Child]:
    """All processes below one, children of children as well, except what those have not waited for yet."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            numbers = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split()
        except OSError:
            continue  # it ended
        for number in numbers:
            try:
                stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            told = stat.rpartition(")")[2].split()
            if pid == "self" or told[0] != "Z":
                yield Child(int(number), told[19])
            yield from children(number)
