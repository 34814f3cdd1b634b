"""Letters: what a mailbox keeps of a message, and the interests for which it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from heapq import merge
from typing import Any, Generic

from ..protocol.errors import PolicyRefused
from .claims import UNBOUNDED, Entry, Interest, M
from .interests import ALL
from .policies import LARGEST, Policy


class Letter(Entry[M], Generic[M], eq=False, kw_only=True):
    """A message that is kept; ``order`` grows with each, ``at`` is its time in monotonic seconds."""

    claims: tuple[Kept, ...]  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    topic: str
    key: str
    order: int
    at: float

    def copy(self) -> Letter[M]:
        """The same for other claims."""
        return Letter(
            message=self.message, number=self.number, size=self.size, leased=False, claims=(),
            topic=self.topic, key=self.key, order=self.order, at=self.at,
        )  # fmt: skip


class Sum:
    """Losses in one topic of an interest.

    Attributes:
        total: all that its reader is to be told.
        at: the largest number.
        settled: those of them that a reader was told, and acknowledged.
    """

    __slots__ = ("at", "settled", "total")

    def __init__(self) -> None:
        self.total = self.at = self.settled = 0


class Part:
    """What is kept for one key of an interest, or for all of it: what waits, and how many are under way."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Letter[Any]] = deque()
        self.held = 0

    def is_full(self, bound: int) -> bool:
        """Whether that is all that may be kept."""
        return len(self.waiting) + self.held >= bound


class Kept(Interest):
    """An interest whose messages are kept; made by `KeepQueue.want`. Each of several keys has the bound.

    Attributes:
        has_reader: a process asked for it, and has not handed over since.
        bytes: of what waits or is under way.
        sums: losses by topic.
        parts: of what is kept, by key; none of them is empty.

    Raises:
        PolicyRefused: for another policy than a mailbox.
    """

    __slots__ = ("_apart", "bytes", "has_reader", "parts", "sums")

    def __init__(self, number: int, topic: str, policy: Policy, keys: Collection[str] | None) -> None:
        if policy.name != "mailbox":
            raise PolicyRefused(f"a mailbox cannot have the policy {policy.name}; use mailbox()")
        self.number, self.topic, self.keys = number, topic, None if keys is None else frozenset(keys)
        self.lossy = self.newest = False
        self.window = UNBOUNDED  # nobody waits for it, but for its bounds
        self.held = self.delivered = self.missed = self.lost_at = self.bytes = 0
        self.parts: dict[str, Part] = {}
        self.has_reader = True
        self.sums: dict[str, Sum] = {}
        self._apart = self.keys is not None and len(self.keys) > 1
        self.adopt(number, policy)

    def adopt(self, number: int, policy: Policy) -> None:
        """It has a reader from now on, who calls it by that number."""
        self.number, self.policy, self.bound, self.has_reader = number, policy, policy.bound, True

    def leave(self) -> None:
        """It has no reader, and nothing is kept for it."""
        self.has_reader, self.parts, self.held, self.bytes = False, {}, 0, 0

    @property
    def waiting(self) -> list[Letter[Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What waits for it, oldest first."""
        return list(merge(*[part.waiting for part in self.parts.values()], key=_order))

    @property
    def max_bytes(self) -> int:
        """Of its policy."""
        return self.policy.max_bytes or LARGEST.max_bytes or 0

    def part(self, key: str) -> Part | None:
        """That of a key; None when there is nothing."""
        return self.parts.get(key if self._apart else "")

    def oldest(self) -> Part | None:
        """That part in which the oldest waits; None when nothing waits."""
        parts = [part for part in self.parts.values() if part.waiting]
        return min(parts, key=lambda each: each.waiting[0].order) if parts else None

    def wait(self, letter: Letter[Any]) -> None:
        """A letter, newer than all before it, waits for it."""
        place = letter.key if self._apart else ""
        part = self.parts.get(place) or self.parts.setdefault(place, Part())
        part.waiting.append(letter)
        self.bytes += letter.size

    def take(self, part: Part) -> Letter[Any]:
        """The oldest of a part waits no longer, and goes elsewhere."""
        letter = part.waiting.popleft()
        self.bytes -= letter.size
        self._tidy(letter.key, part)
        return letter

    def send(self, letter: Letter[Any]) -> None:
        """The oldest, which that is, goes to the reader."""
        part = self.parts[letter.key if self._apart else ""]
        part.waiting.popleft()
        part.held += 1
        self.held += 1

    def done(self, letter: Letter[Any]) -> None:
        """The reader is done with what went to it."""
        self.bytes -= letter.size
        part = self.part(letter.key)
        if part is not None:
            part.held -= 1
            self._tidy(letter.key, part)

    def _tidy(self, key: str, part: Part) -> None:
        if not (part.waiting or part.held):
            self.parts.pop(key if self._apart else "", None)

    def begins(self, lasts: Mapping[str, int]) -> dict[str, int]:
        """The numbers behind which it goes on, where ``lasts`` are those of its topics now."""
        found = {**lasts}
        for letter in self.waiting:
            found[letter.topic] = min(found.get(letter.topic, letter.number), letter.number - 1)
        return found

    def wants(self, letter: Letter[Any]) -> bool:
        """Whether a message is for it."""
        return self.topic in (letter.topic, ALL) and (self.keys is None or letter.key in self.keys)


def _order(letter: Letter[Any]) -> int:
    return letter.order
