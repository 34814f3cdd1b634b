"""Largest: which part of what is kept has most bytes, found without looking at all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from .letters import Kept, Part

_FEW = 1024


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
