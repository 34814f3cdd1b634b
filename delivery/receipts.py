"""Receipts: which messages of a link came here, and which are done with.

Messages are numbered 1, 2, 3, … whatever their topics::

    position   event                            next            returned
    expected   arrived                          held            -
    held       arrived: it was sent again       held            it is among those that came before
    done       arrived: it was sent again       done            it is among those that came before
    later      arrived                          -               RemoteProtocolError: a hole
    held       done                             done, untold    it is counted for what it came for
    any other  done                             as before       it is not counted
    untold     report                           told            in ``upto`` or ``others``
    told       repeat                           untold          -

``upto`` says that all positions up to it are done with; ``others`` are done ones above it, each told once.
So what is held for ever costs one entry here and there, and nothing for what is behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from ..protocol.errors import RemoteProtocolError

T = TypeVar("T")

MAX_OTHERS = 1000
"""Most positions beside ``upto`` in one report; the rest is told by the next one."""


class Report(NamedTuple):
    """What a publisher is told.

    Attributes:
        received: position up to which everything came.
        upto: position up to which everything is done with.
        others: beyond it, in any order, at most `MAX_OTHERS`; ask again until nothing is new.
    """

    received: int
    upto: int
    others: list[int]


class Receipts(Generic[T]):
    """What one process has of a publisher and is not done with; its length counts that.

    Not thread-safe, but for `done`: any thread may call it at any moment, because it takes two steps for each
    position, each of them atomic.

    Attributes:
        received: position up to which everything came.
    """

    __slots__ = ("_again", "_fresh", "_held", "_told", "_upto", "received")

    def __init__(self) -> None:
        self.received = self._upto = 0
        self._held: dict[int, T] = {}
        self._fresh: deque[int] = deque()  # done with since the last report
        self._again: Iterator[int] = iter(())  # perhaps done with and told in vain
        self._told = (0, 0)

    def __len__(self) -> int:
        return len(self._held)

    def arrived(self, first: int, count: int, what: T) -> int:
        """Messages with successive positions came for something; how many of the first ones came before.

        Raises:
            RemoteProtocolError: when others before them are missing, or for a position below 1.
        """
        expected = self.received + 1
        if not 1 <= first <= expected:
            raise RemoteProtocolError(
                f"message {first} of the link came, expected {expected}: some are missing"
            )
        end = first + count
        if end > expected:
            for position in range(expected, end):
                self._held[position] = what
            self.received = end - 1
        return min(count, expected - first)

    def done(self, positions: Iterable[int]) -> dict[T, int]:
        """Nothing in this process needs these any more; how many of them that were held came for what."""
        held, fresh = self._held, self._fresh
        found: dict[T, int] = {}
        for position in positions:
            what = held.pop(position, None)
            if what is not None:
                fresh.append(position)
                found[what] = found.get(what, 0) + 1
        return found

    def held(self) -> list[tuple[int, T]]:
        """What is not done with, and what each came for."""
        return list(self._held.items())

    def upto(self) -> int:
        """The position up to which everything is done with."""
        upto, received, held = self._upto, self.received, self._held
        if not held:
            upto = received
        while upto < received and upto + 1 not in held:
            upto += 1
        self._upto = upto
        return upto

    def report(self, *, always: bool = False) -> Report | None:
        """What to tell the publisher; None when nothing is new, unless ``always``."""
        told = (self.received, self.upto())
        others = self._others(told[1])
        if told == self._told and not (others or always):
            return None
        self._told = told
        return Report(*told, others)

    def repeat(self) -> None:
        """What was told may be lost with its connection: the next reports tell everything again."""
        self._told = (-1, -1)
        self._again = iter(range(self._upto + 1, self.received + 1))

    def _others(self, upto: int) -> list[int]:
        others: list[int] = []
        fresh, held = self._fresh, self._held
        while fresh and len(others) < MAX_OTHERS:
            position = fresh.popleft()
            if position > upto:
                others.append(position)
        if len(others) < MAX_OTHERS:
            for position in self._again:
                if position > upto and position not in held:
                    others.append(position)
                    if len(others) == MAX_OTHERS:
                        break
        return others
