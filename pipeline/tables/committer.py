"""The folder of tables, as the one process that writes it works on it.

::

    opened     files that the commit log does not name are removed: of a batch that was killed
    committed  staged files → renamed into their tables → folders fsynced → record in the commit log
               → small tables, now or a little later → files that were taken out removed

What is not in the commit log is in no snapshot. Everything here is one file system that every worker reaches.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ...protocol.errors import JournalError
from ..arrow import pa, pq
from ..storage import Storage, lock_file, make_private
from .again import recount
from .commit_log import FOLDER, Commit, CommitLog, unreadable
from .files import described, stored_files
from .small import SmallTables
from .state import State
from .summary import File
from .work import Workers

log = logging.getLogger("pzc.pipeline")

STAGE = ".staging"
"""Folder among the tables; nobody reads it."""

ROWS = ("notifications", "quarantine", "alarms")
"""Tables that have a file for each batch."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_LOCK = ".pipeline-lock"
_ATTEMPT = "attempt"
_FILE = re.compile(r"[0-9a-f]{8}-\d{9}(?:-\d{5}){0,2}\.parquet")


@contextmanager
def claimed(directory: str | Path) -> Iterator[Path]:
    """The folder of tables, for one process at a time; made when absent.

    Raises:
        JournalError: when another process works on it, and for want of room within.
    """
    root = Path(directory).absolute()
    Storage().make_folder(root)
    with lock_file(root / _LOCK, f"another process works on the tables in {directory}"):
        try:
            yield root
        except OSError as exc:
            if exc.errno not in _NO_ROOM:
                raise
            told = f"{exc}; the next run goes on behind the last batch"
            raise JournalError(f"the tables in {directory} cannot be written: {told}") from exc


class Committer:
    """Brings staged files into the tables; `close` it.

    Args:
        root: of the tables, which this process has `claimed`.
        workers: that do the work; they count what is stored, where there is no commit log.
        storage: writes.

    Attributes:
        state: what the tables hold.
        workers: see above.
        storage: see above.
        stage: folder of files that are not in the tables yet.
        left: files that were taken out before it began and are there still; their times tell when.
        was_killed: whether the process before has ended while it worked on rows itself.
        run: a name that no batch has had, so that files of one never stand in the place of others.

    Raises:
        JournalError: when the commit log cannot be read; says what to do.
    """

    def __init__(self, root: Path, workers: Workers, storage: Storage) -> None:
        self.root, self.workers, self.storage = root, workers, storage
        self.run = uuid.uuid4().hex[:8]
        self._small = SmallTables(root, storage)
        for name in ROWS:
            storage.make_folder(root / name)
        found = CommitLog.open(root, storage)
        if found is None:
            self.state, files = _begun(root, workers)
            self._log = CommitLog.create(root, self.state.encode(), files, storage)
        else:
            self._log, content, commits = found
            self.state = _folded(root, content, commits)
        self.left = [root / place for place in self._log.left if (root / place).exists()]
        self.stage = root / STAGE
        self.was_killed = (self.stage / _ATTEMPT).exists()
        try:
            self.clear()
            self._remove_unnamed()
            self._small.changed(self.state)
        except BaseException:
            self.close()
            raise

    @property
    def files(self) -> list[File]:
        """That the tables are made of."""
        return list(self._log.files.values())

    def close(self) -> None:
        """Write no more."""
        self._log.close()

    def label(self, batch: int) -> str:
        """How the names of a batch's files begin."""
        return f"{self.run}-{batch:09d}"

    def clear(self) -> Path:
        """Empty the stage; its folder."""
        shutil.rmtree(self.stage, ignore_errors=True)
        make_private(self.stage)
        return self.stage

    @contextmanager
    def attempt(self, here: bool) -> Iterator[Path]:
        """An empty stage for a batch; who comes later knows when this process ends within.

        Args:
            here: whether the work is done in this process.
        """
        mark = self.clear() / _ATTEMPT
        if here:
            mark.touch()
        try:
            yield self.stage
        finally:
            mark.unlink(missing_ok=True)

    def commit(self, commit: Commit, now: float | None = None) -> None:
        """Bring in the staged files of a batch, and count what it tells.

        Files that it takes out are in no snapshot from now on, and stay on the disk until somebody removes
        them. After an error, what is done is to be looked at anew: open another committer.

        Args:
            commit: with the files that are in the stage, and the places of those that are taken out.
            now: Unix seconds, which the times of files that are taken out tell then; default the clock's.

        Raises:
            OSError: when the disk refuses.
        """
        commit.number = self._log.number + 1
        self.state.apply(commit)
        self.move_in(commit.added)
        for place in commit.removed:  # killed now, they stay; behind the record they would go at once
            with suppress(FileNotFoundError):
                os.utime(self.root / place, None if now is None else (now, now))
        self._log.append(commit)
        if self._log.is_long:
            self._log.roll(self.state.encode())
        if commit.reports or commit.damaged:  # else nothing has changed of what these tell
            self._small.changed(self.state)

    def replace(self, state: State, files: Iterable[File]) -> None:
        """Let the tables be made of these files, which are there, and hold what the state says."""
        kept = list(files)
        before = self._log.files.keys() - {each.place for each in kept}
        self.state = state
        self._log.roll(state.encode(), kept)
        for place in before:
            self.storage.remove(self.root / place)
        self._small.changed(state)
        self.tell(at_once=True)

    def tell(self, at_once: bool = False) -> None:
        """Write the small tables, if they are behind and have rested; or at once, as before it is closed."""
        self._small.catch_up(self.state, at_once)

    def move_in(self, files: Iterable[File]) -> None:
        """Move staged files, which are on disk, to their tables; they are there for good then."""
        folders: set[Path] = set()
        for file in files:
            target = self.root / file.place
            if target.parent not in folders:
                self.storage.make_folder(target.parent)
                folders.add(target.parent)
            self.storage.rename(self.stage / file.place, target)
        for folder in folders:
            self.storage.sync(folder)

    def _remove_unnamed(self) -> None:
        stored = [
            (place, path) for place, path in stored_files(self.root, ROWS) if _FILE.fullmatch(path.name)
        ]
        known = {*self._log.files, *(path.relative_to(self.root).as_posix() for path in self.left)}
        left = [path for place, path in stored if place not in known]
        for path in left:
            self.storage.remove(path)
        if left:
            log.warning("%d files of a batch that was killed are removed, it is done again", len(left))


def _folded(root: Path, content: bytes, commits: Iterable[Commit]) -> State:
    try:
        state = State.decode(content)
    except msgspec.MsgspecError as exc:
        raise unreadable(root / FOLDER, exc) from exc
    for commit in commits:
        state.apply(commit)
    return state


def _begun(root: Path, workers: Workers) -> tuple[State, list[File]]:
    """State and files of tables without a commit log: new ones, or it was lost."""
    if (root / "pipeline.ledger").exists():  # its folder has files of batches that were killed
        raise JournalError(f"{root} has tables of version 0.1: have the journal made into a new folder")
    files = [_file(root, place) for place, _ in stored_files(root, ROWS)]
    if not files:
        return State(), []
    log.warning("the tables in %s have no commit log, it is counted anew", root)
    return recount(root, workers, files, State()), files


def _file(root: Path, place: str) -> File:
    path = root / place
    try:
        return described(place, path.stat().st_size, pq.read_metadata(path))
    except (OSError, pa.ArrowException, ValueError) as exc:
        todo = "put a copy in its place, or remove it: then its rows are taken out of the journal again"
        raise JournalError(f"{path} cannot be read: {exc}; {todo}") from exc
