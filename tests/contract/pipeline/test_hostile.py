"""One run over a journal that attacks its reader: every row ends somewhere, and what comes later is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pzc

from tests.contract.rigs import hostile
from tests.contract.rigs.tables import run

pytestmark = [
    pytest.mark.java,
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

NAMES = list(hostile.KINDS)
RUN = ("pipeline", "run", "journal", "tables", "--once", "--json")


@pytest.mark.once
def test_a_run_over_every_kind_of_hostile_row_ends_and_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    hostile.write_rows(journal, NAMES)
    unsound = hostile.write_unsound(journal, 1000)
    strays = hostile.write_strays(journal, 2000)
    first = run(tmp_path, *RUN, key="")
    assert first.status == 0, first.err
    hostile.segment(
        journal, pa.Table.from_pylist([hostile.row(hostile.KINDS["no name"], 5000)], hostile.SCHEMA), 5000
    )
    second = run(tmp_path, *RUN, key="")
    assert [batch["notifications"] for batch in second.rows] == [1]
    tables = pzc.tables(tmp_path / "tables")
    ended = dict(asked(tables, 'select "offset", error from quarantine'))
    stored = [offset for (offset,) in asked(tables, 'select "offset" from notifications')]
    for offset, name in enumerate(NAMES):
        assert ended.get(offset) == hostile.KINDS[name].error, name
        assert (offset in stored) == (hostile.KINDS[name].error is None), name
    assert 5000 in stored
    damaged = [file for (file,) in asked(tables, "select file from damaged")]
    assert sorted(damaged) == sorted(unsound + strays)


def asked(tables: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in tables.sql(query).to_pylist()]
