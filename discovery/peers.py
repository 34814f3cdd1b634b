"""Peer: what a directory keeps of one process: a view of it on each way, and all of them together."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from .events import SOURCES, Process, Source
from .records import Advertise, AgentRecord, Announcement, Record, TopicRecord, Unadvertise, mixed

MAX_DEAD = 10_000
"""Numbers of removed entries that an incomplete view remembers."""


class View:
    """What one process told on one way.

    Records are merged by their revisions, in whatever order and however often datagrams come::

        number       told                                        next
        unknown      record, newer than what is known to be all  known
        known        record of a later revision                  changed
                     gone, at or after its revision              removed, until a record of a later revision
                     a span without it, at or after its revision removed likewise
        any          what is older                               as it was

    A view is *complete* when the digest of its records is the one that the newest datagram told. From then on
    a record of an older revision that is not known has been removed.

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


class Peer:
    """A process that is heard.

    Attributes:
        process: its 16 bytes.
        key_id: of the key that signs what it tells.
        epoch: as it tells.
        sequence: of the newest datagram on any way.
        sent: when that was sent, in Unix milliseconds of the process.
        views: by source and number, the best source first.
        numbers: of its entries that are in the directory.
    """

    __slots__ = ("epoch", "key_id", "numbers", "process", "sent", "sequence", "views")

    def __init__(self, process: bytes, epoch: int, key_id: str) -> None:
        self.process = process
        self.key_id = key_id
        self.epoch = epoch
        self.sequence = -1
        self.sent = 0
        self.views: dict[tuple[Source, int], View] = {}
        self.numbers: set[int] = set()

    @property
    def to_ask(self) -> bool:
        """Whether there are entries that can and should be asked for."""
        return any(not view.complete and not view.overfull for view in self.views.values())

    def named(self, names: Collection[str]) -> set[int]:
        """Numbers of the entries with one of these names."""
        views = self.views.values()
        return {r.number for view in views for r in view.records.values() if r.name in names}

    def add_view(self, source: Source, number: int) -> View:
        """A new way on which it is heard."""
        view = View()
        self.views[source, number] = view
        if len(self.views) > 1:
            ordered = sorted(self.views.items(), key=lambda item: (SOURCES.index(item[0][0]), item[0][1]))
            self.views = dict(ordered)
        return view

    def affected(self, touched: set[int]) -> dict[int, Record]:
        """The newest records of entries that were touched and still are there, and of topics of such agents.

        Agents come first, because what topics tell depends on them.
        """
        found = {number: record for number in touched if (record := self._newest(number)) is not None}
        agents = {number for number in touched if not isinstance(found.get(number), TopicRecord)}
        for view in self.views.values() if agents else ():
            for number, record in view.records.items():
                if isinstance(record, TopicRecord) and record.publisher in agents and number not in found:
                    found[number] = self._newest(number) or record
        return dict(sorted(found.items(), key=lambda item: (isinstance(item[1], TopicRecord), item[0])))

    def _newest(self, number: int) -> Record | None:
        """The newest record of an entry, with the addresses of all ways on which it is that new."""
        found = [view.records[number] for view in self.views.values() if number in view.records]
        if len(found) < 2:
            return found[0] if found else None
        revision = max(record.revision for record in found)
        newest = [record for record in found if record.revision == revision]
        agents = [record for record in newest if isinstance(record, AgentRecord)]
        return _united(agents) if len(agents) > 1 else newest[0]

    def describe(self) -> Process:
        """What people read."""
        sources: dict[Source, None] = {source: None for source, _ in self.views}
        complete = all(view.complete for view in self.views.values())
        return Process(self.process, tuple(sources), len(self.numbers), complete)


def _united(records: list[AgentRecord]) -> AgentRecord:
    return msgspec.structs.replace(
        records[0],
        addresses=tuple(dict.fromkeys(address for record in records for address in record.addresses)),
        pub_addresses=tuple(dict.fromkeys(address for record in records for address in record.pub_addresses)),
    )
