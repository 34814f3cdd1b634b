"""Receipts: which messages of a link or a mailbox came here, and which are done with.

Messages are numbered 1, 2, 3, … whatever their topics::

    position   event                            next            returned
    expected   arrived                          held            -
    held       arrived: it was sent again       held            it is among those that came before
    done       arrived: it was sent again       done            it is among those that came before
    later      arrived                          -               RemoteProtocolError: a hole
    expected   skip: it will never come         done            -
    held       done                             done, untold    True
    any other  done                             as before       False
    untold     report                           told            in ``upto`` or ``others``
    told       repeat                           untold          -

``upto`` says that all positions up to it are done with; ``others`` are done ones above it, each told once.
So what is held for ever costs one entry here and there, and nothing for what is behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..protocol.errors import RemoteProtocolError

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


class Receipts:
    """What one process has of a publisher and is not done with; its length counts that.

    Not thread-safe, but for `done`: any thread may call it at any moment, even the garbage collector, because
    it takes two steps, each of them atomic.

    Args:
        received: position up to which everything came before.
        singly: those that are done with beyond ``upto`` are told one by one; else they wait for it.

    Attributes:
        received: position up to which everything came.
    """

    __slots__ = ("_again", "_fresh", "_held", "_skipped", "_told", "_upto", "received")

    def __init__(self, received: int = 0, *, singly: bool = True) -> None:
        self.received = self._upto = received
        self._held: set[int] = set()
        self._skipped: deque[tuple[int, int]] = deque()  # ranges that never come
        self._fresh: deque[int] | None = deque() if singly else None  # done with since the last report
        self._again: Iterator[int] = iter(())  # perhaps done with and told in vain
        self._told = (received, received)

    def __len__(self) -> int:
        return len(self._held)

    def arrived(self, first: int, count: int = 1) -> int:
        """Messages with successive positions came; how many of the first ones came before.

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
            self._held.update(range(expected, end))
            self.received = end - 1
        return min(count, expected - first)

    def skip(self, upto: int) -> None:
        """What did not come up to that position never will."""
        if upto > self.received:
            self._skipped.append((self.received + 1, upto))
            self.received = upto

    def done(self, position: int) -> bool:
        """Nothing in this process needs it any more; False when it is not held."""
        try:
            self._held.remove(position)
        except KeyError:
            return False
        if self._fresh is not None:
            self._fresh.append(position)
        return True

    def done_all(self, positions: Iterable[int]) -> None:
        """As `done` with each of them."""
        if self._fresh is None:
            self._held.difference_update(positions)
        else:
            for position in positions:
                self.done(position)

    def upto(self) -> int:
        """The position up to which everything is done with, or never comes."""
        upto, received, held, skipped = self._upto, self.received, self._held, self._skipped
        if not held:
            upto = received
            skipped.clear()
        while upto < received and upto + 1 not in held:
            upto = skipped.popleft()[1] if skipped and skipped[0][0] == upto + 1 else upto + 1
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
        if self._fresh is not None:
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
