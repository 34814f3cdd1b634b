"""What the demo makes of its recording: tables by the pipeline of all, questions in SQL, checks, a report."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import pzc
from pzc import Keyring, ProtocolError
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.reporting.report import Check, Results, stored_results, write_report
from pzc.pipeline.schema import FRAMES as FRAME_COLUMNS
from pzc.pipeline.schema import segments
from pzc.pipeline.snapshot import Tables

from .camera import Camera
from .co2 import Co2Analyser
from .pictures import instruments, linked

LIMITS = Path(__file__).with_name("limits.toml")
MEAN_TOLERANCE = 1e-9
ROOT = Path(__file__).resolve().parents[2]
PICTURES = {
    "monitor.png": "pzc monitor: a lab in a browser, while it runs.",
    "top.png": "pzc top: the same in a terminal.",
}
COUNTED = ("rows", "notifications", "duplicates", "quarantined")

READINGS = """
    SELECT CAST(value_json->>'$[0].date' AS TIMESTAMP) AS date, CAST(value_json->>'$[0].ppm' AS DOUBLE) AS co2
    FROM notifications WHERE topic = 'co2' ORDER BY date"""

MONTHLY = f"""
    SELECT date_trunc('month', date) AS month, avg(co2) AS mean FROM ({READINGS})
    GROUP BY month HAVING mean IS NOT NULL ORDER BY month"""

HOST = """
    SELECT sent_at,
        CAST(value_json->>'$[0].cpu_percent' AS DOUBLE) AS "cpu [%]",
        CAST(value_json->>'$[0].memory_percent' AS DOUBLE) AS "memory [%]",
        CAST(value_json->>'$[0].disk_write_bytes_per_s' AS DOUBLE) AS "disk writes [B/s]",
        CAST(value_json->>'$[0].net_sent_bytes_per_s' AS DOUBLE) AS "network sent [B/s]"
    FROM notifications WHERE topic = 'host' ORDER BY epoch, sequence"""

SUPPLY = """
    SELECT sent_at, CAST(value_json->>'$[0]' AS DOUBLE) AS "voltage [V]"
    FROM notifications WHERE topic = 'voltage_changed' ORDER BY epoch, sequence"""

FRAMES = """
    SELECT CAST(value_json->>'$[0]' AS BIGINT) AS index, digest
    FROM notifications WHERE topic = 'frame' ORDER BY index"""


def expected_means() -> pd.Series:
    """Monthly means by pandas on the record as statsmodels ships it."""
    from statsmodels.datasets import co2

    frame: Any = co2.load_pandas().data
    return frame["co2"].resample("MS").mean().dropna()


def largest_difference(monthly: pd.DataFrame) -> float:
    """Largest absolute difference between SQL's means and pandas', in ppm; inf for other months."""
    found = monthly["mean"]
    expected = expected_means()
    if [*monthly["month"]] != [*expected.index]:
        return float("inf")
    return float(np.max(np.abs(found.to_numpy() - expected.to_numpy())))


def lab_checks(told: Mapping[str, Any]) -> list[Check]:
    """Checks on what client and recorder say of themselves."""
    client, recorder = told["client"], told["recorder"]
    ramp, error = client["ramp"], client["range_error"]
    return [
        Check("supply reads back what was set [V]", ramp["set"], ramp["read"], ramp["set"] == ramp["read"]),
        Check("supply is back at zero [V]", 0.0, ramp["down"], ramp["down"] == 0.0),
        Check(
            "a remote range error is caught as itself",
            "RangeError",
            error["error"],
            error["error"] == "RangeError",
        ),
        Check("with its remote traceback", True, error["traceback"], error["traceback"]),
        equal("notifications lost by the client", 0, sum(client["dropped"].values())),
        equal(
            "notifications lost by the recorder",
            0,
            recorder["lost_on_the_way"] + recorder["refused_by_journal"],
        ),
        equal("everything recorded is durable", recorder["recorded"], recorder["durable"]),
    ]


def equal(name: str, expected: object, got: object) -> Check:
    """A check that two things are equal."""
    return Check(name, expected, got, expected == got)


def table_checks(
    statistics: pd.DataFrame, told: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]
) -> list[Check]:
    """Checks on the verified rows."""
    counts = dict(zip(statistics["topic"], statistics["count"], strict=True))
    total = {name: sum(batch[name] for batch in batches) for name in COUNTED}
    checks = [
        equal("signatures verified", total["rows"], total["notifications"] + total["duplicates"]),
        equal("rows in quarantine", 0, total["quarantined"]),
        equal("duplicates", 0, total["duplicates"]),
        equal("gaps", 0, int(statistics["missing"].sum())),
    ]
    return checks + [
        equal(f"{topic}: published and verified", n, int(counts.get(topic, 0)))
        for topic, n in sorted(told["client"]["published"].items())
    ]


def alarm_checks(alarms: pd.DataFrame, told: Mapping[str, Any]) -> list[Check]:
    """The ramp went over the limit: one alarm for each voltage above it that the client was told of."""
    over = told["client"]["over_limit"]
    highest = float(alarms["value"].max()) if len(alarms) else None
    return [
        Check("alarms: the ramp goes over the limit", "> 0", over, over > 0),
        equal("alarms: one for each voltage over it", over, len(alarms)),
        equal("alarms: the highest voltage [V]", told["client"]["ramp"]["set"], highest),
    ]


def co2_checks(readings: pd.DataFrame, monthly: pd.DataFrame) -> list[Check]:
    """Checks on the analyser's record."""
    record = Co2Analyser().record()
    missing = sum(ppm is None for _, ppm in record)
    difference = largest_difference(monthly)
    return [
        equal("CO2: weeks", len(record), len(readings)),
        equal("CO2: weeks without a value", missing, int(readings["co2"].isna().sum())),
        Check("CO2: monthly means differ from pandas by [ppm]", f"≤ {MEAN_TOLERANCE:g}", difference,
              difference <= MEAN_TOLERANCE),
    ]  # fmt: skip


def camera_checks(tables: Tables) -> list[Check]:
    """Every pixel of every frame is what the formula says: the tables have a digest of all of them."""
    camera = Camera()
    wrong = [
        str(index)
        for index, digest in tables.sql(FRAMES).to_pandas().itertuples(index=False)
        if hashlib.sha256(camera.frame(index).tobytes()).hexdigest() != digest
    ]
    return [equal("camera: frames with wrong pixels", "none", ", ".join(wrong) or "none")]


def camera_frame(journal: Path, keyring: Keyring) -> np.ndarray | None:
    """The first recorded frame, verified again, for the picture in the report."""
    decoder = make_decoder(keyring, journal=journal)
    for _, path in segments(journal):
        for row in pq.read_table(path, filters=[("topic", "=", "frame")]).slice(0, 1).to_pylist():
            try:
                return decoder.open([row[name] for name in FRAME_COLUMNS], row["content_ref"])[1][1]
            except ProtocolError:
                return None
    return None


def make_tables(journal: Path, directory: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Let the pipeline make tables of all that was recorded; what it says of its batches.

    Raises:
        CalledProcessError: when it fails; it has told why.
    """
    command = [sys.executable, "-m", "pzc", "pipeline", "run", str(journal), str(directory)]
    options = ["--once", "--json", "--limits", str(LIMITS)]
    done = subprocess.run(
        [*command, *options], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def pictures(directory: Path) -> dict[str, str]:
    """Put pictures of the monitor beside the report; what they show, by file."""
    for name in PICTURES:
        shutil.copyfile(ROOT / "docs" / name, directory / name)
    return PICTURES


def analyse(
    told: Mapping[str, Any], directory: Path, environment: Mapping[str, str], say: Callable[[str], object]
) -> Results:
    """Make tables, ask them, and write the report; the result says whether every check held.

    Args:
        told: what the client and the recorder say.
        directory: of the report, and of the journal.
        environment: of the lab's processes.
        say: called with a line of progress.

    Raises:
        CalledProcessError: when the pipeline fails.
    """
    began, journal = time.monotonic(), directory / "journal"
    say("pipeline: verifying, decoding and counting what was recorded")
    batches = make_tables(journal, directory / "tables", environment)
    say("asking the tables")
    tables = pzc.tables(directory / "tables")
    stored = stored_results(directory / "tables")
    readings, monthly, host, supply = (
        tables.sql(query).to_pandas() for query in (READINGS, MONTHLY, HOST, SUPPLY)
    )
    statistics, alarms = stored.statistics, stored.alarms
    assert statistics is not None
    assert alarms is not None
    rows = sum(batch["rows"] for batch in batches)
    results = replace(
        stored,
        checks=[
            *lab_checks(told),
            *table_checks(statistics, told, batches),
            *alarm_checks(alarms, told),
            *co2_checks(readings, monthly),
            *camera_checks(tables),
        ],
        sections=[
            ("While it runs", linked(pictures(directory))),
            *instruments(
                readings,
                monthly,
                host.set_index("sent_at"),
                supply.set_index("sent_at"),
                camera_frame(journal, Keyring.load(environment["PZC_KEYRING"])),
            ),
        ],
        facts={
            "machine": f"{platform.node()}, {platform.system()} {platform.machine()}",
            "Python": platform.python_version(),
            "lag": f"recorded at most {statistics['age_max_ms'].max():.0f} ms after it was sent",
            "rows": f"{rows}, verified and reported in {time.monotonic() - began:.1f} s",
        },
    )
    say("writing the report")
    write_report(directory, results, title="A lab in one command")
    return results
