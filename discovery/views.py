"""View: what is known of one process on one way, and whether that is all.

Records are merged by their revisions, in whatever order and however often datagrams come::

    number       told                                        next
    unknown      record, newer than what is known to be all  known
    known        record of a later revision                  changed
                 gone, at or after its revision              removed, until a record of a later revision
                 a span without it, at or after its revision removed likewise
    any          what is older                               as it was

A view is *complete* when the digest of its records is the one that the newest datagram told. From then on a
record of an older revision that is not known has been removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from .records import Advertise, Announcement, Record, Unadvertise, mixed

MAX_DEAD = 10_000
"""Numbers of removed entries that an incomplete view remembers."""


class View:
    """What one process told on one way.

    Attributes:
        sequence: of the newest datagram.
        records: by number.
        overfull: a record was left out for want of room, so the view is never complete.
    """

    __slots__ = (
        "_complete",
        "_count",
        "_dead",
        "_digest",
        "_revision",
        "_target",
        "overfull",
        "records",
        "sequence",
    )

    def __init__(self) -> None:
        self.sequence = -1
        self.records: dict[int, Record] = {}
        self.overfull = False
        self._revision = self._count = self._target = self._digest = 0
        self._complete = -1
        self._dead: dict[int, int] | None = None

    @property
    def complete(self) -> bool:
        """Whether all entries of the view are known."""
        return self._digest == self._target and len(self.records) == self._count

    def is_news(self, said: Announcement) -> bool:
        """Note a datagram; False for one that is not newer than all before."""
        if said.sequence <= self.sequence:
            return False
        self.sequence = said.sequence
        self._revision, self._count, self._target = said.revision, said.count, said.digest
        return True

    def merge(self, said: Announcement, room: int) -> set[int]:
        """Take over what a datagram tells of entries.

        Args:
            said: the datagram.
            room: how many more records may be held.

        Returns:
            The numbers whose record changed, came or went.
        """
        touched: set[int] = set()
        if isinstance(said, Advertise):
            for record in said.records:
                if self._is_new(record):
                    if room <= 0 and record.number not in self.records:
                        self.overfull = True
                        continue
                    room -= record.number not in self.records
                    self._put(record)
                    touched.add(record.number)
            touched |= self._remove(self._missing(said), said.revision)
        elif isinstance(said, Unadvertise):
            touched |= self._remove(said.numbers, said.revision)
        if self.complete and self._complete != self._revision:
            self._complete, self._dead, self.overfull = self._revision, None, False
        return touched

    def _is_new(self, record: Record) -> bool:
        held = self.records.get(record.number)
        if held is not None:
            return record.revision > held.revision
        if record.revision <= self._complete:
            return False
        return self._dead is None or record.revision > self._dead.get(record.number, -1)

    def _put(self, record: Record) -> None:
        held = self.records.get(record.number)
        if held is not None:
            self._digest ^= mixed(held.revision)
        self._digest ^= mixed(record.revision)
        self.records[record.number] = record

    def _missing(self, said: Advertise) -> list[int]:
        """The numbers held in the span of a datagram that it does not tell of."""
        if said.first == 0:
            return []
        told = {record.number for record in said.records}
        return [number for number in self.records if said.first <= number <= said.last and number not in told]

    def _remove(self, numbers: Iterable[int], revision: int) -> set[int]:
        removed: set[int] = set()
        for number in numbers:
            held = self.records.get(number)
            if held is not None and held.revision <= revision:
                del self.records[number]
                self._digest ^= mixed(held.revision)
                removed.add(number)
            if held is None or number in removed:
                self._bury(number, revision)
        return removed

    def _bury(self, number: int, revision: int) -> None:
        if revision <= self._complete:
            return
        if self._dead is None:
            self._dead = {}
        elif len(self._dead) >= MAX_DEAD:
            del self._dead[next(iter(self._dead))]
        self._dead[number] = max(revision, self._dead.get(number, -1))
