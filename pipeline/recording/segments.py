"""Segments: files of a journal, written so that a kill at any moment leaves each of them whole or absent.

Order of a segment: its blobs, then the segment, each under a temporary name → fsync → rename → fsync of the
folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from ...protocol.errors import JournalError
from ..arrow import pa, pq
from ..parquet import GROUP_ROWS, merge, written_as
from ..schema import blob_path, segment_name, segments
from ..storage import Storage, make_private
from .numbers import Numbers
from .reading import SegmentDamaged, batches, opened
from .rows import Rows

log = logging.getLogger("pzc.journal")

BLOB_BYTES = 1 << 20
"""A content of more bytes than this goes to ``blobs/``."""

WRITERS = 4
"""Blobs that are written at the same time: each of them waits for the disk."""

_LEFTOVER = re.compile(r"\.(?:segment|blob)-(?P<recorder>.+)-[0-9a-f]+(?:\.to-[0-9]+)?(?:\.parquet)?\.tmp")


def prepare() -> None:
    """Let pyarrow load what its first array needs, which takes a third of a second: not while rows wait."""
    pa.array([b""], pa.binary())


def write_segment(
    directory: Path,
    recorder: str,
    first: int,
    rows: Rows,
    numbers: Numbers,
    blob_bytes: int,
    storage: Storage,
) -> None:
    """Write rows, of which the first one has the offset ``first``; contents of more bytes as blobs.

    Raises:
        OSError, pa.ArrowException: when that cannot be; a file that is whole may be left all the same.
    """
    contents, refs = _store_blobs(directory, recorder, rows.contents, blob_bytes, storage)
    table = numbers.note(rows.table(recorder, first, contents, refs))
    name, options = segment_name(recorder, first), written_as(table.schema)
    temporary = directory / f".{name}.tmp"
    storage.put(temporary, directory / name, lambda file: pq.write_table(table, file, **options))
    storage.sync(directory)


def merge_segments(
    directory: Path, name: str, parts: Sequence[Path], first: int, last: int, written: float
) -> None:
    """Write the rows of some segments as one, group by group.

    Args:
        directory: of the journal.
        name: of the new file.
        parts: whose offsets go on from one to the next.
        first: offset of the first row.
        last: offset of the last one.
        written: time of the new file, Unix seconds.

    Raises:
        JournalError: when the parts do not hold these offsets.
        OSError, pa.ArrowException: as `write_segment`.
    """
    with opened(parts[0]) as file:
        schema = file.schema_arrow

    def write(file: BinaryIO) -> None:
        merge(file, schema, _rows(parts, first, last))
        file.flush()
        os.utime(file.fileno(), (written, written))

    storage = Storage()
    storage.put(directory / f".{name}.tmp", directory / name, write)
    storage.sync(directory)


def _rows(parts: Sequence[Path], first: int, last: int) -> Iterator[pa.RecordBatch]:
    following = first
    for part in parts:
        for batch in batches(part, rows=GROUP_ROWS):
            if not len(batch):
                continue
            offsets = batch.column("offset")
            if (offsets[0].as_py(), offsets[-1].as_py()) != (following, following + len(batch) - 1):
                raise JournalError(f"rows of segment {part} do not follow those before them")
            following += len(batch)
            yield batch
    if following != last + 1:
        raise JournalError(f"segments from {first} on end at {following - 1} instead of {last}")


def _store_blobs(
    directory: Path, recorder: str, contents: list[Any], above: int, storage: Storage
) -> tuple[list[Any], list[str | None]]:
    refs: list[str | None] = [None] * len(contents)
    large = [number for number, content in enumerate(contents) if len(content) > above]
    inline = [b"" if len(each) > above else _owned(each) for each in contents]
    if not large:
        return inline, refs
    fresh: dict[Path, Any] = {}
    folders: set[Path] = set()

    def store(target: Path) -> None:
        temporary = directory / f".blob-{recorder}-{target.name}.tmp"
        storage.put(temporary, target, lambda file: file.write(fresh[target]))

    with ThreadPoolExecutor(WRITERS, "pzc-blob") as pool:
        digests = pool.map(lambda number: hashlib.sha256(contents[number]).hexdigest(), large)
        for number, digest in zip(large, digests, strict=True):
            target, refs[number] = blob_path(directory, digest), digest
            if not _is_there(target):
                fresh[target] = contents[number]
            folders |= {target.parent, target.parent.parent}
        for folder in sorted({target.parent for target in fresh}):
            make_private(folder, inside=directory)
        list(pool.map(store, fresh))
        # Also for blobs that exist already: an earlier attempt may have failed before this point.
        list(pool.map(storage.sync, folders))
    return inline, refs


def _is_there(blob: Path) -> bool:
    """Whether a blob exists; its time says then that it is needed again (see `maintenance`)."""
    try:
        os.utime(blob)
    except OSError:
        return False
    return True


def _owned(content: Any) -> Any:
    return bytes(content) if type(content) is memoryview else content


def remove_leftovers(directory: Path, recorder: str) -> None:
    """Remove what a recorder that was killed has left unfinished."""
    for path in directory.iterdir():
        match = _LEFTOVER.fullmatch(path.name)
        if match and match["recorder"] == recorder:
            log.info("removing unfinished %s", path)
            path.unlink(missing_ok=True)


def written(directory: Path, recorder: str) -> tuple[int, Numbers]:
    """The highest offset of a recorder, -1 when it has none, and how far it has its publishers.

    Raises:
        JournalError: when its last segment cannot be read, or is of a newer form.
    """
    finished = segments(directory, recorder)
    if not finished:
        return -1, Numbers()
    first, last = finished[-1]
    try:
        with opened(last) as file:
            about = file.metadata
    except SegmentDamaged as exc:
        todo = f"move the folder away to begin another journal, which tables of {directory} take as well"
        raise JournalError(f"{exc}; it tells where to go on: put a copy in its place, or {todo}") from exc
    try:
        end = first + about.num_rows
        return end - 1, Numbers(about.metadata or {}, end)
    except ValueError as exc:
        raise JournalError(f"segment {last} cannot be read: {exc}") from exc
