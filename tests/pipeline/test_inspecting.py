"""A journal that its recorder looks after while somebody looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pzc.pipeline.decoding.decode import Decoder
from pzc.pipeline.recording.inspecting import inspect
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.schema import segments

from tests.pipeline.conftest import a_row, append


class Removing(Decoder):
    """Removes the newest segment while the first one is looked at."""

    def __init__(self, journal: Path) -> None:
        super().__init__(None, journal)
        self._home = journal

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        segments(self._home)[-1][1].unlink()
        return super().__call__(batches)


def journal_of_two(home: Path) -> None:
    for number in range(2):
        with Journal(home, recorder="r") as journal:
            append(journal, a_row(number))


def test_a_segment_that_is_removed_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    journal_of_two(tmp_path)
    found = inspect(tmp_path, Removing(tmp_path))
    assert (found.segments, found.rows, found.damaged) == (1, 1, {})


def test_a_blob_that_is_removed_meanwhile_has_no_size(tmp_path: Path) -> None:
    journal_of_two(tmp_path)
    (tmp_path / "blobs" / "aa").mkdir(parents=True)
    (tmp_path / "blobs" / "aa" / "gone").symlink_to("nowhere")
    assert inspect(tmp_path).blob_size == 0


def test_starts_of_an_agent_are_those_of_its_name(tmp_path: Path) -> None:
    with Journal(tmp_path, recorder="r") as journal:
        for epoch in (5, 6):  # each start of an agent has an id of its own
            append(journal, a_row(1, publisher=f"id-{epoch}", name="psu", epoch=epoch, received_at=epoch))
        append(journal, a_row(3, publisher="id-6", name="psu", epoch=6))
    (found,) = inspect(tmp_path).topics
    assert (found.name, found.publisher, found.starts) == ("psu", "id-6", 2)
    assert (found.rows, found.missing, found.repeated) == (3, 1, 0)
