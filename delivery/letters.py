"""Letters: what a mailbox keeps of a message, the interests for which it does, and which of them has most."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import count
from typing import Any, Generic

from msgspec import Struct, field

from ..protocol.errors import PolicyRefused
from .claims import Claim, M, Sent
from .interests import ALL
from .policies import LARGEST, Policy

_FEW = 1024


class Letter(Sent[M], Generic[M], eq=False, gc=False):
    """A message that is kept.

    Nothing leads from a claim to its letters but their orders, so the collector need not look at them.

    Attributes:
        claims: who gets it, or got it; while it waits, some of them may do so no longer.
        topic: of the message.
        key: of the message.
        at: its time in monotonic seconds.
        left: for how many claims it waits.
    """

    topic: str = ""
    key: str = ""
    at: float = 0.0
    left: int = 0

    def copy(self, claims: tuple[Kept, ...]) -> Letter[M]:
        """The same for other claims."""
        return Letter(self.message, self.number, self.size, claims, False, 0, self.topic, self.key, self.at)

    def leave_out(self, order: int) -> None:
        """Those for which it waits no longer are no claims of it; its order among what waits."""
        if self.left < len(self.claims):
            self.claims = tuple([each for each in self.claims if each.waits(self.key, order)])


class Sum(Struct, eq=False):
    """Losses in one topic of an interest.

    Attributes:
        total: all that its reader is to be told.
        at: the largest number.
        settled: those of them that a reader was told, and acknowledged.
    """

    total: int = 0
    at: int = 0
    settled: int = 0


class Part(Struct, eq=False):
    """What is kept for one key of an interest of several, or for all of any other one.

    Attributes:
        waiting: the orders of letters, oldest first.
        held: how many are under way.
        bytes: of all of these.
    """

    waiting: deque[int] = field(default_factory=deque)
    held: int = 0
    bytes: int = 0


class Kept(Claim):
    """An interest whose messages are kept; made by `KeepQueue.want`. Each of several keys has the bound.

    Attributes:
        has_reader: a process asked for it, and has not handed over since.
        sums: losses by topic.
        apart: it has several keys, and a part for each.
        parts: of what is kept, by key, or all of it as that of ""; none of them is empty.

    Raises:
        PolicyRefused: for another policy than a mailbox.
    """

    __slots__ = ("apart", "has_reader", "parts", "sums")

    def __init__(self, number: int, topic: str, policy: Policy, keys: Collection[str] | None) -> None:
        if policy.name != "mailbox":
            raise PolicyRefused(f"a mailbox cannot have the policy {policy.name}; use mailbox()")
        super().__init__(number, topic, policy, keys)
        self.parts: dict[str, Part] = {}
        self.sums: dict[str, Sum] = {}
        self.has_reader = True
        self.apart = self.keys is not None and len(self.keys) > 1

    def adopt(self, number: int, policy: Policy) -> None:
        """It has a reader from now on, who calls it by that number."""
        self.number, self.policy, self.bound, self.has_reader = number, policy, policy.bound, True

    def leave(self) -> None:
        """It has no reader."""
        self.has_reader = False

    @property
    def max_bytes(self) -> int:
        """Of its policy."""
        return self.policy.max_bytes or LARGEST.max_bytes or 0

    @property
    def orders(self) -> list[int]:
        """Those of the letters that wait for it, oldest first."""
        return list(merge(*[part.waiting for part in self.parts.values()]))

    def part(self, key: str) -> Part | None:
        """That of a key; None when there is nothing."""
        return self.parts.get(key if self.apart else "")

    def waits(self, key: str, order: int) -> bool:
        """Whether a letter that waited for it does so still."""
        part = self.part(key)  # the oldest leave it first
        return part is not None and bool(part.waiting) and part.waiting[0] <= order

    def is_full(self, key: str) -> bool:
        """Whether that is all that may be kept of a key."""
        part = self.part(key)
        return part is not None and len(part.waiting) + part.held >= self.bound

    def tidy(self, key: str, part: Part) -> None:
        """A part has less; one that has nothing goes."""
        if not (part.waiting or part.held):
            self.parts.pop(key if self.apart else "", None)

    def wants(self, letter: Letter[Any]) -> bool:
        """Whether a message is for it."""
        return self.topic in (letter.topic, ALL) and (self.keys is None or letter.key in self.keys)


class Largest:
    """The parts of some interests in which something waits, largest first; empty as long as nobody asked.

    A part stands there as it was or as it is: where it has more now, it is there once more.

    Attributes:
        asked: somebody has asked since the last `clear`, and is to be told of what has grown.
    """

    def __init__(self) -> None:
        self._orders = count(1)
        self._heap: list[tuple[int, int, Kept, Part]] = []
        self._made = 0
        self.asked = False

    def clear(self) -> None:
        """Begin anew when somebody asks."""
        self._heap, self.asked = [], False

    def of(self, interests: Callable[[], Iterable[Kept]]) -> tuple[Kept, Part]:
        """The largest one, where something waits somewhere; ``interests`` gives all."""
        heap = self._heap or self._make(interests())
        while True:
            size, order, interest, part = heap[0]
            if part.waiting and -size == part.bytes:
                return interest, part
            if part.waiting and -size > part.bytes:
                heapreplace(heap, (-part.bytes, order, interest, part))
            else:
                heappop(heap)

    def grown(self, interest: Kept, part: Part) -> None:
        """A part has more."""
        heappush(self._heap, (-part.bytes, next(self._orders), interest, part))
        if len(self._heap) > 2 * self._made + _FEW:
            self.clear()

    def _make(self, interests: Iterable[Kept]) -> list[tuple[int, int, Kept, Part]]:
        self._heap = [
            (-part.bytes, next(self._orders), each, part)
            for each in interests
            for part in each.parts.values()
            if part.waiting
        ]
        heapify(self._heap)
        self._made, self.asked = len(self._heap), True
        return self._heap


def alike(letters: Sequence[Letter[M]]) -> Iterator[tuple[list[Letter[M]], list[tuple[Kept, Part]]]]:
    """Letters that are for the same claims and key, in succession; these claims, and their parts."""
    several: list[Letter[M]] = []
    for letter in letters:
        if several and (letter.claims is not several[0].claims or letter.key != several[0].key):
            yield several, _parts_of(several[0])
            several = []
        several.append(letter)
    if several:
        yield several, _parts_of(several[0])


def _parts_of(letter: Letter[Any]) -> list[tuple[Kept, Part]]:
    return [(each, each.parts[letter.key if each.apart else ""]) for each in letter.claims]
