"""The demo's Spark job: verify, decode, count, check, report."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from pzc import ProtocolError
from pzc.pipeline.alarm_rules import AlarmRules, read_limits
from pzc.pipeline.decoding.decode import Decoder, make_decoder
from pzc.pipeline.reporting.report import Check, Results, write_report
from pzc.pipeline.schema import FRAMES
from pzc.pipeline.spark import jobs
from pzc.pipeline.spark.session import spark_session

from .camera import Camera
from .co2 import Co2Analyser

LIMITS = Path(__file__).with_name("limits.toml")
MEAN_TOLERANCE = 1e-9
HOST_UNITS = {
    "cpu_percent": "cpu [%]",
    "memory_percent": "memory [%]",
    "disk_write_bytes_per_s": "disk writes [B/s]",
    "net_sent_bytes_per_s": "network sent [B/s]",
}


@functools.cache
def camera() -> Camera:
    """The reference camera; one per Spark worker."""
    return Camera()


def check_content(topic: str, content: Any) -> str | None:
    """Why a content is wrong, or None; every pixel of a camera frame is compared."""
    if topic != "frame":
        return None
    wrong = camera().check_frame(content["index"], content["image"])
    return f"frame {content['index']} has {wrong} wrong pixels" if wrong else None


def expected_means() -> pd.Series:
    """Monthly means by pandas on the record as statsmodels ships it."""
    from statsmodels.datasets import co2

    frame: Any = co2.load_pandas().data
    return frame["co2"].resample("MS").mean().dropna()


def largest_difference(monthly: pd.DataFrame) -> float:
    """Largest absolute difference between Spark's means and pandas', in ppm; inf for other months."""
    found = monthly.dropna(subset=["mean"]).set_index(
        pd.to_datetime(monthly.dropna(subset=["mean"])["month"])
    )["mean"]
    expected = expected_means()
    if not found.index.equals(expected.index):
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
    tables: jobs.Tables, statistics: pd.DataFrame, told: Mapping[str, Any], rows: int
) -> list[Check]:
    """Checks on the verified rows."""
    verified = tables.decoded.where("error IS NULL").count()
    quarantined = tables.quarantine.count()
    counts = dict(zip(statistics["topic"], statistics["count"], strict=True))
    published = {
        topic: n for station in ("psu", "host", "co2", "camera") for topic, n in told[station].items()
    }
    gaps = int(statistics["missing"].sum())
    checks = [
        equal("signatures verified", rows, verified),
        equal("rows in quarantine", 0, quarantined),
        equal("duplicates", 0, verified - int(statistics["count"].sum())),
        equal("gaps", 0, gaps),
    ]
    return checks + [
        equal(f"{topic}: published and verified", n, int(counts.get(topic, 0)))
        for topic, n in sorted(published.items())
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
        equal("CO2: weeks without a value", missing, int(readings["value"].isna().sum())),
        Check("CO2: monthly means differ from pandas by [ppm]", f"≤ {MEAN_TOLERANCE:g}", difference,
              difference <= MEAN_TOLERANCE),
    ]  # fmt: skip


def camera_frame(recorded: DataFrame, decoder: Decoder) -> np.ndarray | None:
    """The first recorded frame, verified again, for the picture in the report."""
    row = recorded.where("topic = 'frame'").orderBy("sequence").first()
    if row is None:
        return None
    try:
        return decoder.open([bytes(row[name]) for name in FRAMES], row["content_ref"])[1]["image"]
    except ProtocolError:
        return None


def by_time(frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Readings of one topic, indexed by time, with columns renamed for the report."""
    indexed = frame.set_index("sent_at").rename(columns=dict(names))
    return indexed.loc[:, list(names.values())]


def analyse(journal: Path, key: str, told: Mapping[str, Any], directory: Path, say: Any) -> Results:
    """Run the job and write the report; the result says whether every check held.

    Args:
        journal: what the recorder wrote.
        key: ``PZC_KEY`` of the lab.
        told: result files of the stations and of the client, by name.
        directory: of the report.
        say: called with a line of progress.
    """
    began = time.monotonic()
    say("spark: starting local[*]")
    spark = spark_session("pzc demo")
    try:
        spark.sparkContext.setLogLevel("ERROR")
        decoder = make_decoder(key, journal=journal, check=check_content)
        recorded = jobs.read_journal(spark, journal)
        rows = recorded.count()
        say(f"spark: verifying and decoding {rows} rows")
        tables = jobs.build_tables(recorded, decoder, first_sequence=1, rules=AlarmRules(read_limits(LIMITS)))
        statistics = tables.statistics.orderBy("name", "topic").toPandas()
        say("spark: counting, checking, averaging")
        readings = jobs.dated_readings(tables.notifications).toPandas()
        monthly = jobs.monthly_means(tables.notifications).toPandas()
        host = jobs.readings(tables.notifications, "host", {name: name for name in HOST_UNITS}).toPandas()
        supply = jobs.readings(tables.notifications, "voltage_changed", {"voltage": 0}).toPandas()
        alarms = tables.alarms.orderBy("received_at").toPandas()
        checks = [
            *lab_checks(told),
            *table_checks(tables, statistics, told, rows),
            *alarm_checks(alarms, told),
            *co2_checks(readings, monthly),
        ]
        results = Results(
            checks=checks,
            statistics=statistics,
            co2=readings.rename(columns={"time": "date", "value": "co2"}),
            monthly=monthly,
            host=by_time(host, HOST_UNITS),
            supply=by_time(supply, {"voltage": "voltage [V]"}),
            camera=camera_frame(recorded, decoder),
            gaps=tables.gaps.toPandas(),
            alarms=alarms,
            quarantine=tables.quarantine.select("name", "topic", "error", "reason").limit(100).toPandas(),
            facts={
                "machine": f"{platform.node()}, {platform.system()} {platform.machine()}",
                "Python": platform.python_version(),
                "Spark": spark.version,
                "lag": f"recorded at most {statistics['age_max_ms'].max():.0f} ms after it was sent",
                "rows": f"{rows}, verified and reported in {time.monotonic() - began:.1f} s",
            },
        )
        say("spark: writing tables and report")
        jobs.write_tables(tables, directory / "tables")
        tables.release()
        write_report(directory, results, title="A lab in one command")
        return results
    finally:
        spark.stop()
