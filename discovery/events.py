"""What a directory tells: events, and what it knows of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from .records import Entry

Source = Literal["multicast", "relay", "registry"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""Ways on which entries come, the best first."""


@dataclass(frozen=True, slots=True)
class Appeared:
    """An entry is known."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Changed:
    """The entry is another one than before, such as with other addresses."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Vanished:
    """The entry is not known any more."""

    entry: Entry


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
        sources: through which it is heard, the best first.
        entries: how many are known.
        complete: whether these are all.
    """

    process: bytes
    sources: tuple[Source, ...]
    entries: int
    complete: bool
