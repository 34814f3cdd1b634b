"""Packing: what is ready for a reader, as messages for its way, and the descriptors of blocks that it has."""

from __future__ import annotations

from typing import Any

from ....delivery.claim_queue import ClaimQueue
from ....delivery.claims import Claim
from ....protocol.link_messages import MAX_ITEMS, Ended, Loss, Notify, Row, Run
from ....protocol.peer import MOST_TYPES
from ....protocol.records import Records
from ....shm.ring import Ring
from ....shm.views import INTRODUCED
from .published import Mailed, Published
from .ways import Way

MAX_ROWS = 1000
"""Notifications that go together."""


Batch = tuple[Notify, int, list[Published]]
"""What goes at once: a message for the reader; a descriptor that goes with it, to be closed by whoever sends,
-1 for none; the notifications of its rows."""


class Packing:
    """Not thread-safe: the lock of all outlets protects it.

    Args:
        queue: of the reader.
        ring: blocks of the publisher.
        rows: most of them that go together.
        records: makes frames; None where nobody may want any.

    Attributes:
        ended: why interests have ended, by their numbers, until the reader gives them up.
        signs: rows have message id and signature.
    """

    def __init__(
        self, queue: ClaimQueue[Any, Any], ring: Ring, rows: int = MAX_ROWS,
        records: Records | None = None,
    ) -> None:  # fmt: skip
        self._queue = queue
        self._ring = ring
        self._rows = rows
        self._records = records
        self.signs = False
        self._reader = object()  # who has the descriptors: one connection of the reader
        self._introduced = 0  # whose descriptors it has
        self.ended: dict[int, Ended] = {}
        self._told = 0  # of those
        self._about: dict[str, str] = {}  # what was said of topics since the link began
        self._untold: dict[str, str] = {}  # of that

    def begin(self) -> None:
        """Another way, or another connection: the reader has no descriptors."""
        self._ring.gone(self._reader)
        self._reader, self._introduced, self._told = object(), 0, 0
        self._untold = {**self._about}

    def end(self, ended: Ended) -> None:
        """An interest has ended, which the reader is to be told."""
        self.ended[ended.interest], self._told = ended, 0

    def declare(self, topic: str, said: str) -> None:
        """The reader is to be told what the messages of a topic are; of `MOST_TYPES` topics at most."""
        if topic in self._about or len(self._about) < MOST_TYPES:
            self._about[topic] = self._untold[topic] = said

    def next(self, way: Way) -> Batch | None:
        """What goes next over a way; None when nothing is ready."""
        blocks = way.blocks
        entries = self._queue.take(self._rows, way.limit, blocks)
        if not entries:
            return None
        runs: list[Run] = []
        contents: list[Published] = []
        rows: list[Row] = []
        claims: tuple[Claim, ...] = ()
        topic, lent, fd, hurry = "", 0, -1, False
        for entry in entries:
            published = entry.message
            body, block, size = published.body, 0, 0
            if entry.leased and blocks and published.slot is not None:
                block = published.slot.block
                if not self._ring.knows(self._reader, block):
                    if lent:  # one descriptor goes with a message
                        self._queue.later(entries[len(contents) :])
                        break
                    fd = self._introduce(block)
                    lent = block = block if fd >= 0 else 0
                if block:
                    body, size = b"", entry.size
            if (entry.claims is not claims and entry.claims != claims) or published.topic != topic:
                topic, claims, rows = published.topic, entry.claims, []
                runs.append(Run(topic, [interest.number for interest in claims], rows))
            msgid = signature = b""
            if self.signs and self._records is not None and isinstance(published, Mailed):
                body, msgid, signature = published.prove(self._records)
            rows.append(Row(
                published.number, published.sent_ms, published.key, published.serializer, body, block, size,
                msgid, signature,
            ))  # fmt: skip
            contents.append(published)
            if published.waited is not None:
                hurry = True
        if self._queue.parts and way.kind != "inproc":
            _say_once(runs, contents)
        return self._notify(way, entries[0].position, runs, lent, hurry), fd, contents

    def sign(self, way: Way) -> Batch:
        """A message without notifications, as a sign of life."""
        return self._notify(way, self._queue.sent + 1, [], 0, False), -1, []

    def _notify(self, way: Way, first: int, runs: list[Run], lent: int, hurry: bool) -> Notify:
        losses: list[Loss] = []
        if self._queue.behind:
            shown = first + max(0, sum([len(run.rows) for run in runs]) - 1)
            for interest, topic, at, total in self._queue.losses(MAX_ITEMS, shown):
                losses.append(Loss(interest.number, topic, at, total))
        ended: list[Ended] = []
        if self._told < len(self.ended):
            ended = list(self.ended.values())[:MAX_ITEMS]
            self._told = len(self.ended)
        about, self._untold = self._untold, {}
        dropped = self._ring.take_dropped(self._reader) if way.blocks else []
        self._introduced -= len(dropped)
        return Notify(first, runs, losses, ended, lent, dropped, hurry, about)

    def _introduce(self, block: int) -> int:
        """A descriptor of a block to send; -1 when none can be had, and the content goes inline."""
        if self._introduced >= INTRODUCED:
            return -1
        try:
            fd = self._ring.descriptor(block)
        except OSError:
            return -1
        if fd >= 0:
            self._ring.introduced(self._reader, block)
            self._introduced += 1
        return fd


def _say_once(runs: list[Run], contents: list[Published]) -> None:
    """Leave out the rows of runs that are those of others."""
    known: dict[int, tuple[int, int]] = {}  # by the first notification: which run, and where its rows begin
    first = 0
    for index, run in enumerate(runs):
        size = len(run.rows)
        like, start = known.setdefault(id(contents[first]), (index, first))
        if (
            like < index
            and len(runs[like].rows) == size
            and not any(row.block for row in run.rows)
            and all(contents[start + at] is contents[first + at] for at in range(size))
        ):
            runs[index] = Run(run.topic, run.interests, [], like + 1)
        first += size
