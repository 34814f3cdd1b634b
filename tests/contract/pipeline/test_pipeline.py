"""The journal and what makes tables of it: closed lines of section 3."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent
from pzc.testing import Running, Timings, command

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

TIMEOUT = 20.0
ALONE = {"PZC_DISCOVERY_IP": "off", "PZC_PEERS": None, "PZC_REGISTRY": None}
LONG_AGO = 40 * 86_400.0


def a_journal(folder: Path, segments: int) -> Path:
    """Segments of ten rows each, of a recorder of that name."""
    from pzc.testing.journals import Recording, write_journal

    recording = Recording(published=10 * segments, agents=1, topics=("v",), restarts=0, lost=0.0,
                          repeated=0.0, damaged=0.0)  # fmt: skip
    write_journal(folder, recording, rows_per_segment=10, recorder="recorder")
    return folder


def offsets(journal: Path) -> list[int]:
    """Of all rows in the files of a journal, by file."""
    return [
        row for path in sorted(journal.glob("*.parquet")) for row in pq.read_table(path)["offset"].to_pylist()
    ]


def compacted(path: Path, rows: int) -> Path:
    """A segment under the name that it has when it stands for others."""
    first = int(path.stem.rpartition("-")[2])
    return path.rename(path.with_name(f"{path.stem}.to-{first + rows - 1:016d}.parquet"))


def recorded(journal: Path, until: Any, *options: str) -> None:
    """Let a recorder look after its journal until something holds."""

    def wait(running: Running) -> None:
        running.line()
        moment, end = threading.Event(), time.monotonic() + TIMEOUT
        while not until() and time.monotonic() < end:
            moment.wait(0.02)

    timings = Timings(maintenance_pause=0.05, covered_grace=0.0)
    with timings:
        environment = {**ALONE, "PZC_CONFIG": str(timings.write(journal.parent))}
        outcome = command("record", "nobody*", "--journal", str(journal), *options,
                          environment=environment, meanwhile=wait)  # fmt: skip
    assert outcome.status == 0, outcome.err


def test_segments_that_were_compacted_become_one_when_their_day_is_over(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 31)
    now = time.time()
    for path in sorted(journal.glob("*.parquet"))[:-1]:
        compacted(path, 10)
    for path in journal.glob("*.parquet"):
        os.utime(path, (now - LONG_AGO, now - LONG_AGO))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 2, "--compact")
    assert [path.name for path in sorted(journal.glob("*.parquet"))] == [
        f"segment-recorder-{0:016d}.to-{299:016d}.parquet",
        f"segment-recorder-{300:016d}.parquet",
    ]
    assert offsets(journal) == list(range(310))


def test_days_of_a_journal_stay_apart_and_each_can_be_removed_by_its_age(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 21)
    noon = time.time() // 86_400 * 86_400 + 43_200.0
    for number, path in enumerate(sorted(journal.glob("*.parquet"))):
        written = noon - (10, 2, 1)[number // 10] * 86_400.0
        os.utime(path, (written, written))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 3, "--compact")
    assert offsets(journal) == list(range(210))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 2, "--compact", "--keep-days", "2")
    assert offsets(journal) == list(range(100, 210))


def test_a_damaged_segment_does_not_stop_the_compaction_of_others(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 9)
    paths, now = sorted(journal.glob("*.parquet")), time.time()
    paths[4].write_bytes(paths[4].read_bytes()[:-100])
    for path in paths:
        os.utime(path, (now - LONG_AGO, now - LONG_AGO))
    recorded(journal, lambda: len(list(journal.glob("*.parquet"))) == 4, "--compact")
    assert [path.name.partition(".to-")[0] for path in sorted(journal.glob("*.parquet"))] == [
        f"segment-recorder-{0:016d}",
        f"segment-recorder-{40:016d}.parquet",
        f"segment-recorder-{50:016d}",
        f"segment-recorder-{80:016d}.parquet",
    ]


def of_form(journal: Path, form: bytes) -> Path:
    """The journal with a newest segment that says of itself that it has another form."""
    path = max(journal.glob("*.parquet"))
    table = pq.read_table(path)
    assert table.schema.metadata == {b"pzc.journal": b"1"}
    pq.write_table(table.replace_schema_metadata({"pzc.journal": form}), path)
    return path


@pytest.mark.parametrize("form", [b"2", b"0", b"one"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "nobody*", "--journal", "{journal}"),
        ("replay", "{journal}", "--speed", "max"),
        ("pipeline", "run", "{journal}", "{tables}", "--once"),
        ("pipeline", "backfill", "{journal}", "{tables}", "--from", "2026-01-01", "--to", "2026-01-01"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_journal_of_another_form_is_refused_by_every_command(
    tmp_path: Path, arguments: tuple[str, ...], form: bytes
) -> None:
    path = of_form(a_journal(tmp_path / "journal", 2), form)
    places = {"journal": tmp_path / "journal", "tables": tmp_path / "tables"}
    outcome = command(*(text.format(**places) for text in arguments), environment=ALONE)
    assert (outcome.status, outcome.out) == (1, "")
    assert f"{path} has form " in outcome.err
    assert form.decode() in outcome.err
    assert "use the version that wrote it" in outcome.err


def test_tables_of_version_0_1_are_refused_with_what_to_do(tmp_path: Path) -> None:
    journal, tables = a_journal(tmp_path / "journal", 1), tmp_path / "tables"
    tables.mkdir()
    (tables / "pipeline.ledger").write_bytes(b"\x82\xa4form\x01\xa4runs\x80")
    outcome = command("pipeline", "run", str(journal), str(tables), "--once", environment=ALONE)
    assert (outcome.status, outcome.out) == (1, "")
    assert f"{tables} has tables of version 0.1" in outcome.err
    assert "a new folder" in outcome.err


COUNTS = ["epochs", "count", "missing", "late", "duplicates", "values"]
FIGURES = ["rate_hz", "age_min_ms", "age_mean_ms", "age_max_ms", "age_p99_ms", "min", "max", "mean", "std"]


def statistics_of(tables: Path, ages: list[tuple[float, float]]) -> None:
    """Tables of topics that have these mean and p99 ages, and nothing else."""
    moment = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        [(name, pa.string()) for name in ("publisher", "name", "topic")]
        + [(name, pa.int64()) for name in COUNTS]
        + [(name, moment) for name in ("first_sent", "last_sent")]
        + [(name, pa.float64()) for name in FIGURES]
    )
    rows = [
        {
            **dict.fromkeys(COUNTS, 1),
            **dict.fromkeys(FIGURES, 1.5),
            "publisher": "p",
            "name": "psu",
            "topic": f"topic{number}",
            "first_sent": 0,
            "last_sent": 1,
            "age_mean_ms": mean,
            "age_p99_ms": most,
            "age_max_ms": most,
        }
        for number, (mean, most) in enumerate(ages)
    ]
    for name in ("notifications", "statistics"):
        (tables / name).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), tables / "statistics" / "all.parquet")


AGES = {
    "within a decade": [(2000.0, 3000.0), (2500.0, 9000.0)],
    "over many": [(0.02, 3e5)],
    "one point": [(1.5, 1.5)],
    "none that a logarithm shows": [(0.0, 0.0), (-3.0, -1.0)],
    "nothing": [],
}


@pytest.mark.parametrize("ages", AGES.values(), ids=AGES)
@pytest.mark.filterwarnings("error")
@pytest.mark.allow_leaks("matplotlib keeps the fonts that it draws with open")
def test_the_axes_of_a_report_are_plain_numbers(tmp_path: Path, ages: list[tuple[float, float]]) -> None:
    statistics_of(tmp_path / "tables", ages)
    outcome = command("report", str(tmp_path / "tables"), environment=ALONE)
    assert (outcome.status, outcome.err) == (0, "")
    page = Path(outcome.out.strip()).read_text(encoding="utf-8")
    drawn = [
        base64.b64decode(each).decode() for each in re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    ]
    assert len(drawn) == (0 if not ages else 1 if ages == AGES["none that a logarithm shows"] else 2)
    texts = [text for each in drawn for text in re.findall(r"<!-- (.*?) -->", each)]
    assert not [text for text in texts if "$" in text or "\\" in text]
    if ages == AGES["within a decade"]:
        assert {text for text in texts if re.fullmatch(r"[\d.e+]+", text)} & {"2000", "3000", "4000", "6000"}


def test_a_wrong_key_is_said_once_by_a_replay(tmp_path: Path) -> None:
    journal = a_journal(tmp_path / "journal", 30)
    outcome = command(
        "replay", str(journal), "--speed", "max", environment={**ALONE, "PZC_KEY": "0123456789abcdef"}
    )
    assert outcome.status == 1
    lines = outcome.err.splitlines()
    assert lines[-1].endswith("300 rows did not verify or decode")
    assert len(lines) == 2, outcome.err


def test_top_finds_agents_that_nobody_named() -> None:
    with Agent(name="early"):
        outcome = command("top", "--count", "1", "--json", environment={"PZC_PEERS": None})
    assert outcome.status == 0, outcome.err
    assert "early" in [each["name"] for each in outcome.rows]


def test_top_shows_an_agent_that_appears_later() -> None:
    with Agent(name="early"), contextlib.ExitStack() as stack:

        def appear(running: Running) -> None:
            running.line()
            stack.enter_context(Agent(name="late"))
            end = time.monotonic() + TIMEOUT
            while '"name": "late"' not in running.line():
                assert time.monotonic() < end

        outcome = command(
            "top", "--every", "0.1", "--json", environment={"PZC_PEERS": None}, meanwhile=appear
        )
    assert outcome.status == 130, outcome.err


@pytest.mark.parametrize(
    ("job", "option", "instead"),
    [
        ("run", "--window", "select * from windows"),
        ("run", "--lateness=5", "select * from windows"),
        ("run", "--source", "pzc pipeline follow"),
        ("follow", "--max-rows", "--max-files"),
    ],
)
def test_an_option_that_was_removed_is_named_with_what_replaces_it(
    job: str, option: str, instead: str
) -> None:
    outcome = command("pipeline", job, "one", "two", option, "5")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"{option.partition('=')[0]} does not exist any more" in outcome.err
    assert instead in " ".join(outcome.err.split())
