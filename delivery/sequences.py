"""Sequences: which numbers of a topic never arrived.

State per (publisher epoch, topic): the last number seen, or None before the first::

    event                       gap reported                    next last
    begin(n)                    -                               n
    first number <= n of begin  - (it overtook the answer)      number
    number = last + 1           -                               number
    number > last + 1           last + 1 .. number - 1          number
    number <= last              - (late or repeated: refused)   last
    number of the epoch before  - (late: refused)               last
    told(n), n > last           last + 1 .. n                   n
    told(n), else               -                               last
    first number without begin  -                               number
    restart(epoch)              one, of unknown size            None
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that never arrived: ``first`` to ``last`` of one epoch, both included.

    A restart of the publisher is a gap with ``first`` and ``last`` 0 and ``restarted`` True: how
    much it published before nobody was connected cannot be known.
    """

    epoch: int
    first: int
    last: int
    restarted: bool = False

    @property
    def count(self) -> int:
        """How many notifications are known to be lost."""
        return 0 if self.restarted else self.last - self.first + 1


class Sequence:
    """Tracks one topic of one publisher; see the table in the module's docstring."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self._before: int | None = None
        self._only_told = False
        self.last: int | None = None

    def begin(self, epoch: int, last: int) -> Gap | None:
        """The publisher says that ``last`` was its last number before this subscription.

        Returns:
            The restart gap when the epoch changed, else None.
        """
        gap = self._turn(epoch)
        if self.last is None:
            self.last = last
            self._only_told = True
        return gap

    def observe(self, epoch: int, number: int, upto: int = 0) -> tuple[bool, Gap | None]:
        """A notification arrived, or several that are numbered without a hole, up to ``upto``.

        Returns:
            Whether it, the first one, is new, and the gap that it reveals. When that is not new, nothing is
            said of the others.
        """
        if epoch == self._before:
            return False, None
        gap = self._turn(epoch)
        last, only_told = self.last, self._only_told
        self._only_told = False
        if last is not None and number <= last and not only_told:
            return False, gap
        if last is not None and number > last + 1:
            gap = Gap(epoch, last + 1, number - 1)
        self.last = max(number, upto)
        return True, gap

    def told(self, epoch: int, last: int) -> Gap | None:
        """The publisher says, behind all that it sent, that ``last`` is its last number by now.

        Returns:
            What is missing up to there; it is refused as late from now on.
        """
        if epoch != self.epoch or self.last is None or last <= self.last:
            return None
        gap = Gap(epoch, self.last + 1, last)
        self.last, self._only_told = last, False
        return gap

    def _turn(self, epoch: int) -> Gap | None:
        if epoch == self.epoch:
            return None
        restarted = self.epoch is not None
        self._before, self.epoch, self.last = self.epoch, epoch, None
        self._only_told = False
        return Gap(epoch, 0, 0, restarted=True) if restarted else None
