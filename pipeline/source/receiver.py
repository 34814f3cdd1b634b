"""Receiver: the one process of a query that reads the mailboxes, and holds what Spark has not committed.

::

    publishers ── mailbox NAME ──▶ Joining ─▶ Buffer ──▶ page         ◀── Spark's workers
         ▲                                     │ │       acknowledge  ◀── SourceListener
         └──────── acknowledge ────────────────┘ └──▶ StreamReader (latestOffset, partitions, commit)

`SERVED` are the members that are served, with the keys of the query and without pickles.

It holds at most what the mailboxes' bound allows for each publisher: what is not acknowledged there is not
followed by more. Whoever asks waits at most the option ``timeout``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from ...agents.agent import Agent
from ...agents.serving import Server
from ...protocol.errors import ConfigError, RowsMissing
from ...protocol.notification import Notification, acknowledge
from .batches import to_bytes, to_table
from .buffer import Buffer, Taken
from .joining import CONFIRM, Joined, Joining, kept
from .offsets import Line, Offset, Span, read_offset
from .options import Options

logger = logging.getLogger("pzc.source")

PAGE_ROWS = 10_000
PAGE_BYTES = 8 << 20
"""What goes to a worker at once; a larger row goes alone."""

SERVED = "page", "acknowledge", "status"

Words = tuple[str, int, str, int, int]
"""A span as it is sent: publisher, epoch, topic, after, upto."""

_LOOK = 0.05
_SPACE = 300  # bytes of a row beside its content


class Receiver:
    """See the picture in the module's docstring. Safe from any thread; `close` it.

    Args:
        options: of the query.
        serve: whether workers will ask here.

    Raises:
        PzcError: when an endpoint cannot be bound, or keys cannot be read.
    """

    def __init__(self, options: Options, *, serve: bool = True) -> None:
        self.options = options
        self.restarts = 0
        self._mailbox = options.name or ""
        self._buffer: Buffer[Notification] = Buffer()
        self._changed = threading.Condition()
        self._begun = False
        self._server: Server | None = None
        self._agent = Agent(protocol=options.protocol())
        try:
            if serve:
                self._server = Server(
                    self, options.endpoint, protocol=options.protocol(serializer="msgpack"), discovery=False,
                    expose=SERVED, reading=SERVED,
                )  # fmt: skip
            self._joining = Joining(self._agent, options.targets, options.policy, self._take)
        except BaseException:
            self._stop_agents()
            raise

    @property
    def endpoint(self) -> str:
        """Where it is served."""
        return "" if self._server is None else self._server.rep_endpoint

    def close(self) -> None:
        """Give everything back; the mailboxes stay, with what is not acknowledged."""
        self._joining.close()
        self._stop_agents()

    def _stop_agents(self) -> None:
        for agent in (self._agent, self._server):
            if agent is not None:
                agent.stop()

    # --- from the publishers -------------------------------------------------------------------------

    def _take(self, joined: Joined, notification: Notification) -> None:
        line = Line(notification.publisher, notification.epoch, notification.topic)
        with self._changed:
            if joined.start != line[:2]:
                self._follow(joined, line)
            size = notification.size + _SPACE
            taken = self._buffer.put(line, notification.sequence, size, notification)
            self._changed.notify_all()
        if taken is Taken.DONE:
            notification.acknowledge()

    def _follow(self, joined: Joined, line: Line) -> None:
        if joined.start is not None:
            self._buffer.end(*joined.start)
            self.restarts += 1
            logger.warning(
                "%s was restarted: what it had not sent is lost, and its numbers begin anew",
                joined.target.publisher,
            )
        joined.start = line[:2]

    # --- for the query -------------------------------------------------------------------------------

    def begin(self, start: Offset) -> None:
        """The query goes on from here: everything before is committed; only the first word counts.

        Raises:
            PzcError: when a publisher refuses, or the mailboxes are read by another process.
        """
        self._joining.wait(2 * CONFIRM)
        self._joining.check()
        if not self._begun:
            self._begun = True
            self.release(start)

    def latest(
        self, start: Offset, limit: int | None, before: int | None = None, wait: float = 0.0
    ) -> Offset:
        """How far a batch from ``start`` may go; as `Buffer.latest`.

        Args:
            start: where it begins.
            limit: most rows; None for all.
            before: only what arrived before so many others.
            wait: seconds to wait for a first row.
        """
        deadline = time.monotonic() + wait
        with self._changed:
            while True:
                end = self._buffer.latest(start, limit, before)
                left = deadline - time.monotonic()
                if end is not start or left <= 0:
                    return end
                self._changed.wait(left)

    def plan(self, start: Offset, end: Offset) -> list[list[Span]]:
        """Spans of the rows between two offsets, one list for each task; waits until all of them are here.

        Raises:
            RowsMissing: when they do not come in time, and the option ``onMissing`` is ``fail``.
        """
        spans = start.until(end)
        self._await(spans)
        with self._changed:
            return _parts(self._buffer, spans, self.options.partition_rows)

    def _await(self, spans: list[Span]) -> None:
        deadline = time.monotonic() + self.options.timeout
        with self._changed:
            while lacking := self._buffer.lacking(spans):
                self._joining.check()
                left = deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, 1.0))
                    continue
                self._miss(lacking)

    def _miss(self, lacking: list[Span]) -> None:
        publishers = ", ".join(sorted({span.line.publisher for span in lacking}))
        lost = (
            f"a batch of the query {self._mailbox!r} lacks notifications of {publishers}, restarted or gone: "
            f"they did not come again within {self.options.timeout:g} s"
        )
        if self.options.missing == "fail":
            raise RowsMissing(f"{lost}; set onMissing to report to go on without them")
        before = self._buffer.lost
        for span in lacking:
            self._buffer.give_up(span)
        logger.error("%s; %d are counted as lost", lost, self._buffer.lost - before)

    def last(self) -> Offset:
        """The last notification of every line that came."""
        with self._changed:
            return self._buffer.last(self._mailbox)

    def release(self, upto: Offset) -> int:
        """Spark has committed everything up to an offset; how many rows that were."""
        with self._changed:
            released = self._buffer.release(upto)
        acknowledge(released)
        return len(released)

    @property
    def arrived(self) -> int:
        """How many notifications came until now."""
        with self._changed:
            return self._buffer.arrived

    def settle(self, timeout: float) -> bool:
        """Wait until everything that the mailboxes hold now is here; False after so many seconds."""
        deadline = time.monotonic() + timeout
        self._joining.wait(timeout)
        self._joining.check()
        settled = [self._settled(joined, deadline) for joined in self._joining.joined()]
        return all(settled)

    def _settled(self, joined: Joined, deadline: float) -> bool:
        pause = threading.Event()
        while True:
            told = kept(self._agent, joined.target.publisher, self._mailbox, deadline)
            if told is None or joined.subscription is None:
                return False
            with self._changed:
                held = self._buffer.held_of(joined.subscription.publisher)
            count, unsent = told
            if not unsent and held >= count:
                return True
            pause.wait(_LOOK)

    def held(self, limit: int) -> list[Notification]:
        """What is here, at most so many of each topic and publisher, in order."""
        nothing = Offset(self._mailbox)
        with self._changed:
            spans = nothing.until(self._buffer.latest(nothing, limit))
            return [row for span in spans for row in self._buffer.read(span, limit, 1 << 62)[0]]

    # --- what is served ------------------------------------------------------------------------------

    def page(self, spans: Sequence[Words]) -> tuple[bytes, list[Words]]:
        """The first rows of some spans, as an Arrow stream, and what is left of these.

        Raises:
            RowsMissing: when some are not here.
            ConfigError: for what are no spans.
        """
        found: list[Notification] = []
        left, room = [from_words(words) for words in spans], PAGE_BYTES
        with self._changed:
            while left and room > 0 and len(found) < PAGE_ROWS:
                span = left[0]
                rows, size, upto = self._buffer.read(span, PAGE_ROWS - len(found), room)
                if found and size > room:
                    break
                found += rows
                room -= size
                left[:1] = [] if upto >= span.upto else [span._replace(after=upto)]
        return to_bytes(to_table(found, self._mailbox)), [to_words(span) for span in left]

    def acknowledge(self, offset: dict[str, Any]) -> int:
        """As `release`.

        Raises:
            ConfigError: for what is no offset of this query.
        """
        return self.release(read_offset(offset, self._mailbox))

    def status(self) -> dict[str, Any]:
        """What is held, how much came, and everything that was lost."""
        with self._changed:
            buffer = self._buffer
            return {
                "subscriptions": len(self._joining.joined()),
                "arrived": buffer.arrived,
                "held": len(buffer),
                "bytes": buffer.bytes,
                "lost": buffer.lost,
                "gaps": len(buffer.gaps),
                "restarts": self.restarts,
            }


def _parts(buffer: Buffer[Notification], spans: list[Span], rows: int) -> list[list[Span]]:
    """Spans in parts of at most so many rows."""
    parts: list[list[Span]] = []
    part: list[Span] = []
    room = rows
    for span in spans:
        rest: Span | None = span
        while rest is not None and buffer.size(rest):
            piece, rest = buffer.cut(rest, room)
            part.append(piece)
            room -= buffer.size(piece)
            if room <= 0:
                parts.append(part)
                part, room = [], rows
    return [*parts, part] if part else parts


def to_words(span: Span) -> Words:
    """For whoever asks, and is asked."""
    return span.line.publisher, span.line.epoch, span.line.topic, span.after, span.upto


def from_words(words: Words) -> Span:
    """What `to_words` made.

    Raises:
        ConfigError: for anything else.
    """
    try:
        publisher, epoch, topic, after, upto = words
        return Span(Line(str(publisher), int(epoch), str(topic)), int(after), int(upto))
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"no span of rows: {words!r:.200}") from exc
