"""Replay: a journal published again, at the recorded times, under the names that it was recorded from.

Every row is verified and decoded as the pipeline does it; what fails is counted and not published. A
notification that was recorded twice is published once. Times are those of receipt, which are of one clock;
where it leaps by more than a day, or nothing was recorded for so long, the next row is published at once.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...agents import Agent
from ...delivery.cursor import Cursor
from ...protocol.errors import CallTimeout, JournalError, ProtocolError
from ...transport.threads import waited
from ...transport.wire import Protocol
from ..decoding.decode import make_decoder
from ..schema import FRAMES, segment_recorder, segments
from .flush import flush
from .reading import SegmentDamaged, SegmentGone, batches, check_journal

logger = logging.getLogger("pzc.replay")

_ROWS = 1000
"""Rows of a segment that are in memory at a time."""

_COLUMNS = [*FRAMES, "received_at", "publisher", "name", "epoch", "topic", "sequence", "content_ref"]

_LEAP = 86_400.0
"""Recorded seconds that are not waited for: a clock that was wrong may have told them."""

_MOST_TOLD = 20
"""Kinds of failures that are said."""


@dataclass
class Replayed:
    """Counts of a replay.

    Attributes:
        published: notifications.
        repeated: rows of a notification that was published already, or that came late.
        refused: rows that did not verify or decode.
        unsent: notifications for which readers made no room in time, or that cannot be sent.
        seconds: how long it took.
    """

    published: int = 0
    repeated: int = 0
    refused: int = 0
    unsent: int = 0
    seconds: float = 0.0


class Replay:
    """Agents with the names of a journal, which publish what is in it.

    Args:
        directory: of the journal.
        speed: recorded seconds per second; None for as fast as possible.
        protocol: signs what is published, and has the keys to verify the journal; default `Protocol`.

    Attributes:
        agents: by name, or by the recorded id of an agent without a name.
        topics: of each of them.
        counts: of what was done so far.

    Raises:
        JournalError: when there is no journal, nothing in it, or a segment of a newer form.
        BindError: when an agent cannot be made.
    """

    def __init__(
        self, directory: str | Path, *, speed: float | None = 1.0, protocol: Protocol | None = None
    ) -> None:
        flush(directory)
        check_journal(directory)
        self._paths = segments(directory)
        self._speed = speed
        self.topics = _sources(self._paths)
        if not self.topics:
            raise JournalError(f"nothing is recorded in {directory}")
        protocol = protocol or Protocol()
        self._decoder = make_decoder(protocol.codec.keyring, journal=directory)
        self._cursors: defaultdict[tuple[str, str], Cursor] = defaultdict(Cursor)
        self.counts = Replayed()
        self._told: set[tuple[str, ...]] = set()
        self._last, self._since = -math.inf, (0.0, 0.0)
        self.agents: dict[str, Agent] = {}
        try:
            for name, publisher in self.topics:
                self.agents[name or publisher] = Agent(name=name or None, protocol=protocol)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_for_subscribers(self, timeout: float) -> bool:
        """Wait until somebody subscribes to each topic; False after ``timeout`` seconds in all."""
        deadline = time.monotonic() + timeout
        return all(
            self.agents[name or publisher].wait_for_subscribers(
                topic, 1, max(0.0, deadline - time.monotonic())
            )
            for (name, publisher), topics in self.topics.items()
            for topic in topics
        )

    def run(self, stop: threading.Event) -> Replayed:
        """Publish everything that can be read; returns at the end, or when ``stop`` is set."""
        began = time.monotonic()
        for row in _rows(self._paths):
            if self._speed is not None:
                waited(stop.wait, self._pause(row["received_at"].timestamp(), self._speed))
            if stop.is_set():
                break
            self._publish(row)
        self.counts.seconds = time.monotonic() - began
        return self.counts

    def _pause(self, received: float, speed: float) -> float:
        """Seconds until the next row is due, which was received at this time."""
        now, before = time.monotonic(), self._last
        self._last = received
        if abs(received - before) > _LEAP:  # of the first row, too
            self._since = now, received
            if before != -math.inf and ("leap",) not in self._told:
                self._told.add(("leap",))
                told = "times of receipt leap by %+.1f days: rows behind such leaps are published at once"
                logger.warning(told, (received - before) / _LEAP)
        began, first = self._since
        return min(max(0.0, began + (received - first) / speed - now), threading.TIMEOUT_MAX)

    def _publish(self, row: dict[str, Any]) -> None:
        try:
            envelope, content = self._decoder.open([row[name] or b"" for name in FRAMES], row["content_ref"])
        except Exception as exc:  # whatever is wrong with a row is its reason
            self.counts.refused += 1
            self._warn("a row", row["name"] or row["publisher"], exc)
            return
        cursor = self._cursors[envelope.sender, envelope.topic]
        if envelope.sequence and not cursor.observe(envelope.epoch, envelope.sequence)[0]:
            self.counts.repeated += 1
            return
        try:
            self.agents[row["name"] or row["publisher"]].publish(
                envelope.topic, content, key=envelope.key or None
            )
            self.counts.published += 1
        except (ProtocolError, TypeError, CallTimeout) as exc:
            self.counts.unsent += 1
            self._warn("a notification", envelope.topic, exc)

    def _warn(self, what: str, whose: str, error: Exception) -> None:
        """Say the first failure of a kind; they are counted, and a wrong key fails for every row of all."""
        kinds = {(what, whose, type(error).__name__), (what, str(error))}
        if self._told.isdisjoint(kinds) and len(self._told) < 2 * _MOST_TOLD:
            self._told |= kinds
            logger.warning("%s of %s is not published, nor are others like it: %s", what, whose, error)

    def close(self) -> None:
        """Stop the agents."""
        for agent in self.agents.values():
            agent.stop()


def _sources(paths: list[tuple[int, Path]]) -> dict[tuple[str, str], set[str]]:
    """Topics by name, and by publisher where there is no name."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for _, path in paths:
        with suppress(SegmentDamaged, SegmentGone):  # said when its rows are published
            for batch in batches(path, ["name", "publisher", "topic"]):
                for row in batch.to_pylist():
                    found[row["name"] or "", "" if row["name"] else row["publisher"] or ""].add(row["topic"])
    return dict(found)


def _rows(paths: list[tuple[int, Path]]) -> Iterator[dict[str, Any]]:
    """Rows of all recorders in the order of receipt."""
    by_recorder: defaultdict[str, list[Path]] = defaultdict(list)
    for _, path in paths:
        by_recorder[segment_recorder(path)].append(path)
    streams = [_rows_of(found) for found in by_recorder.values()]
    return heapq.merge(*streams, key=lambda row: row["received_at"])


def _rows_of(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            for batch in batches(path, _COLUMNS, _ROWS):
                yield from batch.to_pylist()
        except (SegmentDamaged, SegmentGone) as exc:
            logger.warning("%s", str(exc))
