"""Upkeep: small segments become large ones, and the oldest go, when a recorder was told so.

::

    segments    event                                      next
    small       neighbours, older than `COMPACT_AGE`       compacted: one segment stands for them, which
                                                           are covered
    covered     `COVERED_GRACE` after that                 removed
    finished    older than ``keep_seconds``, or the        removed; never the newest one, which says where
                oldest while the journal has more          offsets go on
                than ``keep_bytes``
    blob        no segment refers to it any more, and      removed
                nobody wrote it for `BLOB_GRACE`

Everything is done by names and times of files, so it may be interrupted anywhere and be done again. Readers
that hold a list of segments find its files until the grace is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ...protocol.errors import JournalError
from .. import missing
from ..schema import all_segments, compacted_name, segments
from .segments import sync_folder, write_table

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise missing("pyarrow") from exc

log = logging.getLogger("pzc.journal")

COMPACT_AGE = 600.0
"""Seconds after which a segment may be compacted: whoever follows the journal has read it by then."""

COVERED_GRACE = 3600.0
"""Seconds for which segments stay beside the one that stands for them."""

BLOB_GRACE = 3600.0
"""Seconds for which a blob stays that no segment refers to: its segment may be about to be written."""

TARGET_BYTES = 64 << 20
TARGET_ROWS = 1_000_000
"""A compacted segment has no more than this; a segment of half of it is left alone."""

PAUSE = 30.0


class Upkeep:
    """Looks after the segments of one recorder; `step` belongs to one thread.

    Args:
        directory: of the journal.
        recorder: its name.
        compact: whether small segments are compacted.
        keep_seconds: age at which segments are removed; None keeps them.
        keep_bytes: most bytes of the recorder's segments, and all blobs; None for no limit.
        clock: Unix seconds, as the file system has them.

    Attributes:
        compacted: segments that became part of another one.
        removed: segments that were removed with their rows.
        removed_blobs: blobs likewise.
    """

    def __init__(
        self, directory: Path, recorder: str, *, compact: bool = False, keep_seconds: float | None = None,
        keep_bytes: int | None = None, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.compacted = self.removed = self.removed_blobs = 0
        self._directory, self._recorder = directory, recorder
        self._compact, self._keep_seconds, self._keep_bytes = compact, keep_seconds, keep_bytes
        self._clock = clock
        self._sweep = keep_seconds is not None or keep_bytes is not None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self._compact or self._sweep

    def start(self) -> None:
        """Look every half a minute from now on, in a thread of its own."""
        if self:
            self._thread = threading.Thread(target=self._run, name="pzc-upkeep", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End it; a segment that is being compacted is finished."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(30.0)

    def _run(self) -> None:
        while not self._closing.wait(PAUSE):
            while not self._closing.is_set() and self.step():
                pass

    def step(self) -> bool:
        """Do one thing that is due; whether there may be more."""
        try:
            return (self._compact and self._merge_some()) or self._remove_covered() or self._remove_old()
        except (OSError, JournalError, pa.ArrowException) as exc:
            log.warning("journal %s is not looked after: %s", self._directory, exc)
            return False

    # --- compaction ------------------------------------------------------------------------------------

    def _merge_some(self) -> bool:
        run = self._find_run()
        if len(run) < 2:
            return False
        table = pa.concat_tables([pq.read_table(path) for _, path in run])
        first, last = run[0][0], run[0][0] + table.num_rows - 1
        offsets = table["offset"]
        if offsets[0].as_py() != first or offsets[-1].as_py() != last:
            raise JournalError(f"segments from {first} on do not follow each other")
        write_table(self._directory, compacted_name(self._recorder, first, last), table)
        self.compacted += len(run)
        log.info("journal %s: %d segments became one of %d rows", self._directory, len(run), table.num_rows)
        return True

    def _find_run(self) -> list[tuple[int, Path]]:
        """The first neighbours that are small enough to become one segment."""
        run, size, rows, following = list[tuple[int, Path]](), 0, 0, -1
        for first, path in segments(self._directory, self._recorder)[:-1]:
            about, count = path.stat(), pq.read_metadata(path).num_rows
            fits = size + about.st_size <= TARGET_BYTES and rows + count <= TARGET_ROWS and first == following
            if not fits and len(run) > 1:
                return run
            small = about.st_size * 2 < TARGET_BYTES and count * 2 < TARGET_ROWS and ".to-" not in path.name
            if not small or about.st_mtime > self._clock() - COMPACT_AGE:
                if len(run) > 1:
                    return run
                run, size, rows = [], 0, 0
                continue
            if not fits:
                run, size, rows = [], 0, 0
            run.append((first, path))
            size, rows, following = size + about.st_size, rows + count, first + count
        return run

    def _remove_covered(self) -> bool:
        found = all_segments(self._directory, self._recorder)
        since = 0.0
        for _, path, covered in found:
            if not covered:
                since = path.stat().st_mtime
            elif since < self._clock() - COVERED_GRACE:
                path.unlink()
                return True
        return False

    # --- retention -------------------------------------------------------------------------------------

    def _remove_old(self) -> bool:
        if not self._sweep:
            return False
        found = segments(self._directory, self._recorder)
        if len(found) > 1 and self._is_due(found):
            first = found[0][0]
            for path in self._with_covered(found[1][0]):
                path.unlink()
            sync_folder(self._directory)
            self.removed += 1
            log.info("journal %s: the segment from %d on was removed, as it is to be", self._directory, first)
            return True
        self._remove_blobs()
        return False

    def _with_covered(self, below: int) -> list[Path]:
        """The files of the oldest segment, those last that stand for others: they would be seen again."""
        files = [(covered, path) for first, path, covered in all_segments(self._directory, self._recorder)
                 if first < below]  # fmt: skip
        return [path for _, path in sorted(files, key=lambda each: not each[0])]

    def _is_due(self, found: list[tuple[int, Path]]) -> bool:
        oldest = found[0][1].stat().st_mtime
        if self._keep_seconds is not None and oldest < self._clock() - self._keep_seconds:
            return True
        if self._keep_bytes is None:
            return False
        size = sum(path.stat().st_size for _, path in found)
        needed = self._referenced()
        blobs = sum(path.stat().st_size for path in self._blobs() if path.name in needed)
        return size + blobs > self._keep_bytes

    def _remove_blobs(self) -> None:
        old = [path for path in self._blobs() if path.stat().st_mtime < self._clock() - BLOB_GRACE]
        if not old:
            return
        needed = self._referenced()
        for path in old:
            # Its time is looked at again: a recorder that needs it once more has touched it.
            if path.name not in needed and path.stat().st_mtime < self._clock() - BLOB_GRACE:
                path.unlink()
                self.removed_blobs += 1

    def _blobs(self) -> list[Path]:
        return [path for path in (self._directory / "blobs").glob("*/*") if path.is_file()]

    def _referenced(self) -> set[str]:
        """Blobs that any segment of any recorder refers to."""
        found: set[str] = set()
        for _, path, _ in all_segments(self._directory):
            column = pq.read_table(path, columns=["content_ref"])["content_ref"]
            if column.null_count < len(column):
                found.update(column.drop_null().to_pylist())
        return found
