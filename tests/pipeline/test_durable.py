"""What is fsynced, in which order, before somebody is told that it is done."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from pzc.pipeline.durable import make_folder, replace_file
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.schema import NOTIFICATIONS
from pzc.pipeline.tables.commit_log import COMMIT_LOG, Window
from pzc.pipeline.tables.committer import clear_stage, move_in, remove_days, stage_windows, write_small
from pzc.pipeline.tables.files import Files
from pzc.pipeline.tables.quantile_sketch import Figures
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import Cell

MINUTE = 60_000_000


class Disk:
    """What a disk would hold after a loss of power: contents and names that were fsynced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: set[int] = set()
        self.names: dict[Path, set[str]] = {}
        self.order: list[str] = []

    def sync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.order.append(path.name)
        if path.is_dir():
            self.names[path] = set(os.listdir(path))
        else:
            self.contents.add(path.stat().st_ino)

    def rename(self, source: Path, target: Path) -> None:
        self.order.append(f"{Path(target).name} is there")

    def holds(self, path: Path) -> bool:
        """Whether a file's content and every name on the way to it are on the disk."""
        way = [path, *path.parents]
        named = all(step.name in self.names.get(step.parent, ()) for step in way if self.root in step.parents)
        return named and path.stat().st_ino in self.contents


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made, replace = Disk(tmp_path), os.replace

    def replaced(source: Path, target: Path) -> None:
        replace(source, target)
        made.rename(source, target)

    monkeypatch.setattr(os, "fsync", made.sync)
    monkeypatch.setattr(os, "replace", replaced)
    return made


def tables_of(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.parquet") if ".staging" not in path.parts]


def a_batch(root: Path) -> State:
    stage = clear_stage(root)
    row = {"publisher": "p", "name": "psu", "topic": "v", "received_at": 1, "sequence": 1}
    files = Files(stage, "run-000000001", 0)
    files.write("notifications", pa.Table.from_pylist([row], NOTIFICATIONS))
    window = Window("psu", Cell(0, 1, 1, 1, 1, Figures(), Figures()), 1)
    staged = [
        *(file.place for file in files.close()),
        *stage_windows(stage, "run-000000001", [(("p", "v", 0), window)], MINUTE),
    ]
    move_in(root, staged)
    state = State(MINUTE)
    write_small(root, state)
    return state


def test_everything_of_a_batch_is_on_disk_before_the_commit_log_is_in_its_place(
    tmp_path: Path, disk: Disk
) -> None:
    root = tmp_path / "lab" / "tables"
    make_folder(root)
    state = a_batch(root)
    found = tables_of(root)
    assert {path.relative_to(root).parts[0] for path in found} >= {"notifications", "windows", "gaps"}
    assert [path for path in found if not disk.holds(path)] == []
    disk.order.clear()
    state.write(root)
    assert disk.order == [f".{COMMIT_LOG}.tmp", f"{COMMIT_LOG} is there", "tables"]
    assert disk.holds(root / COMMIT_LOG)


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, disk: Disk) -> None:
    replace_file(tmp_path / "one", b"content")
    assert disk.order == [".one.tmp", "one is there", tmp_path.name]


def test_days_that_are_removed_stay_removed(tmp_path: Path, disk: Disk) -> None:
    a_batch(tmp_path)
    remove_days(tmp_path, ["1970-01-01"])
    assert disk.names[tmp_path / "notifications"] == set()


def test_the_folder_of_a_new_journal_is_on_disk_with_its_first_segment(tmp_path: Path, disk: Disk) -> None:
    with Journal(tmp_path / "lab" / "journal", recorder="r"):
        assert "journal" in disk.names[tmp_path / "lab"]
        assert "lab" in disk.names[tmp_path]
