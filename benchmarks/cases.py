"""What every benchmark is made of: cases, who takes part in them, and the bars that they are judged by."""

from __future__ import annotations

import importlib.util
import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Participant:
    """One library in one role.

    Attributes:
        title: as it is shown.
        needs: module that must be installed.
        environment: variables of its processes.
    """

    title: str
    needs: str = field(default="", kw_only=True)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)

    def here(self) -> bool:
        """Whether it can take part on this machine."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None


@dataclass(frozen=True)
class Sum:
    """What is no measurement of its own, but a sum of others round by round.

    Attributes:
        title: as it is shown.
        parts: factors by contender.
    """

    title: str
    parts: Mapping[str, float]

    def values(self, found: Mapping[str, Sequence[float]]) -> list[float]:
        """One value per round; nothing when a part is missing."""
        if any(name not in found for name in self.parts):
            return []
        rounds = zip(*(found[name] for name in self.parts), strict=False)
        return [sum(f * v for f, v in zip(self.parts.values(), each, strict=True)) for each in rounds]


@dataclass(frozen=True)
class Best:
    """Whoever of some contenders has the best median.

    Attributes:
        names: of the contenders.
        highest: more is better.
    """

    names: tuple[str, ...]
    highest: bool = False

    def name(self, found: Mapping[str, Sequence[float]]) -> str:
        """The best one's name; empty when none has a value."""
        there = {name: statistics.median(found[name]) for name in self.names if found.get(name)}
        return (max if self.highest else min)(there, key=there.__getitem__) if there else ""

    def values(self, found: Mapping[str, Sequence[float]]) -> list[float]:
        """The best one's values."""
        return list(found.get(self.name(found), ()))


@dataclass(frozen=True)
class Bar:
    """One row of the table.

    Attributes:
        ours: contender, or name of what is derived, that is judged.
        rival: whom it is compared with, the same way; empty for none.
        limit: of ours divided by the rival's, or without rival of the value itself; None only tells.
        at_least: the limit is a lower one.
        pinned: in which of the two tables the row stands; None for both.
    """

    ours: str
    rival: str = ""
    limit: float | None = None
    at_least: bool = False
    pinned: bool | None = None


class Team(Protocol):
    """The processes of one contender in one case."""

    def start(self, stack: ExitStack, key: str) -> None:
        """Start them; leaving the stack ends them. ``key`` is what they sign with."""

    def round(self) -> float:
        """One turn; its value in the unit of the case."""
        ...


@dataclass(frozen=True)
class AnyCase(ABC):
    """One thing that is measured.

    Attributes:
        key: name for ``--only``.
        title: as it is shown.
        unit: of what a round gives.
        bars: rows of the table.
        derived: what is computed out of the contenders' values, by name.
    """

    key: str
    title: str
    unit: str
    bars: tuple[Bar, ...] = field(kw_only=True)
    derived: Mapping[str, Sum | Best] = field(default_factory=dict[str, "Sum | Best"], kw_only=True)

    @property
    @abstractmethod
    def members(self) -> Mapping[str, Participant]:
        """Who takes part, by name, in the order of the rounds."""

    @abstractmethod
    def team(self, name: str, effort: Any, core: int | None) -> Team:
        """The processes of one contender, not yet started.

        Args:
            name: the contender's.
            effort: how much is done in a round.
            core: that all of them share; None leaves them where the system puts them.
        """

    def values(self, name: str, found: Mapping[str, Sequence[float]]) -> list[float]:
        """Values of a contender or of what is derived; empty when there are none."""
        derived = self.derived.get(name)
        return derived.values(found) if derived else list(found.get(name, ()))

    def name_of(self, name: str, found: Mapping[str, Sequence[float]]) -> str:
        """How that is shown."""
        derived = self.derived.get(name)
        if isinstance(derived, Sum):
            return derived.title
        if isinstance(derived, Best):
            name = derived.name(found)
        return self.members[name].title if name else "nobody"
