"""`pzc.tables(DIR).array(row)`: the array of a notification, of any size, as it was published."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pzc
from pzc import Agent, JournalError
from pzc.pipeline.recording.recorder import Recorder

from tests.contract.rigs.tables import run

CONTENTS: dict[str, Any] = {
    "small": np.arange(6, dtype=np.int16).reshape(2, 3),
    "digits": np.array([(1 << 60) + 1, 3]),
    "longest": np.array([(1 << 64) - 1], np.uint64),
    "large": np.arange(20_000, dtype=">f4").reshape(100, 200),
    "blob": np.arange(300_000, dtype=np.int64),
    "inside": {"image": np.eye(200), "index": 3},
    "words": ["none", "at all"],
}
ARRAYS = {name: content for name, content in CONTENTS.items() if name != "words"} | {"inside": np.eye(200)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal of arrays, and its tables."""
    with Agent() as agent, Recorder(tmp_path / "journal", [agent.rep_endpoint]) as recorder:
        for topic, content in CONTENTS.items():
            agent.publish(topic, content)
        assert recorder.drain()
    found = run(tmp_path, "pipeline", "run", "journal", "tables", "--once", key=None)
    assert found.status == 0, found.err
    return tmp_path


def rows(tables: Any) -> dict[str, dict[str, Any]]:
    return {row["topic"]: row for row in tables["notifications"].to_table().to_pylist()}


def test_every_array_is_found_again(folder: Path) -> None:
    tables = pzc.tables(folder / "tables")
    found = rows(tables)
    assert found.keys() == CONTENTS.keys()
    for topic, expected in ARRAYS.items():
        array = tables.array(found[topic])
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype, topic
    with pytest.raises(JournalError, match="no array"):
        tables.array(found["words"])


def test_a_journal_that_was_moved_is_named(folder: Path) -> None:
    (folder / "journal").rename(folder / "moved")
    tables = pzc.tables(folder / "tables")
    large = rows(tables)["large"]
    with pytest.raises(JournalError, match="no journal"):
        tables.array(large)
    array = pzc.tables(folder / "tables", journal=folder / "moved").array(large)
    np.testing.assert_array_equal(array, CONTENTS["large"])


def test_an_array_that_the_journal_has_no_more_is_said(folder: Path) -> None:
    shutil.rmtree(folder / "journal")
    (folder / "journal").mkdir()
    tables = pzc.tables(folder / "tables")
    with pytest.raises(JournalError, match="does not have"):
        tables.array(rows(tables)["large"])
    np.testing.assert_array_equal(tables.array(rows(tables)["small"]), CONTENTS["small"])


def test_an_array_whose_blob_is_gone_is_said(folder: Path) -> None:
    shutil.rmtree(folder / "journal" / "blobs")
    tables = pzc.tables(folder / "tables")
    with pytest.raises(JournalError, match="does not have"):
        tables.array(rows(tables)["blob"])


def pictures(folder: Path) -> list[str]:
    """What the report says of arrays."""
    pytest.importorskip("matplotlib")
    outcome = run(folder, "report", "tables", key=None)
    assert outcome.status == 0, outcome.err
    page = (folder / "tables" / "report" / "index.html").read_text(encoding="utf-8")
    return re.findall(r'alt="Last array of \S+ (\w+: [^,]*),', page)


@pytest.mark.allow_leaks("matplotlib keeps the fonts that it draws with open")
def test_a_report_shows_large_arrays_as_long_as_the_journal_has_them(folder: Path) -> None:
    small = ["digits: 2", "small: 2 by 3"]
    large = ["blob: 300000", "inside: 200 by 200", "large: 100 by 200"]
    assert sorted(pictures(folder)) == sorted(small + large)
    (folder / "journal").rename(folder / "moved")
    assert sorted(pictures(folder)) == small
