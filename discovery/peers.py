"""Peer: what a directory keeps of one process, on all ways together."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from .events import SOURCES, Process, Source
from .index import Index
from .records import AgentRecord, Record, TopicRecord
from .views import View


class Peer:
    """A process that is heard.

    Attributes:
        process: its 16 bytes.
        key_id: of the key that signs what it tells.
        epoch: as it tells.
        sequence: of the newest datagram on any way.
        sent: when that was sent, in Unix milliseconds of the process.
        heard: monotonic time of the last sign of life.
        skew: seconds by which its clock is ahead, or seems to be.
        views: by source and number, the best source first.
        numbers: of its entries that are in the directory.
    """

    __slots__ = ("epoch", "heard", "key_id", "numbers", "process", "sent", "sequence", "skew", "views")

    def __init__(self, process: bytes, epoch: int, key_id: str) -> None:
        self.process = process
        self.key_id = key_id
        self.epoch = epoch
        self.sequence = -1
        self.sent = 0
        self.heard = self.skew = 0.0
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

    def describe(self, index: Index) -> Process:
        """What people read."""
        entries = [index.get((self.process, number)) for number in self.numbers]
        host, pid = next(((entry.host, entry.pid) for entry in entries if entry is not None), ("", 0))
        heard = {source for source, _ in self.views}
        sources: tuple[Source, ...] = tuple(source for source in SOURCES if source in heard)
        complete = all(view.complete for view in self.views.values())
        return Process(
            self.process, self.epoch, host, pid, sources, self.heard, self.skew, len(entries), complete
        )


def _united(records: list[AgentRecord]) -> AgentRecord:
    return msgspec.structs.replace(
        records[0],
        addresses=tuple(dict.fromkeys(address for record in records for address in record.addresses)),
        pub_addresses=tuple(dict.fromkeys(address for record in records for address in record.pub_addresses)),
    )
