"""``pzc pipeline``, ``pzc sql`` and ``pzc report`` on one journal, in this process and its one session."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pzc.pipeline.recording.journal import Journal, JournalRow

from tests.pipeline.commanding import call
from tests.pipeline.conftest import damage_content

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

DAY = 86_400_000
LIMITS = '[limits.high]\ntopic = "v"\nwhere = "value_long >= 3"\n'

Run = Callable[..., list[dict[str, Any]]]


def journal_of(folder: Path, rows: list[JournalRow], recorder: str = "recorder") -> None:
    with Journal(folder / "journal", recorder=recorder) as journal:
        for row in rows:
            journal.append(row)


@pytest.fixture(scope="module")
def made(spark: Any, make_sender: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a journal of five rows, one of them damaged, and its tables; nobody changes it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "limits.toml").write_text(LIMITS, encoding="utf-8")
    rows = make_sender("psu").rows("v", range(5), 1)
    damage_content(rows[1].frames)
    journal_of(folder, rows)
    run = "pipeline", "run", "journal", "tables", "--once", "--limits", "limits.toml", "--json"
    assert call(spark, folder, *run) == 0
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(made, tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def run(spark: Any, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with ``--json``, which has to succeed; what it printed."""

    def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert call(spark, folder, *arguments, "--json") == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def asked(run: Run, folder: Path, query: str) -> list[list[Any]]:
    return [list(row.values()) for row in run(folder, "sql", query, "--tables", "tables")]


def test_tables_hold_what_verified_what_did_not_and_alarms(run: Run, made: Path) -> None:
    assert asked(run, made, "select name, count, missing from statistics") == [["psu", 4, 1]]
    assert asked(run, made, "select error from quarantine") == [["SignatureError"]]
    assert asked(run, made, "select rule, value from alarms order by value") == [["high", 3.0], ["high", 4.0]]


def test_a_run_takes_what_is_new_and_counts_everything(run: Run, own: Path, make_sender: Any) -> None:
    again = "pipeline", "run", "journal", "tables", "--once"
    (copied,) = run(own, *again)
    assert (copied["rows"], copied["skipped"]) == (0, 5)  # of a journal in another place
    assert run(own, *again) == []
    journal_of(own, make_sender("cam", start=1_700_000_000_000 + DAY).rows("v", range(3), 1))
    (told,) = run(own, *again)
    counted = {"rows": 3, "notifications": 3, "quarantined": 0, "duplicates": 0, "alarms": 0, "missing": 1}
    assert {name: told[name] for name in counted} == counted
    assert told["lag"] > 0
    assert told["rate"] > 0
    counts = asked(run, own, "select name, count from statistics order by name")
    assert counts == [["cam", 3], ["psu", 4]]


def test_backfill_judges_stored_days_anew_and_repeats_nothing(run: Run, own: Path) -> None:
    days = "--from", "2023-11-14", "--to", "2023-11-14"
    (told,) = run(own, "pipeline", "backfill", "journal", "tables", *days)
    assert (told["notifications"], told["quarantined"], told["alarms"]) == (4, 1, 0)
    counts = "select (select count(*) from notifications) n, (select count(*) from alarms) a"
    assert asked(run, own, counts) == [[4, 0]]


def test_a_report_shows_alarms_and_quarantine(run: Run, own: Path) -> None:
    (told,) = run(own, "report", "tables")
    page = (own / told["page"]).read_text(encoding="utf-8")
    assert (told["notifications"], told["alarms"], told["in quarantine"]) == ("4", "2", "1")
    assert "value_long &gt;= 3" in page
    assert "SignatureError" in page
    assert "Mauna Loa" not in page


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["sql", "selec 1", "--tables", "tables"], 2, "PARSE_SYNTAX_ERROR"),
        (["sql", "select nothing from statistics", "--tables", "tables"], 2, "UNRESOLVED_COLUMN"),
        (["sql", "select 1 a, 2 a", "--tables", "tables", "--json"], 2, "two columns are called a"),
        (["sql", "select 1", "--tables", "absent"], 1, "pzc pipeline run JOURNAL absent"),
        (["report", "absent"], 1, "no tables in absent"),
        (["pipeline", "run", "absent", "tables"], 1, "no journal at absent"),
        (["pipeline", "backfill", "x", "y", "--from", "2024-01-02", "--to", "2024-01-01"], 2, "is after"),
    ],
)
def test_what_cannot_be_done_is_said(
    spark: Any, made: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    assert call(spark, made, *arguments) == status
    assert said in capsys.readouterr().err


def test_a_run_tells_people_of_each_batch_and_of_all(
    spark: Any, own: Path, make_sender: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    again = "pipeline", "run", "journal", "tables", "--once"
    journal_of(own, make_sender("cam").rows("v", range(3), 1))
    assert call(spark, own, *again) == 0
    told = capsys.readouterr()
    assert "batch 0: 3 rows" in told.err
    assert "3 rows, 3 notifications, 0 duplicates, 0 in quarantine, 1 missing" in told.out
    assert call(spark, own, *again) == 0
    assert capsys.readouterr().out == "nothing new\n"


def test_more_rows_than_the_limit_are_said_to_be_there(
    spark: Any, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "select sequence from notifications order by sequence"
    assert call(spark, made, "sql", query, "--tables", "tables", "--limit", "2") == 0
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()[2:]] == [["1"], ["3"]]
    assert "more than 2 rows" in shown.err
