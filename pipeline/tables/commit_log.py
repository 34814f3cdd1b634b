"""Commit log: which files the tables are made of, and what follows from the reports of all batches.

::

    TABLES/_commits/<number of its first record>.log        record: length, CRC-32 (both u32), MessagePack

    first record of a log         `Checkpoint`: the whole state and all files
    each other one                `Commit`: files added and removed, what the workers reported

    appended                      counts when it is fsynced; what fails is cut off again
    as much again as its first    another log begins: temporary name → fsync → rename → fsync of the folder
    record, 8 MB at least, or
    1000 records
    the last record is torn       cut off when the log is opened to be written; readers pass it over
    anything else is wrong        JournalError; without its logs, what is stored is counted anew

The last two logs are kept, for readers that are in the middle of the one before.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct as Packing
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from ...protocol.errors import JournalError
from ..schema import check_form, form_of
from ..storage import Storage, open_private
from .summary import Copies, Damage, File, Report

FOLDER = "_commits"
"""Folder among the tables."""

FORM = 2

ROLL_BYTES = 8 << 20
ROLL_RECORDS = 1000

_HEAD = Packing("<II")
_NAME = re.compile(r"(\d{10})\.log")
_TRIES = 5
_MAP = 0x80
"""How MessagePack begins a dictionary of a few entries, which every record is."""


class Changes(msgspec.Struct, omit_defaults=True):
    """What readers want of a commit.

    Attributes:
        number: of the record.
        added: files.
        removed: places of files.
        journal: that the rows are from; None leaves it as it is.
    """

    number: int
    added: list[File] = []
    removed: list[str] = []
    journal: str | None = None


class Commit(Changes):
    """What one batch did.

    Attributes:
        reports: of the tasks, without their files.
        copies: what was left out, because it was stored before.
        damaged: segments.
        origins: by recorder, where they are not those that the state has.
    """

    reports: list[Report] = []
    copies: list[Copies] = []
    damaged: list[Damage] = []
    origins: dict[str, str] = {}


_Record = TypeVar("_Record", bound=Changes)


class Checkpoint(msgspec.Struct):
    """Everything up to here.

    Attributes:
        form: of the log.
        number: of the record.
        files: all of them.
        state: `state.Content`.
        left: places of files that were taken out and may be on the disk still.
    """

    form: int
    number: int
    files: list[File]
    state: msgspec.Raw
    left: list[str] = []


class _State(msgspec.Struct):
    """What readers want of a state."""

    journal: str = ""


class Listed(NamedTuple):
    """What tables are made of: places of their files, and the journal of their rows, empty for none."""

    places: list[str]
    journal: str


class CommitLog:
    """The log of a folder of tables, for the one process that writes it; `close` it.

    Args:
        root: of the tables.
        storage: writes.
        file: the log's, open to be appended to.
        checkpoint: its first record.
        begin: size of that record in bytes.

    Attributes:
        files: that the tables are made of, by place.
        left: places of files that were taken out and may be on the disk still.
        number: of the last record.
    """

    def __init__(
        self, root: Path, storage: Storage, file: BinaryIO, checkpoint: Checkpoint, begin: int
    ) -> None:
        self.files = {each.place: each for each in checkpoint.files}
        self.left = set(checkpoint.left)
        self.number = checkpoint.number
        self._root, self._storage, self._file, self._size, self._records = root, storage, file, begin, 1
        self._full = begin + max(begin, ROLL_BYTES)  # a large state is written as seldom as it is large

    @classmethod
    def create(
        cls,
        root: Path,
        state: bytes,
        files: Iterable[File],
        storage: Storage,
        number: int = 0,
        left: Iterable[str] = (),
    ) -> CommitLog:
        """Begin a log with a checkpoint.

        Args:
            root: of the tables.
            state: encoded.
            files: that the tables are made of.
            storage: writes.
            number: of the checkpoint.
            left: places of files that were taken out and are on the disk still.
        """
        folder = root / FOLDER
        storage.make_folder(folder)
        path = folder / f"{number:010d}.log"
        checkpoint = Checkpoint(FORM, number, list(files), msgspec.Raw(state), list(left))
        content = _packed(checkpoint)
        storage.replace(path, content)
        for each in _logs(root)[:-2]:
            storage.remove(each)
        return cls(root, storage, open_private(path, "ab"), checkpoint, len(content))

    @classmethod
    def open(cls, root: Path, storage: Storage) -> tuple[CommitLog, bytes, list[Commit]] | None:
        """Go on with the last log of a folder; None when there is none.

        Args:
            root: of the tables.
            storage: writes.

        Returns:
            The log, the encoded state of its checkpoint, and the commits behind it.

        Raises:
            JournalError: when it cannot be read, or is of a newer form; says what to do.
        """
        logs = _logs(root)
        if not logs:
            return None
        path = logs[-1]
        content = _content(path)
        records = _Reading(path, content)
        checkpoint, begin = records.checkpoint(), records.end
        commits = list(records.commits(Commit))
        file = open_private(path, "ab")
        if records.end < len(content):
            storage.cut(file, records.end)
        log = cls(root, storage, file, checkpoint, begin)
        log._size = records.end
        for commit in commits:
            log._count(commit)
        return log, bytes(checkpoint.state), commits

    @property
    def is_long(self) -> bool:
        """Whether `roll` is due."""
        return self._size >= self._full or self._records >= ROLL_RECORDS

    def append(self, commit: Commit) -> None:
        """Add a record; it is there for good when this returns.

        Raises:
            OSError: when it cannot be written; it is not there then.
        """
        content = _packed(commit)
        try:
            self._storage.append(self._file, content)
        except BaseException:
            self._storage.cut(self._file, self._size)
            raise
        self._size += len(content)
        self._count(commit)

    def roll(self, state: bytes, files: Iterable[File] | None = None) -> None:
        """Begin another log.

        Args:
            state: encoded.
            files: that the tables are made of from now on; default those that they are made of.
        """
        kept = list(self.files.values() if files is None else files)
        self._file.close()
        left = [place for place in self.left if (self._root / place).exists()]
        made = CommitLog.create(self._root, state, kept, self._storage, self.number + 1, left)
        self.__dict__.update(made.__dict__)

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _count(self, commit: Commit) -> None:
        self.number, self._records = commit.number, self._records + 1
        self.left.update(commit.removed)
        _fold(self.files, commit)


def _fold(files: dict[str, File], commit: Changes) -> None:
    """The files that tables are made of behind a commit."""
    for place in commit.removed:
        files.pop(place, None)
    files |= {each.place: each for each in commit.added}


def listed(root: Path) -> Listed | None:
    """What the tables are made of now; None without a commit log.

    Takes no lock, and may be called while a pipeline runs.

    Raises:
        JournalError: as `CommitLog.open`.
    """
    for tried in range(_TRIES):
        logs = _logs(root)
        if not logs:
            return None
        try:
            records = _Reading(logs[-1], _content(logs[-1]))
        except JournalError:
            if tried + 1 < _TRIES and not logs[-1].exists():
                continue  # two others have begun meanwhile
            raise
        checkpoint = records.checkpoint()
        found = {each.place: each for each in checkpoint.files}
        journal = msgspec.msgpack.decode(checkpoint.state, type=_State).journal
        for commit in records.commits(Changes):
            _fold(found, commit)
            journal = journal if commit.journal is None else commit.journal
        return Listed(list(found), journal)
    return None


class _Reading:
    """The records of a log; ``end`` is where the last whole one ends."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content, self.end = path, content, 0

    def checkpoint(self) -> Checkpoint:
        first = next(self._records(), None)
        if first is None:
            raise unreadable(self._path.parent, "it has no beginning")
        try:
            check_form(self._path, form_of(first), FORM)
            return msgspec.msgpack.decode(first, type=Checkpoint)
        except msgspec.MsgspecError as exc:
            raise unreadable(self._path.parent, exc) from exc

    def commits(self, kind: type[_Record]) -> Iterator[_Record]:
        decoder = msgspec.msgpack.Decoder(kind)
        for record in self._records():
            try:
                yield decoder.decode(record)
            except msgspec.MsgspecError as exc:
                raise unreadable(self._path.parent, exc) from exc

    def _records(self) -> Iterator[bytes]:
        while (record := self._record_at(self.end)) is not None:
            self.end += _HEAD.size + len(record)
            yield record
        # A record that was cut short is the last one. Whatever stands behind it, this is something else.
        rest = range(self.end + 1, len(self._content))
        if any(self._record_at(place) is not None for place in rest):
            raise unreadable(self._path.parent, f"the record at byte {self.end} is damaged")

    def _record_at(self, place: int) -> bytes | None:
        """The record that begins at a place; None when none does that is whole."""
        if place + _HEAD.size > len(self._content):
            return None
        size, check = _HEAD.unpack_from(self._content, place)
        begin = place + _HEAD.size
        if not size or begin + size > len(self._content) or self._content[begin] & 0xF0 != _MAP:
            return None
        record = self._content[begin : begin + size]
        return record if zlib.crc32(record) == check else None


def _packed(record: msgspec.Struct) -> bytes:
    content = msgspec.msgpack.encode(record)
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def _logs(root: Path) -> list[Path]:
    """From the oldest one on."""
    folder = root / FOLDER
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise unreadable(path.parent, exc) from exc


def unreadable(folder: Path, error: object) -> JournalError:
    """The error for a commit log that cannot be used."""
    return JournalError(
        f"{folder} cannot be read: {error}; remove it, and the next run counts what is stored"
    )
