"""What is fsynced, in which order, before somebody is told that it is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.schema import NOTIFICATIONS
from pzc.pipeline.storage import Storage
from pzc.pipeline.tables.commit_log import FOLDER, Commit
from pzc.pipeline.tables.committer import Committer
from pzc.pipeline.tables.files import Files
from pzc.pipeline.tables.quantile_sketch import Figures
from pzc.pipeline.tables.summary import Cell, Part, Report
from pzc.pipeline.tables.work import Inline


class Disk(Storage):
    """What a disk would hold after a loss of power: contents and names that were synchronised."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: set[int] = set()
        self.names: dict[Path, set[str]] = {}
        self.order: list[str] = []
        self.missing: list[Path] | None = None

    def settle(self, file: BinaryIO) -> None:
        file.flush()
        self.sync(Path(file.name))

    def sync(self, path: Path) -> None:
        self.order.append(path.name)
        if path.is_dir():
            self.names[path] = set(os.listdir(path))
        else:
            self.contents.add(path.stat().st_ino)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.order.append(f"{target.name} is there")

    def append(self, file: BinaryIO, content: bytes) -> None:
        """A record is about to be added to the commit log: what it names has to be there."""
        rows = [path for path in tables_of(self.root) if path.name != "all.parquet"]
        assert {path.relative_to(self.root).parts[2] for path in rows} == {"notifications"}
        self.missing = [path for path in rows if not self.holds(path)]
        super().append(file, content)

    def holds(self, path: Path) -> bool:
        """Whether a file's content and every name on the way to it are on the disk."""
        way = [path, *path.parents]
        named = all(step.name in self.names.get(step.parent, ()) for step in way if self.root in step.parents)
        return named and path.stat().st_ino in self.contents


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def tables_of(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.parquet") if ".staging" not in path.parts]


def a_batch(committer: Committer) -> None:
    """One row."""
    row = {"publisher": "p", "name": "psu", "topic": "v", "received_at": 1, "sequence": 1}
    files = Files(committer.clear(), committer.label(0), 0, committer.storage)
    files.write("notifications", pa.Table.from_pylist([row], NOTIFICATIONS))
    cell = Cell(1, 1, 1, 1, Figures(), Figures())
    report = Report(0, 1, parts=[Part("p", 1, "v", "psu", [1, 1], 1, cell)])
    committer.commit(Commit(0, files.close(), reports=[report]))


def test_everything_of_a_batch_is_on_disk_before_the_commit_log_names_it(tmp_path: Path, disk: Disk) -> None:
    root = tmp_path / "lab" / "tables"
    disk.make_folder(root)
    committer = Committer(root, Inline(), disk)
    (log,) = (root / FOLDER).iterdir()
    assert disk.holds(log)
    a_batch(committer)
    assert disk.missing == []
    disk.order.clear()
    committer.replace(committer.state, committer.files)
    committer.close()
    following = (root / FOLDER) / "0000000002.log"
    assert disk.order[:3] == [f".{following.name}.tmp", f"{following.name} is there", FOLDER]
    assert disk.holds(following)


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, disk: Disk) -> None:
    disk.replace(tmp_path / "one", b"content")
    assert disk.order == [".one.tmp", "one is there", tmp_path.name]


def test_the_folder_of_a_new_journal_is_on_disk_with_its_first_segment(tmp_path: Path, disk: Disk) -> None:
    with Journal(tmp_path / "lab" / "journal", recorder="r", storage=disk):
        assert "journal" in disk.names[tmp_path / "lab"]
        assert "lab" in disk.names[tmp_path]
