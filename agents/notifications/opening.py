"""Opening: a subscription that begins with what its publisher kept, on either plane.

::

    state      event                                    next       what happens
    waiting    arrival, gap                             waiting    kept back, at most `MAX_HELD`; else lost
    waiting    the publisher told its last numbers      told       what is kept comes first, then what was
               and what it keeps                                   kept back and is numbered behind them
    told       arrival or gap, not behind the last      told       left out: it does not belong to it
    told       arrival behind the last number           over       handed on; of all topics together: told

The answer comes after the publisher has confirmed the subscription, and tells a number of the same moment as
what is kept. So a notification is either part of what was kept, or numbered later, and never both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...delivery.cursor import Cursors, Gap
from .filters import ANY
from .links.arrivals import Arrival

MAX_HELD = 10_000
"""Notifications of one subscription that may arrive before the answer."""


class Opening:
    """The beginning of one subscription; the subscription's lock protects it.

    Args:
        topic: of the subscription.

    Attributes:
        waiting: for what the publisher kept, or until what was kept back has been handed on.
        over: nothing is kept back or left out any more.
    """

    def __init__(self, topic: str) -> None:
        self.over = False
        self._topic = topic
        self._held: list[Arrival | Gap] = []
        self.waiting = True
        self._epoch: int | None = None
        self._cursors = Cursors(None if topic == ANY else topic)

    def sift(self, entries: Sequence[Arrival]) -> tuple[list[Arrival], list[Arrival]]:
        """Judge arrivals.

        Returns:
            Those that are handed on, and those to be done with.
        """
        if not self.waiting:
            found, refused = self._split(entries)
            self.over = bool(found) and self._topic != ANY
            return found, refused
        room = max(0, MAX_HELD - len(self._held))
        self._held.extend(entries[:room])
        refused = list(entries[room:])
        for entry in refused:
            self._hold_gap(Gap(entry.epoch, entry.sequence, entry.sequence))
        return [], refused

    def _split(self, entries: Iterable[Arrival]) -> tuple[list[Arrival], list[Arrival]]:
        found, refused = list[Arrival](), list[Arrival]()
        for entry in entries:
            behind = entry.epoch != self._epoch or self._cursors.at(entry.topic).new(entry.sequence)
            (found if behind else refused).append(entry)
        return found, refused

    def sift_gap(self, gap: Gap) -> Gap | None:
        """What of a loss counts now."""
        if self.waiting:
            self._hold_gap(gap)
            return None
        return self._behind(gap)

    def _behind(self, gap: Gap) -> Gap | None:
        if (
            self._topic == ANY or gap.epoch != self._epoch
        ):  # of all topics it does not say to which it belongs
            return gap
        return gap.behind(self._cursors.at(self._topic).last or 0)

    def _hold_gap(self, gap: Gap) -> None:
        before = self._held[-1] if self._held else None
        joined = before.joined(gap) if isinstance(before, Gap) else None
        if joined is None:
            self._held.append(gap)
        else:
            self._held[-1] = joined

    def tell(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher's last numbers at the moment when it told what it keeps; `take` comes next."""
        self._epoch = epoch
        self._cursors.begin(epoch, lasts)

    def take(self) -> tuple[list[Arrival | Gap], list[Arrival]]:
        """What was kept back, to be handed on and to be done with; when that is nothing, the wait is over."""
        held, self._held = self._held, []
        self.waiting = bool(held)
        found, refused = list[Arrival | Gap](), list[Arrival]()
        for each in held:
            if isinstance(each, Gap):
                gap = self._behind(each)
                found += [] if gap is None else [gap]
            else:
                new, old = self._split((each,))
                found += new
                refused += old
        return found, refused

    def end(self) -> list[Arrival]:
        """Nobody will get what was kept back."""
        held, self._held = self._held, []
        return [each for each in held if not isinstance(each, Gap)]
