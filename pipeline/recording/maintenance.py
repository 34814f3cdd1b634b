"""Maintenance: small segments become large ones, and the oldest go, when a recorder was told so.

::

    segments    event                                      next
    small       neighbours, older than ``compact_age``     compacted by and by (see `compaction`): one segment
                                                           stands for them, which are covered
    covered     ``covered_grace`` after that               removed
    finished    older than ``keep_seconds``, with as       removed; never the newest one, which says where
                many days of segments behind it, or        offsets go on
                the oldest while the journal has more
                than ``keep_bytes``
    gap         told before the newest of those that       removed
                were removed
    blob        no segment refers to it any more, and      removed
                nobody wrote it for `BLOB_GRACE`

Everything is done by names and times of files, so it may be interrupted anywhere and be done again. The time
of a segment is that of its newest row, also of a compacted one; that of a covered one is when it was covered.
Readers that hold a list of segments find its files until the grace is over.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate, chain
from pathlib import Path

from ...protocol import limits
from ...protocol.errors import JournalError
from ...transport.threads import begin
from ..schema import all_segments, compacted_name, segments
from ..storage import Storage
from .compaction import DAY, Piece, first_kept, next_run
from .gaps import GapLog
from .reading import SegmentDamaged, batches, opened
from .segments import merge_segments

_COMPACT_AGE = 300.0
"""Seconds after which a segment may be compacted: whoever follows the journal has read it by then."""


log = logging.getLogger("pzc.journal")

BLOB_GRACE = 3600.0
"""Seconds for which a blob stays that no segment refers to: its segment may be about to be written."""


class Maintenance:
    """Looks after the segments of one recorder; `step` belongs to one thread.

    Args:
        directory: of the journal.
        recorder: its name.
        compact: whether small segments are compacted.
        keep_seconds: age at which segments are removed; None keeps them.
        keep_bytes: most bytes of the recorder's segments, and all blobs; None for no limit.
        clock: Unix seconds, as the file system has them.
        gaps: of the recorder, which go with the rows beside which they were told.

    Attributes:
        compacted: segments that became part of another one.
        removed: segments that were removed with their rows.
        removed_blobs: blobs likewise.
    """

    def __init__(
        self, directory: Path, recorder: str, *, compact: bool = False, keep_seconds: float | None = None,
        keep_bytes: int | None = None, clock: Callable[[], float] = time.time, gaps: GapLog | None = None,
    ) -> None:  # fmt: skip
        self.compacted = self.removed = self.removed_blobs = 0
        self._directory, self._recorder = directory, recorder
        self._compact, self._keep_seconds, self._keep_bytes = compact, keep_seconds, keep_bytes
        self._clock, self._gaps = clock, gaps
        self._sweep = keep_seconds is not None or keep_bytes is not None
        self._rows: dict[str, int | None] = {}
        self._refs: dict[str, frozenset[str] | None] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self._compact or self._sweep

    def start(self) -> None:
        """Look every half a minute from now on, in a thread of its own."""
        if self:
            thread = threading.Thread(target=self._run, name="pzc-maintenance", daemon=True)
            begin(thread)
            self._thread = thread

    def close(self) -> None:
        """End it; a segment that is being compacted is finished."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(30.0)

    def _run(self) -> None:
        while not self._closing.wait(limits.current.maintenance_pause):
            while not self._closing.is_set() and self.step():
                pass

    def step(self) -> bool:
        """Do one thing that is due; whether there may be more."""
        return any(map(self._did, (self._merge_some, self._remove_covered, self._remove_old)))

    def _did(self, thing: Callable[[], bool]) -> bool:
        """Do one thing if it is due; on a full disk nothing can be merged, and the oldest have to go."""
        try:
            return thing()
        except Exception as exc:  # of the disk, or for want of memory or threads: it is tried again
            log.warning("journal %s is not looked after: %s", self._directory, exc)
            return False

    # --- compaction ------------------------------------------------------------------------------------

    def _merge_some(self) -> bool:
        run = next_run(self._pieces(), self._clock()) if self._compact else ()
        if not run:
            return False
        now = self._clock()
        for piece in run:  # the grace of what will be covered begins; killed now, it is merged later
            os.utime(piece.path, (now, now))
        first, last = run[0].first, run[-1].end - 1
        name = compacted_name(self._recorder, first, last)
        try:
            merge_segments(self._directory, name, [piece.path for piece in run], first, last, run[-1].written)
        except Exception as exc:
            for piece in run:  # as old as before, else retention would never find them old
                os.utime(piece.path, (piece.written, piece.written))
            if isinstance(exc, JournalError):
                self._rows |= dict.fromkeys((piece.path.name for piece in run), None)
            raise
        self.compacted += len(run)
        log.info("journal %s: %d segments became one of %d rows", self._directory, len(run), last - first + 1)
        return True

    def _pieces(self) -> list[Piece]:
        """Segments that are old enough to be merged, but for the last one, which says where offsets go on."""
        found, known = list[Piece](), dict[str, int | None]()
        for first, path in segments(self._directory, self._recorder)[:-1]:
            about = path.stat()
            if about.st_mtime > self._clock() - _COMPACT_AGE:
                break
            name = path.name
            known[name] = self._rows[name] if name in self._rows else _rows_of(path)
            found.append(Piece(path, first, known[name], about.st_size, about.st_mtime))
        self._rows = known
        return found

    def _remove_covered(self) -> bool:
        over = self._clock() - limits.current.covered_grace
        found = all_segments(self._directory, self._recorder)
        old = [path for _, path, covered in found if covered and path.stat().st_mtime < over]
        for path in old:
            path.unlink()
        return bool(old)

    # --- retention -------------------------------------------------------------------------------------

    def _remove_old(self) -> bool:
        if not self._sweep:
            return False
        groups = list[list[Path]]()  # each segment, and those for which it stands
        for _, path, covered in all_segments(self._directory, self._recorder):
            groups[-1].append(path) if covered else groups.append([path])
        over = groups[: self._due(groups)]
        if not over:
            self._remove_blobs()
            return False
        upto = min(group[0].stat().st_mtime for group in groups[len(over) - 1 :])
        for group in over:
            for path in reversed(group):  # that which stands for others last: they would be seen again
                path.unlink()
        Storage().sync(self._directory)
        self.removed += len(over)
        log.info(
            "journal %s: the %d oldest segments were removed, as they are to be", self._directory, len(over)
        )
        if self._gaps is not None:
            self._gaps.forget(upto)
        return True

    def _due(self, groups: list[list[Path]]) -> int:
        """How many of the oldest are to go; the newest one stays."""
        # Those of a clock that was ahead are no newer than those behind them.
        times = list(accumulate((group[0].stat().st_mtime for group in reversed(groups)), min))[::-1]
        over = -math.inf
        if self._keep_seconds is not None:
            first = first_kept((int(time // DAY) for time in times), int(self._keep_seconds // DAY))
            over = min(self._clock() - self._keep_seconds, first * DAY)
        most = math.inf if self._keep_bytes is None else self._keep_bytes
        size, users, blobs = 0, Counter[str](), dict[str, int]()
        if self._keep_bytes is not None:
            users.update(chain.from_iterable(self._references()))
            blobs = {path.name: path.stat().st_size for path in self._blobs() if path.name in users}
            size = sum(group[0].stat().st_size for group in groups) + sum(blobs.values())
        for number, group in enumerate(groups[:-1]):
            if times[number] >= over and size <= most:
                return number
            size -= group[0].stat().st_size
            for ref in chain.from_iterable(self._refs.get(path.name) or () for path in group):
                users[ref] -= 1
                size -= 0 if users[ref] else blobs.get(ref, 0)
        return max(0, len(groups) - 1)

    def _remove_blobs(self) -> None:
        old = [path for path in self._blobs() if path.stat().st_mtime < self._clock() - BLOB_GRACE]
        if not old:
            return
        needed = set(chain.from_iterable(self._references()))
        if None in self._refs.values():  # nobody knows which blobs a damaged segment needs
            return
        for path in old:
            # Its time is looked at again: a recorder that needs it once more has touched it.
            if path.name not in needed and path.stat().st_mtime < self._clock() - BLOB_GRACE:
                path.unlink()
                self.removed_blobs += 1

    def _blobs(self) -> list[Path]:
        return [path for path in (self._directory / "blobs").glob("*/*") if path.is_file()]

    def _references(self) -> Iterator[frozenset[str]]:
        """Blobs that each segment of any recorder refers to; one that was looked at never changes."""
        known, names = self._refs, {path.name: path for _, path, _ in all_segments(self._directory)}
        self._refs = {name: known[name] if name in known else _refs_of(path) for name, path in names.items()}
        return filter(None, self._refs.values())


def _rows_of(path: Path) -> int | None:
    """How many rows a segment has; None when it is damaged: it is left alone then."""
    try:
        with opened(path) as file:
            return file.metadata.num_rows
    except SegmentDamaged as exc:
        log.warning("%s; it is left as it is", str(exc))
        return None


def _refs_of(path: Path) -> frozenset[str] | None:
    """Blobs that a segment refers to, None for a damaged one; most say in their end that they need none."""
    try:
        with opened(path) as file:
            about = file.metadata
        number = about.schema.names.index("content_ref")
        groups = (about.row_group(group) for group in range(about.num_row_groups))
        told = [(group.num_rows, group.column(number).statistics) for group in groups]
        if all(stats is not None and stats.null_count == rows for rows, stats in told):
            return frozenset()
        columns = (batch.column("content_ref") for batch in batches(path, ["content_ref"]))
        return frozenset(ref for column in columns for ref in column.drop_null().to_pylist())
    except SegmentDamaged as exc:
        log.warning("%s; blobs stay as long as it does", str(exc))
        return None
