"""What a directory tells: events, and what it knows of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from .records import Entry

Source = Literal["multicast", "relay", "registry"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""Ways on which entries come, the best first."""

Reason = Literal["bye", "silent", "withdrawn", "restarted"]


@dataclass(frozen=True, slots=True)
class Appeared:
    """An entry is known."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Changed:
    """The entry is another one now, such as with other addresses."""

    old: Entry
    new: Entry


@dataclass(frozen=True, slots=True)
class Vanished:
    """The entry is not known any more."""

    entry: Entry
    reason: Reason


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two live agents hold one name; ``entry`` is the one that counts."""

    entry: Entry
    other: Entry


Event = Appeared | Changed | Vanished | Conflict


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of a process, for people.

    Attributes:
        process: its 16 bytes.
        epoch: when it began to announce, in Unix seconds.
        host: its machine, when one of its agents told.
        pid: its number there, likewise.
        sources: through which it is heard.
        heard: monotonic time of the last sign of life.
        skew: seconds by which its clock is ahead of ours, as far as the way here took no time.
        entries: how many are known.
        complete: whether these are all.
    """

    process: bytes
    epoch: int
    host: str
    pid: int
    sources: tuple[Source, ...]
    heard: float
    skew: float
    entries: int
    complete: bool
