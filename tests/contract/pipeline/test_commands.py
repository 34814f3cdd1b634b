"""``pzc pipeline``, ``pzc sql`` and ``pzc report`` on one journal, in this process and its one Spark."""

from __future__ import annotations

import datetime
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import pzc
from pzc.testing.journals import Recording, Truth, write_journal

from tests.contract.rigs.tables import expected, found, run

pytestmark = [
    pytest.mark.java,
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(180),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

LIMITS = '[limits.high]\ntopic = "v"\nwhere = "value_double >= 20"\n'
RECORDING = Recording(
    published=50, agents=1, topics=("v",), restarts=0, lost=0.0, repeated=0.0, damaged=0.1, seed=3
)
RUN = "pipeline", "run", "journal", "tables", "--once"
MAILBOXES = "pipeline", "follow"


@dataclass(frozen=True)
class Made:
    """A folder with a journal and its tables.

    Attributes:
        folder: of both.
        truth: what is in the journal.
    """

    folder: Path
    truth: Truth

    def rows(self, *arguments: str) -> list[Any]:
        """Run a command with ``--json``, which has to succeed; what it printed."""
        outcome = run(self.folder, *arguments, "--json")
        assert outcome.status == 0, outcome.err
        return outcome.rows

    def asked(self, query: str, *options: str) -> list[list[Any]]:
        """What a query finds."""
        return [list(row.values()) for row in self.rows("sql", query, "--tables", "tables", *options)]

    def add(self, published: int) -> None:
        """What another recorder wrote, of another agent, on the next day."""
        start = RECORDING.start + datetime.timedelta(days=1)
        later = replace(RECORDING, published=published, damaged=0.0, seed=4, start=start)
        write_journal(self.folder / "journal", later, recorder="second")


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A journal, some of it damaged, and its tables; nobody changes them."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "limits.toml").write_text(LIMITS, encoding="utf-8")
    made = Made(folder, write_journal(folder / "journal", RECORDING))
    made.rows(*RUN, "--limits", "limits.toml")
    return made


@pytest.fixture
def own(made: Made, tmp_path: Path) -> Made:
    """A copy of it, to be changed."""
    shutil.copytree(made.folder, tmp_path / "own")
    return replace(made, folder=tmp_path / "own")


def test_tables_hold_what_verified_what_did_not_and_alarms(made: Made) -> None:
    assert made.truth.damaged > 0
    assert found(made.folder / "tables") == expected(made.truth)
    counts = made.asked("select name, count, missing from statistics")
    assert counts == [["agent0", made.truth.notifications, made.truth.missing]]
    assert made.asked("select distinct error from quarantine") == [["SignatureError"]]
    alarms = made.asked("select rule, value from alarms order by value")
    values = made.asked("select value_double from notifications where sequence >= 40 order by 1")
    assert alarms == [["high", value] for (value,) in values]
    assert alarms


def test_a_run_takes_what_is_new_and_counts_everything(own: Made) -> None:
    assert own.rows(*RUN) == []  # of a journal in another place
    own.add(3)
    (told,) = own.rows(*RUN)
    counted = {"rows": 3, "notifications": 3, "quarantined": 0, "duplicates": 0, "alarms": 0}
    assert {name: told[name] for name in counted} == counted
    assert told["missing"] == own.truth.missing
    assert told["lag"] > 0
    assert told["rate"] > 0
    counts = own.asked("select count from statistics order by count")
    assert counts == [[3], [own.truth.notifications]]


def test_backfill_judges_stored_days_anew_and_repeats_nothing(own: Made) -> None:
    day = RECORDING.start.date().isoformat()
    (told,) = own.rows("pipeline", "backfill", "journal", "tables", "--from", day, "--to", day)
    judged = told["notifications"], told["quarantined"], told["alarms"]
    assert judged == (own.truth.notifications, own.truth.damaged, 0)
    counts = "select (select count(*) from notifications) n, (select count(*) from alarms) a"
    assert own.asked(counts) == [[own.truth.notifications, 0]]


def test_a_limit_in_sql_of_spark_is_refused_with_the_spelling_of_duckdb(own: Made) -> None:
    rule = "[limits.high]\nwhere = \"get(from_json(value_json, 'ARRAY<DOUBLE>'), 0) > 3\"\n"
    (own.folder / "spark.toml").write_text(rule, encoding="utf-8")
    refused = run(own.folder, "pipeline", "run", "journal", "new", "--once", "--limits", "spark.toml")
    assert refused.status == 1
    assert "CAST(value_json->>'$[0]' AS DOUBLE) > 3" in refused.err
    assert not (own.folder / "new").exists()


def test_both_engines_answer_the_same(made: Made) -> None:
    query = "select name, topic, sequence, value_double from notifications order by sequence"
    assert made.asked(query) == made.asked(query, "--engine", "spark")


def test_a_report_shows_alarms_and_quarantine(own: Made) -> None:
    (told,) = own.rows("report", "tables")
    page = (own.folder / told["page"]).read_text(encoding="utf-8")
    assert told["notifications"] == str(own.truth.notifications)
    assert told["in quarantine"] == str(own.truth.damaged)
    assert int(told["alarms"]) > 0
    assert "value_double &gt;= 20" in page
    assert "SignatureError" in page
    assert "Mauna Loa" not in page


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["sql", "selec 1", "--tables", "tables"], 2, "syntax error at or near"),
        (["sql", "select nothing from statistics", "--tables", "tables"], 2, '"nothing" not found'),
        (["sql", "selec 1", "--tables", "tables", "--engine", "spark"], 2, "PARSE_SYNTAX_ERROR"),
        (
            ["sql", "select value_duoble from notifications", "--tables", "tables", "--engine", "spark"],
            2,
            "`value_double`",
        ),
        (
            ["sql", "select 1 a, 2 a", "--tables", "tables", "--engine", "spark"],
            2,
            "two columns are called a",
        ),
        (["sql", "select 1", "--tables", "absent"], 1, "pzc pipeline run JOURNAL absent"),
        (["report", "absent"], 1, "no tables in absent"),
        (["pipeline", "run", "absent", "tables"], 1, "no journal at absent"),
        (["pipeline", "run", "tables", "more", "--once"], 1, "no journal at tables: it holds tables"),
        (["pipeline", "run", "journal", "./journal", "--once"], 2, "journal is the journal: name another"),
        (["journal", "info", "tables"], 1, "no journal at tables: it holds tables"),
        (["pipeline", "backfill", "x", "y", "--from", "2024-01-02", "--to", "2024-01-01"], 2, "is after"),
    ],
)
def test_what_cannot_be_done_is_said(made: Made, arguments: list[str], status: int, said: str) -> None:
    outcome = run(made.folder, *arguments)
    assert outcome.status == status
    assert said in outcome.err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([*MAILBOXES, ".", "tables"], 2, "reads no directory"),
        ([*MAILBOXES, "/data/journal", "tables"], 2, "reads no directory"),
        ([*MAILBOXES, "psu:", "tables"], 2, "behind a slash"),
        ([*MAILBOXES, ",", "tables"], 2, "no agent is named"),
        ([*MAILBOXES, "psu", "tables", "--keep", "for ever"], 2, "for ever"),
        ([*MAILBOXES, "psu", "tables", "--name", "n" * 1000], 1, "name of a mailbox"),
        (["pipeline", "run", "journal", "tables", "--name", "archive"], 2, "--name"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_before_anything_is_written(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    outcome = run(tmp_path, *arguments)
    assert outcome.status == status
    assert said in outcome.err
    assert not (tmp_path / "tables").exists()


def test_a_run_tells_people_of_each_batch_and_of_all(own: Made) -> None:
    shutil.rmtree(own.folder / "journal")
    own.add(3)
    told = run(own.folder, *RUN)
    assert told.status == 0
    assert "batch 0: 3 rows" in told.err
    assert "3 rows, 3 notifications, 0 duplicates, 0 in quarantine" in told.out
    assert run(own.folder, *RUN).out == "nothing new\n"


def test_more_rows_than_the_limit_are_said_to_be_there(made: Made) -> None:
    query = "select sequence from notifications order by sequence desc"
    shown = run(made.folder, "sql", query, "--tables", "tables", "--limit", "2")
    assert shown.status == 0
    assert [line.strip() for line in shown.out.splitlines()][-2:] == ["50", "49"]
    assert "more than 2 rows" in shown.err


def test_spark_reads_the_files_of_a_snapshot_as_every_other_reader_does(made: Made, spark: Any) -> None:
    tables = pzc.tables(made.folder / "tables")
    columns = ["name", "topic", "epoch", "sequence", "value_double", "agent"]
    reader = spark.read.option("basePath", str(tables.directory / "notifications"))
    found = [tuple(row) for row in reader.parquet(*tables.files("notifications")).select(columns).collect()]
    arrow = tables["notifications"].to_table(columns).to_pylist()
    assert sorted(found) == sorted(tuple(row.values()) for row in arrow)
    assert len(found) == made.truth.notifications
