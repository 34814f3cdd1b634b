"""Packing: what is ready for a reader, as messages for its transport, and which blocks it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from ....delivery.claim_queue import ClaimQueue
from ....delivery.claims import Claim, Sent
from ....protocol.link_messages import MAX_ITEMS, Ended, Loss, Notify, Row, Run
from ....protocol.records import Record
from ....shm.ring import Ring
from ....shm.views import INTRODUCED
from ....transport.peer import MOST_TYPES
from .published import Published
from .transports import Transport

MAX_ROWS = 1000
"""Notifications that go together."""

MAIL_ROWS = 5000
"""Those of a mailbox."""


_number_of = attrgetter("number")

Batch = tuple[Notify, int, Sequence[Any]]
"""What goes at once: a message for the reader; a descriptor that goes with it, to be closed by whoever sends,
-1 for none; the notifications of its rows, or of a mailbox its `Unpacked` runs, which are not in it yet."""

T = TypeVar("T")
R = TypeVar("R")


class Unpacked(NamedTuple):
    """A run of a mailbox, out of which whoever sends makes one of rows."""

    topic: str
    interests: list[int]
    records: list[Record]


class Packing:
    """Not thread-safe: the lock of all subscribers protects it.

    Args:
        queue: of the reader.
        ring: blocks of the publisher.

    Attributes:
        ended: why interests have ended, by their numbers, until the reader gives them up.
    """

    def __init__(self, queue: ClaimQueue[Any, Any], ring: Ring) -> None:
        self._queue = queue
        self._ring = ring
        self._reader = object()  # who has the descriptors: one connection of the reader
        self._introduced = 0  # whose descriptors it has
        self.ended: dict[int, Ended] = {}
        self._ending: dict[int, None] = {}  # those of them that were not told
        self._about: dict[str, str] = {}  # what was said of topics since the link began
        self._untold: dict[str, str] = {}  # of that

    def begin(self) -> None:
        """Another transport, or another connection: the reader has no descriptors."""
        self._ring.gone(self._reader)
        self._reader, self._introduced = object(), 0
        self._ending, self._untold = dict.fromkeys(self.ended), {**self._about}

    def end(self, ended: Ended) -> None:
        """An interest has ended, which the reader is to be told."""
        self.ended[ended.interest], self._ending[ended.interest] = ended, None

    def declare(self, topic: str, said: str) -> None:
        """The reader is to be told what the messages of a topic are; of `MOST_TYPES` topics at most."""
        if topic in self._about or len(self._about) < MOST_TYPES:
            self._about[topic] = self._untold[topic] = said

    def next(self, transport: Transport) -> Batch | None:
        """What goes next over a transport; None when nothing is ready."""
        blocks = transport.blocks
        entries = self._queue.take(MAX_ROWS, transport.limit, blocks)
        if not entries:
            return None
        contents: list[Published] = []
        rows: list[Row] = []
        lent, fd, hurry = 0, -1, False
        inside = transport.kind == "inproc"  # where contents go as they are
        for entry in entries:
            published: Published = entry.message
            body, block, size = b"" if inside else published.body, 0, 0
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
            rows.append(Row(
                published.number, published.sent_ms, published.key, published.serializer, body, block, size
            ))  # fmt: skip
            contents.append(published)
            if published.waited is not None:
                hurry = True
        runs = runs_of(entries, rows, Run)
        return self._notify(entries[0].position, len(rows), runs, lent, hurry), fd, contents

    def sign(self) -> Batch:
        """A message without notifications, as a sign of life."""
        return self._notify(self._queue.sent + 1, 0, [], 0, False), -1, []

    def _notify(self, first: int, count: int, runs: list[Run], lent: int, hurry: bool) -> Notify:
        losses: list[Loss] = []
        if self._queue.behind:
            shown = first + max(0, count - 1)
            for interest, topic, at, total in self._queue.losses(MAX_ITEMS, shown):
                losses.append(Loss(interest.number, topic, at, total))
        ended: list[Ended] = []
        if self._ending:
            some = list(islice(self._ending, MAX_ITEMS))
            ended = [self.ended[each] for each in some if each in self.ended]
            for each in some:
                del self._ending[each]
        about, self._untold = self._untold, {}
        dropped = self._ring.take_dropped(self._reader) if self._introduced else []
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


class MailPacking(Packing):
    """That of a mailbox, whose runs are not packed here.

    Args:
        queue: of the reader.
        ring: blocks for what mailboxes send.
    """

    def next(self, transport: Transport) -> Batch | None:
        """See `Packing.next`."""
        entries = self._queue.take(MAIL_ROWS, transport.limit, transport.blocks)
        if not entries:
            return None
        runs = runs_of(entries, [entry.message for entry in entries], Unpacked)
        return self._notify(entries[0].position, len(entries), [], 0, False), -1, runs


def runs_of(
    entries: Sequence[Sent[Any]], rows: Sequence[T], make: Callable[[str, list[int], list[T]], R]
) -> list[R]:
    """Rows by what is the same for several in succession; there may be fewer of them than entries."""
    runs: list[R] = []
    claims: tuple[Claim, ...] = ()
    same: list[T] = []
    topic = ""
    for entry, row in zip(entries, rows, strict=False):
        if (entry.claims is not claims and entry.claims != claims) or entry.message.topic != topic:
            topic, claims, same = entry.message.topic, entry.claims, []
            runs.append(make(topic, list(map(_number_of, claims)), same))
        same.append(row)
    return runs
