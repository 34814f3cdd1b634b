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

from ...delivery.sequences import Gap
from .entries import Entry
from .filters import ANY

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
        self._held: list[Entry | Gap] = []
        self.waiting = True
        self._told: tuple[int, Mapping[str, int]] = 0, {}

    def sift(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
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

    def _split(self, entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
        epoch, lasts = self._told
        found, refused = list[Entry](), list[Entry]()
        for entry in entries:
            behind = entry.epoch != epoch or entry.sequence > lasts.get(entry.topic, 0)
            (found if behind else refused).append(entry)
        return found, refused

    def sift_gap(self, gap: Gap) -> Gap | None:
        """What of a loss counts now."""
        if self.waiting:
            self._hold_gap(gap)
            return None
        return self._behind(gap)

    def _behind(self, gap: Gap) -> Gap | None:
        epoch, lasts = self._told
        # Of all topics together a gap does not say to which it belongs.
        last = 0 if self._topic == ANY or gap.epoch != epoch else lasts.get(self._topic, 0)
        if gap.restarted or gap.first > last:
            return gap
        return Gap(epoch, last + 1, gap.last) if gap.last > last else None

    def _hold_gap(self, gap: Gap) -> None:
        before = self._held[-1] if self._held else None
        if isinstance(before, Gap) and _follows(before, gap):
            self._held[-1] = Gap(gap.epoch, before.first, gap.last)
        else:
            self._held.append(gap)

    def tell(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher's last numbers at the moment when it told what it keeps; `take` comes next."""
        self._told = epoch, lasts

    def take(self) -> tuple[list[Entry | Gap], list[Entry]]:
        """What was kept back, to be handed on and to be done with; when that is nothing, the wait is over."""
        held, self._held = self._held, []
        self.waiting = bool(held)
        found, refused = list[Entry | Gap](), list[Entry]()
        for each in held:
            if isinstance(each, Gap):
                gap = self._behind(each)
                found += [] if gap is None else [gap]
            else:
                new, old = self._split((each,))
                found += new
                refused += old
        return found, refused

    def end(self) -> list[Entry]:
        """Nobody will get what was kept back."""
        held, self._held = self._held, []
        return [each for each in held if not isinstance(each, Gap)]


def _follows(before: Gap, gap: Gap) -> bool:
    restarted = before.restarted or gap.restarted
    return not restarted and (before.epoch, before.last + 1) == (gap.epoch, gap.first)
