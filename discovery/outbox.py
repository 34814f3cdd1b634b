"""Outbox: what a process has to say on one of its interfaces, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .reach import Reach
from .records import Record, mixed

REPEATS = (0.0, 0.1, 0.3)
"""Seconds after which what has changed is said, because datagrams get lost."""

MAX_PATTERNS = 64
"""Patterns that are answered one by one; who asks more at once is told everything."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A datagram to be sent on the reach with the number ``view``."""

    view: int
    data: bytes


Out = list[Outgoing]


class Outbox:
    """What is announced on one reach; times are monotonic seconds.

    What is said of a number is how it is then: its record, or that it is no more. So however often it has
    changed, it is said once, and whatever could not be said yet is not out of date when it is.

    Attributes:
        reach: whose addresses the records have.
        records: what others may see here, by number.
        digest: of these.
        spoken: something was announced here, so silence would be taken for death.
        beat_at: when the next heartbeat is due.
        whole_at: when to say everything; None when nobody asked for it.
        said_to: up to which number everything has been said, when it takes several turns.
        asked_at: when to answer ``asked``; None when nobody asked.
        asked: names and patterns that were asked for.
    """

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.records: dict[int, Record] = {}
        self.digest = 0
        self.spoken = False
        self.beat_at = 0.0
        self.whole_at: float | None = None
        self.said_to = 0
        self.asked_at: float | None = None
        self.asked: dict[str, None] = {}
        self._times: dict[int, tuple[float, ...]] = {}
        self._next: float | None = None

    def set(self, number: int, record: Record | None) -> bool:
        """Show a record, or none any more, under a number; False when there was none and is none."""
        old = self.records.pop(number, None)
        if old is not None:
            self.digest ^= mixed(old.revision)
        if record is not None:
            self.digest ^= mixed(record.revision)
            self.records[number] = record
            self.spoken = True
        return old is not None or record is not None

    def say(self, number: int, times: Iterable[float]) -> None:
        """Say at these times what the number is then; instead of what was planned for it."""
        self._times[number] = tuple(times)
        first = self._times[number][0]
        self._next = first if self._next is None else min(self._next, first)

    def answer(self, number: int, now: float) -> None:
        """Say now what a number is, and later what was planned."""
        self.say(number, (now, *(time for time in self._times.get(number, ()) if time > now)))

    def say_all(self, at: float) -> None:
        """Say everything at that time, or before if that is planned."""
        if self.whole_at is None or self.said_to == 0:
            self.whole_at = at if self.whole_at is None else min(at, self.whole_at)

    def ask(self, patterns: Iterable[str], at: float) -> None:
        """Somebody asks for names or patterns."""
        self.asked.update(dict.fromkeys(patterns))
        if len(self.asked) > MAX_PATTERNS:
            self.asked.clear()
            self.asked_at = None
            self.say_all(at)
        elif self.asked:
            self.asked_at = at if self.asked_at is None else min(at, self.asked_at)

    def due(self, now: float) -> list[int]:
        """The numbers of which something should be said now, in their order."""
        if self._next is None or self._next > now:
            return []
        return sorted(number for number, times in self._times.items() if times[0] <= now)

    def done(self, numbers: Iterable[int], now: float) -> None:
        """This was said of these numbers."""
        for number in numbers:
            left = tuple(time for time in self._times.pop(number, ()) if time > now)
            if left:
                self._times[number] = left
        self._next = min((times[0] for times in self._times.values()), default=None)

    @property
    def next(self) -> float | None:
        """When something is to be said, heartbeats aside."""
        times = [time for time in (self._next, self.whole_at, self.asked_at) if time is not None]
        return min(times, default=None)
