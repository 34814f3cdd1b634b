"""Member: what a request is about, as everything that decides about the request knows it."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.paths import Path
from .marks import Marks


class Member(NamedTuple):
    """What a request is about.

    Attributes:
        text: path as people write it, such as ``ch1.voltage``; empty for all that is served.
        urgent: calls of it run beside whatever runs, lock or not.
        reading: observers may call it.
        on_cancel: method of the same object that is called when a call of it was cancelled.
        lane: number of the lane in which it runs.
        path: to it; None for what is no path.
        narrowed: only some of its members are served, and nothing else of it.
        sure: the marks are those of what is there; otherwise what is there is found in its turn only.
        settled: nothing is left to be judged in its turn.
    """

    text: str
    urgent: bool = False
    reading: bool = False
    on_cancel: str | None = None
    lane: int = 0
    path: Path | None = None
    narrowed: bool = False
    sure: bool = True
    settled: bool = False


def marked(member: Member, marks: Marks) -> Member:
    """A member with what was found out about it."""
    return member._replace(urgent=marks.urgent, reading=marks.reading, on_cancel=marks.on_cancel, sure=True)


NOTHING = Member("", path=())
"""The whole of what is served, as far as nothing is said of it."""
