"""Notifications that hold several arrays: each of them can be had from the tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pzc
from pzc import JournalError

from tests.contract.rigs.tables import recorded

LARGE = np.arange(600_000, dtype="<u2").reshape(300, 2000)
CONTENT = {
    "wavelength": np.linspace(400, 700, 50),
    "intensity": np.arange(50, dtype=">u2"),
    "exposure": 0.1,
    "scan": {"points": [np.arange(3), np.array([(1 << 60) + 1])]},
    "a.b": np.array([True, False]),
    "image": LARGE,
}
ARRAYS: dict[str, Any] = {
    "wavelength": CONTENT["wavelength"], "intensity": CONTENT["intensity"], "scan.points[0]": np.arange(3),
    "scan.points[1]": np.array([(1 << 60) + 1]), '["a.b"]': CONTENT["a.b"], "image": LARGE,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arrays")
    recorded(folder, {"doc": CONTENT})
    return folder


def row_of(tables: Any) -> dict[str, Any]:
    (row,) = tables["notifications"].to_table().to_pylist()
    return row


def test_every_array_of_a_document_comes_back_equal(folder: Path) -> None:
    tables = pzc.tables(folder / "tables")
    row = row_of(tables)
    assert [each["path"] for each in row["arrays"]] == list(ARRAYS)
    for path, expected in ARRAYS.items():
        array = tables.array(row, path)
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype, path


def test_small_arrays_of_a_document_need_no_journal(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "tables", tmp_path / "tables")
    tables = pzc.tables(tmp_path / "tables", journal=tmp_path / "none")
    for path in ("wavelength", "intensity", "scan.points[0]", '["a.b"]'):
        np.testing.assert_array_equal(tables.array(row_of(tables), path), ARRAYS[path])


def test_a_path_without_an_array_is_said_with_those_that_have_one(folder: Path) -> None:
    tables = pzc.tables(folder / "tables")
    with pytest.raises(JournalError, match=r"no array 'exposure'.*'wavelength', 'intensity'"):
        tables.array(row_of(tables), "exposure")
