"""Cursor: where a reader is in a topic, and what of it is lost; nothing else counts losses.

``last`` is the number up to which everything is accounted for: received, told as lost, or no part of it::

    state    event                                   next                 gap
    early    begin(e, n)                             open, last n         -
    early    observe(e, k): nobody told where to     open, last k         -
             begin
    early    tail                                    early                -
    open     observe(e, k > last)                    last k               last + 1 .. k - 1
    open     observe(e, k <= last)                   not new              -
    open     tail(e, n > last)                       last n               last + 1 .. n
    open     tail(e, else)                           same                 -
    open     new(k > last): holes are no losses      last k               -
    open     new(k <= last)                          not new              -
    open     lost(c, at > last)                      last at              at - c + 1 .. at, not below last + 1
    open     lost(c, at <= last): it came before     same                 -
    open     told(t, at): t lost in all, older ones  same                 what is new of t, up to at
             may come
    open     begin(e, n): what was between is lost   last n at least      last + 1 .. n, less what was told
    open     begin or observe of another epoch       early, then as above one of unknown size
    any      observe of the epoch before             not new              -

`Cursors` are those of one subscription, which begin together. A publisher that was restarted gives one gap
for all of its topics, with the next beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    def joined(self, later: Gap) -> Gap | None:
        """Both in one, when the other one follows without a number in between."""
        if self.restarted or later.restarted or (self.epoch, self.last + 1) != (later.epoch, later.first):
            return None
        return Gap(self.epoch, self.first, later.last)


def gaps_of(numbers: Iterable[tuple[int, int]]) -> list[Gap]:
    """Numbers, each with its epoch, as gaps: neighbours in one."""
    gaps: list[Gap] = []
    for epoch, number in numbers:
        gap = Gap(epoch, number, number)
        joined = gaps[-1].joined(gap) if gaps else None
        if joined is None:
            gaps.append(gap)
        else:
            gaps[-1] = joined
    return gaps


class Cursor:
    """One topic of one publisher; see the table in the module's docstring.

    Attributes:
        epoch: of the publisher; None before anything of it is known.
        last: number up to which everything is accounted for; None while it is early.
    """

    __slots__ = ("_ahead", "_before", "_known", "_total", "epoch", "last")

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.last: int | None = None
        self._before: int | None = None  # the epoch before
        self._total = 0  # losses that were told
        self._known = self._ahead = 0  # the last of them, and how many of them were behind `last` then

    def begin(self, epoch: int, last: int) -> Gap | None:
        """The publisher has confirmed: ``last`` is its last number that is not part of this.

        Args:
            epoch: of the publisher.
            last: number, from 0.

        Returns:
            What was lost since another beginning, or the restart in between.
        """
        gap = self._turn(epoch)
        seen = self.last
        if seen is None:
            self.last = last
            return gap
        self.last = max(seen, last)
        told = self._ahead if self._known > seen else 0
        self._total = self._known = self._ahead = 0
        return Gap(epoch, seen + told + 1, last) if last > seen + told else None

    def observe(self, epoch: int, number: int, upto: int = 0) -> tuple[bool, Gap | None]:
        """Something came that shows by its number what is missing before it.

        Args:
            epoch: of the publisher.
            number: in the topic, from 1.
            upto: that of the last of several, which are numbered without a hole.

        Returns:
            Whether it, the first one, is new, and the gap that it reveals. When that is not new, nothing is
            said of the others.
        """
        if epoch == self._before:
            return False, None
        gap, last = self._turn(epoch), self.last
        if last is not None:
            if number <= last:
                return False, None
            if number > last + 1:
                gap = Gap(epoch, last + 1, number - 1)
        self.last = max(number, upto)
        return True, gap

    def tail(self, epoch: int, last: int) -> Gap | None:
        """The publisher says, behind all that it sent, that ``last`` is its last number by now.

        Returns:
            What is missing up to there; it is refused as late from now on.
        """
        before = self.last
        if epoch != self.epoch or before is None or last <= before:
            return None
        self.last = last
        return Gap(epoch, before + 1, last)

    def new(self, number: int, upto: int = 0) -> bool:
        """Something came, or several up to ``upto``, of a publisher that tells its losses by `lost`.

        Returns:
            Whether it, the first one, is new.
        """
        if self.last is not None and number <= self.last:
            return False
        self.last = upto or number
        return True

    def lost(self, count: int, at: int) -> Gap | None:
        """So many up to number ``at`` cannot be had, beside those of which was told before.

        Returns:
            Those that are part of this; they are refused as late from now on.
        """
        before, epoch = self.last, self.epoch
        if before is None or epoch is None or at <= before:
            return None
        self.last = at
        count = min(count, at - before)
        return Gap(epoch, at - count + 1, at) if count > 0 else None

    def told(self, total: int, at: int) -> Gap | None:
        """The publisher tells how many it left out since the beginning, the last of them number ``at``.

        Returns:
            What is new of them. Others numbered below ``at`` may still come.
        """
        new, last = min(total - self._total, at), self.last
        if new <= 0 or last is None or self.epoch is None:
            return None
        self._total = total
        if at > last:
            before = self._ahead if self._known > last else 0
            self._known, self._ahead = max(self._known, at), min(before + new, at - last)
        return Gap(self.epoch, at - new + 1, at)

    def _turn(self, epoch: int) -> Gap | None:
        if epoch == self.epoch:
            return None
        restarted = self.epoch is not None
        self._before, self.epoch, self.last = self.epoch, epoch, None
        self._total = self._known = self._ahead = 0
        return Gap(epoch, 0, 0, restarted=True) if restarted else None


_NONE: dict[str, Cursor] = {}  # one process may have 100 000 subscriptions


class Cursors:
    """Where one subscription is in each of its topics. Not thread-safe.

    Args:
        topic: of the subscription; None for all topics of the publisher.
        restarted: the next beginning tells of a restart.

    Attributes:
        only: that of its one topic; None for all topics.
        restarted: as given, and after `restart`.
    """

    __slots__ = ("_cursors", "_epoch", "_topic", "only", "restarted")

    def __init__(self, topic: str | None, restarted: bool = False) -> None:
        self._topic = topic
        self.restarted = restarted
        self._clear()

    def _clear(self) -> None:
        self.only: Cursor | None = None if self._topic is None else Cursor()
        self._cursors: dict[str, Cursor] = {} if self.only is None else _NONE
        self._epoch: int | None = None

    def at(self, topic: str) -> Cursor:
        """That of a topic of the subscription."""
        if self.only is not None:
            return self.only
        cursors = self._cursors
        cursor = cursors.get(topic)
        if cursor is None:
            cursor = cursors[topic] = Cursor()
            if self._epoch is not None:  # else the beginning tells
                cursor.begin(self._epoch, 0)
        return cursor

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> list[tuple[str, Gap]]:
        """The publisher has confirmed; as `Cursor.begin`.

        Args:
            epoch: of the publisher.
            lasts: last number of each topic; 0 of those that are not named.

        Returns:
            What was lost of which topic since another beginning; a restart is of no topic.
        """
        if self._epoch not in (None, epoch):
            self.restart()
        gaps = list[tuple[str, Gap]]()
        if self.restarted:
            self.restarted = False
            gaps.append(("", Gap(epoch, 0, 0, restarted=True)))
        if self._topic is not None:
            lasts = {self._topic: lasts.get(self._topic, 0)}
        for topic in lasts:
            gap = self.at(topic).begin(epoch, lasts[topic])
            gaps += [] if gap is None else [(topic, gap)]
        self._epoch = epoch
        return gaps

    def restart(self) -> None:
        """Another publisher, numbering anew, is in the place of this one; no gap if that was not known."""
        seen = self._cursors.values() if self.only is None else (self.only,)
        known = self._epoch is not None or any(cursor.last is not None for cursor in seen)
        self.restarted = self.restarted or known
        self._clear()
