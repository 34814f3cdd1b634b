"""What stored tables tell without a JVM: lines of sections 3 and 5."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Protocol
from pzc.testing import Running, command

pytest.importorskip("duckdb")
pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

TIMEOUT = 20.0
NO_JAVA = {"PZC_DISCOVERY_IP": "off", "PATH": "/nonexistent", "JAVA_HOME": None}
NOTIFICATIONS = [
    "recorder",
    "publisher",
    "name",
    "topic",
    "key",
    "message_id",
    "dialect",
    "key_id",
    "user",
    "value_string",
    "value_json",
]
COUNTS = [
    "offset",
    "epoch",
    "sequence",
    "value_long",
    "count",
    "missing",
    "late",
    "duplicates",
    "values",
    "epochs",
]
FIGURES = [
    "value_double",
    "min",
    "max",
    "mean",
    "std",
    "rate_hz",
    "age_min_ms",
    "age_mean_ms",
    "age_max_ms",
    "age_p99_ms",
]
TIMES = ["received_at", "sent_at", "first_sent", "last_sent"]


def table_of(path: Path, rows: list[dict[str, Any]]) -> None:
    """A Parquet file with columns of the tables, those that the rows have."""
    kinds = {
        **dict.fromkeys(NOTIFICATIONS, pa.string()),
        **dict.fromkeys(COUNTS, pa.int64()),
        **dict.fromkeys(FIGURES, pa.float64()),
        **dict.fromkeys(TIMES, pa.timestamp("us", tz="UTC")),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([(name, kinds[name]) for name in rows[0]])), path)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A minute of one topic: ten values, one a second from zero to nine."""
    folder = tmp_path / "tables"
    second = 1_000_000
    start = 1_767_225_600 * second  # of 2026
    rows = [
        {
            **dict.fromkeys(NOTIFICATIONS),
            "recorder": "r",
            "publisher": "p",
            "name": "psu",
            "topic": "voltage",
            "message_id": str(number),
            "offset": number,
            "epoch": 1,
            "sequence": number + 1,
            "value_long": None,
            "value_double": float(number),
            "received_at": start + number * second,
            "sent_at": start + number * second,
        }
        for number in range(10)
    ]
    table_of(folder / "notifications" / "date=2026-01-01" / "agent=psu" / "0.parquet", rows)
    counted = {
        "publisher": "p",
        "name": "psu",
        "topic": "voltage",
        "epochs": 1,
        "count": 10,
        "missing": 0,
        "late": 0,
        "duplicates": 0,
        "first_sent": start,
        "last_sent": start + 9 * second,
        **dict.fromkeys(FIGURES[5:], 1.0),
        "values": 10,
        "min": 0.0,
        "max": 9.0,
        "mean": 4.5,
        "std": 2.87,
    }
    table_of(folder / "statistics" / "all.parquet", [counted])
    return folder


def asked(tables: Path, query: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which has no session that another test began."""
    environment = {**os.environ, "PZC_DISCOVERY_IP": "off", "PATH": "/nonexistent"}
    environment.pop("JAVA_HOME", None)
    arguments = [sys.executable, "-m", "pzc", "sql", query, "--tables", str(tables), "--json"]
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def test_sql_is_answered_without_java(tables: Path) -> None:
    began = time.monotonic()
    outcome = asked(tables, "select topic, sum(value_double) as total from notifications group by topic")
    assert time.monotonic() - began < 10.0  # two seconds and what a busy machine adds; a JVM takes longer
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert [json.loads(line) for line in outcome.stdout.splitlines()] == [{"topic": "voltage", "total": 45.0}]


def test_a_wrong_column_is_one_line_with_the_nearest_names(tables: Path) -> None:
    outcome = asked(tables, "select value_duoble from notifications")
    assert outcome.returncode != 0
    assert outcome.stdout == ""
    (line,) = outcome.stderr.strip().splitlines()
    assert "value_duoble" in line
    assert "value_double" in line


@pytest.mark.allow_leaks("matplotlib keeps the fonts that it draws with open")
def test_a_report_shows_the_values_of_a_topic_over_time(tables: Path) -> None:
    outcome = command("report", str(tables), environment=NO_JAVA)
    assert outcome.status == 0, outcome.err
    page = Path(outcome.out.strip()).read_text(encoding="utf-8")
    drawn = [
        base64.b64decode(each).decode() for each in re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    ]
    clock = re.compile(r"<!-- .*\d\d:\d\d.* -->")
    assert [each for each in drawn if clock.search(each) and "voltage" in each]


def test_a_driver_that_publishes_nothing_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain.py").write_text("class Meter:\n    voltage = 1.5\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    environment = {"PZC_DISCOVERY_IP": "off", "PZC_KEY": None}
    heard: list[object] = []

    def listen(running: Running) -> None:
        while not running.out:
            if running.wait(0.05):
                return
        endpoint = json.loads(running.line())["rep_endpoint"]
        done = threading.Event()
        with Agent(discovery=False, protocol=Protocol("")) as reader:
            reader.subscribe(endpoint, "voltage", lambda each: (heard.append(each.content), done.set()))
            done.wait(TIMEOUT)

    served = command("serve", "plain:Meter", "--poll", "voltage=0.1s", "--json", cwd=tmp_path,
                     environment=environment, meanwhile=listen)  # fmt: skip
    assert served.status in (0, 130), served.err
    assert heard[0] == 1.5
