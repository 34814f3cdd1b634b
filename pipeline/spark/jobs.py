"""Spark jobs: DataFrames in, DataFrames out.

::

    read_journal → verify_and_decode ─┬→ notifications → deduplicate ─┬→ gaps
                                      └→ quarantine                   ├→ topic_statistics
                                                                      └→ monthly_means
    build_tables runs all of it once; write_tables stores the result, and may be run again.

Everything is counted after deduplication. A notification that failed verification stands in
quarantine and counts as missing.
"""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ...protocol.errors import JournalError
from .. import missing
from ..alarm_rules import AlarmRules
from ..decoding.decode import Decoder
from ..forms import check_journal
from ..schema import ALARMS, DECODED, JOURNAL, NOTIFICATIONS, QUARANTINE, STATISTICS, ddl, segments, stored

try:
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import Column, DataFrame, SparkSession, Window
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

IDENTITY = ("publisher", "epoch", "topic", "sequence")
"""Two rows that agree in these are one notification (for PZC00, the message id instead)."""

_PARTITIONS = ("date", "agent")


@dataclass(frozen=True)
class Tables:
    """The result of one pass over a journal, kept in memory or on disk until `release`.

    Attributes:
        decoded: every journal row, verified or not (`schema.DECODED`).
        notifications: verified and deduplicated (`schema.NOTIFICATIONS`).
        quarantine: what failed and why (`schema.QUARANTINE`).
        alarms: violations of limits (`schema.ALARMS`).
        gaps: missing sequence numbers (`schema.GAPS`).
        statistics: one row per publisher and topic (`schema.STATISTICS`).
    """

    decoded: DataFrame
    notifications: DataFrame
    quarantine: DataFrame
    alarms: DataFrame
    gaps: DataFrame
    statistics: DataFrame

    def release(self) -> None:
        """Free the memory; the tables can still be used, at the price of computing them again."""
        self.notifications.unpersist()
        self.decoded.unpersist()


def read_journal(spark: SparkSession, directory: str | Path) -> DataFrame:
    """All finished segments of a journal (`schema.JOURNAL`); no rows when there are none yet.

    Args:
        spark: the session.
        directory: a path that every worker reaches.

    Raises:
        JournalError: when the directory does not exist, or the journal is of a newer form.
    """
    check_journal(directory)
    return read_segments(spark, [path for _, path in segments(Path(directory).absolute())])


def read_segments(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Some finished segments of a journal, as `read_journal`."""
    if not paths:
        return spark.createDataFrame([], ddl(JOURNAL))
    return spark.read.schema(ddl(JOURNAL)).parquet(*map(literal, paths))


def of_days(journal: DataFrame, days: Iterable[datetime.date]) -> DataFrame:
    """The journal rows that were received on some days (UTC)."""
    wanted = sorted(days)
    if not wanted:
        return journal.limit(0)
    # The range lets Spark skip segments by their statistics, which it cannot do for the days.
    end = wanted[-1] + datetime.timedelta(1)
    time = fn.col("received_at")
    within = journal.where((time >= fn.lit(wanted[0])) & (time < fn.lit(end)))
    return within.where(fn.to_date(time).isin(wanted))


def verify_and_decode(journal: DataFrame, decoder: Decoder) -> DataFrame:
    """Every journal row as a row of `schema.DECODED`; ``error`` is null for the good ones.

    Works on streaming DataFrames as well.
    """
    return journal.select(*JOURNAL.names).mapInArrow(decoder, ddl(DECODED))


def notifications(decoded: DataFrame) -> DataFrame:
    """The rows that verified and decoded, duplicates included."""
    return decoded.where(fn.col("error").isNull()).select(*NOTIFICATIONS.names)


def quarantine(decoded: DataFrame) -> DataFrame:
    """The rows that did not, with the reason and the frames as recorded."""
    return decoded.where(fn.col("error").isNotNull()).select(*QUARANTINE.names)


def deduplicate(rows: DataFrame) -> DataFrame:
    """One row per notification: the one received first, so that every run keeps the same one."""
    anonymous = fn.when(fn.col("sequence").isNull(), fn.col("message_id"))
    copies = Window.partitionBy(*IDENTITY, anonymous).orderBy("received_at", "recorder", "offset")
    return rows.withColumn("_copy", fn.row_number().over(copies)).where("_copy = 1").drop("_copy")


def gaps(rows: DataFrame, first_sequence: int | None = None) -> DataFrame:
    """IntervalSet of missing sequence numbers, per publisher, epoch and topic (`schema.GAPS`).

    A restarted publisher is a new epoch that counts from its own beginning, so a restart by
    itself is no gap. Rows without sequence (PZC00) are left out.

    Args:
        rows: deduplicated notifications.
        first_sequence: number of each epoch's first notification; when given, what is missing
            before the first recorded one is a gap too. Default: recording may start late.
    """
    in_order = Window.partitionBy("publisher", "epoch", "topic").orderBy("sequence")
    before = fn.lag("sequence", 1, None if first_sequence is None else first_sequence - 1).over(in_order)
    found = rows.where(fn.col("sequence").isNotNull()).withColumn("_before", before)
    return found.where(fn.col("sequence") - fn.col("_before") > 1).select(
        "publisher",
        "name",
        "topic",
        "epoch",
        (fn.col("_before") + 1).alias("first_missing"),
        (fn.col("sequence") - 1).alias("last_missing"),
        (fn.col("sequence") - fn.col("_before") - 1).alias("count"),
    )


def topic_statistics(rows: DataFrame, gap_rows: DataFrame | None = None) -> DataFrame:
    """Counts, rate, ages and values per publisher and topic (`schema.STATISTICS`).

    Args:
        rows: deduplicated notifications.
        gap_rows: their `gaps`; worked out when not given.
    """
    value = fn.coalesce("value_double", fn.col("value_long").cast("double"))
    age = (fn.unix_micros("received_at") - fn.unix_micros("sent_at")) / 1000
    # NaN is a reading that failed, not a number; one of them would make every mean NaN.
    measured = rows.withColumn("_value", fn.when(~fn.isnan(value), value)).withColumn("_age", age)
    span = (fn.unix_micros(fn.max("sent_at")) - fn.unix_micros(fn.min("sent_at"))) / 1_000_000
    counted = measured.groupBy("publisher", "topic").agg(
        fn.max("name").alias("name"),
        fn.count_distinct("epoch").alias("epochs"),
        fn.count("*").alias("count"),
        fn.min("sent_at").alias("first_sent"),
        fn.max("sent_at").alias("last_sent"),
        fn.try_divide(fn.count("sent_at") - 1, span).alias("rate_hz"),
        fn.min("_age").alias("age_min_ms"),
        fn.avg("_age").alias("age_mean_ms"),
        fn.max("_age").alias("age_max_ms"),
        fn.percentile("_age", 0.99).alias("age_p99_ms"),
        fn.count("_value").alias("values"),
        fn.min("_value").alias("min"),
        fn.max("_value").alias("max"),
        fn.avg("_value").alias("mean"),
        fn.stddev_pop("_value").alias("std"),
    )
    absent = gap_rows if gap_rows is not None else gaps(rows)
    lost = absent.groupBy("publisher", "topic").agg(fn.sum("count").alias("_lost"))
    joined = counted.join(lost, ["publisher", "topic"], "left")
    for name in ("late", "duplicates"):
        joined = joined.withColumn(name, fn.lit(None).cast("bigint"))
    return joined.withColumn("missing", fn.coalesce("_lost", fn.lit(0).cast("bigint"))).select(
        *STATISTICS.names
    )


def readings(rows: DataFrame, topic: str, fields: Mapping[str, str | int]) -> DataFrame:
    """Numbers out of a topic's contents, in order of sending.

    Args:
        rows: deduplicated notifications.
        topic: the topic to read.
        fields: new column name to the key of a dictionary or the position in a tuple, for example
            ``{"voltage": 0}`` for a signal, whose content is ``(value, old value, other)``.

    Returns:
        ``publisher``, ``sent_at``, and one DOUBLE column per field, null where there is no number.
    """
    columns = [_number(key).alias(name) for name, key in fields.items()]
    found = rows.where(fn.col("topic") == topic)
    return found.orderBy("epoch", "sequence").select("publisher", "sent_at", *columns)


def dated_readings(
    rows: DataFrame, *, topic: str = "co2", time: str = "date", value: str = "ppm"
) -> DataFrame:
    """Readings that carry a date of their own, from contents like ``{"date": …, "ppm": …}``.

    Args:
        rows: deduplicated notifications.
        topic: the topic to read.
        time: key of the ISO date or time (UTC unless it says otherwise).
        value: key of the number.

    Returns:
        ``time`` (TIMESTAMP) and ``value`` (DOUBLE; null for None, NaN kept), in order of time;
        without the contents that have no date.
    """
    date = fn.from_json("value_json", f"{_quoted(time)} STRING").getField(time)
    read = rows.where(fn.col("topic") == topic).select(
        fn.try_to_timestamp(date).alias("time"), _number(value).alias("value")
    )
    return read.where(fn.col("time").isNotNull()).orderBy("time")


def monthly_means(
    rows: DataFrame, *, topic: str = "co2", time: str = "date", value: str = "ppm"
) -> DataFrame:
    """Mean per calendar month (UTC) of dated readings, as ``resample("MS").mean()`` of pandas.

    None and NaN are not counted. A month that has nothing else has the mean null; a month without
    rows is absent.

    Args:
        rows: deduplicated notifications.
        topic: as in `dated_readings`.
        time: as in `dated_readings`.
        value: as in `dated_readings`.

    Returns:
        ``month`` (DATE, its first day), ``mean`` (DOUBLE) and ``values`` (BIGINT, how many numbers
        it is the mean of), in order of time.
    """
    read = dated_readings(rows, topic=topic, time=time, value=value)
    number = fn.when(~fn.isnan("value"), fn.col("value"))
    return (
        read.groupBy(fn.trunc("time", "month").alias("month"))
        .agg(fn.avg(number).alias("mean"), fn.count(number).alias("values"))
        .orderBy("month")
    )


def build_tables(
    journal: DataFrame,
    decoder: Decoder,
    *,
    first_sequence: int | None = None,
    rules: AlarmRules | None = None,
) -> Tables:
    """Verify, decode, deduplicate and count; signatures are checked once, results are kept.

    Args:
        journal: rows of `read_journal`, all or a range of them.
        decoder: of `decode.make_decoder`.
        first_sequence: as in `gaps`.
        rules: whose violations are alarms.

    Raises:
        ConfigError: for a limit that cannot be judged.
    """
    decoded = verify_and_decode(journal, decoder).persist(StorageLevel.MEMORY_AND_DISK)
    good = deduplicate(notifications(decoded)).persist(StorageLevel.MEMORY_AND_DISK)
    absent = gaps(good, first_sequence)
    alarms = good.mapInArrow(_Judge(rules or AlarmRules()), ddl(ALARMS))
    return Tables(decoded, good, quarantine(decoded), alarms, absent, topic_statistics(good, absent))


class _Judge:
    def __init__(self, rules: AlarmRules) -> None:
        self._rules = rules

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self._rules.judge(pa.Table.from_batches([batch]).cast(NOTIFICATIONS)).to_batches()


def write_tables(tables: Tables, directory: str | Path) -> None:
    """Store all tables as Parquet under ``directory``; running it again changes nothing.

    As `store_days` and `store_counts`; ``gaps`` and ``statistics`` describe this input only.
    """
    store_days(tables, directory)
    store_counts(tables.gaps, tables.statistics, directory)


def store_days(tables: Tables, directory: str | Path) -> set[datetime.date]:
    """Store ``notifications``, ``quarantine`` and ``alarms``, and give the days that were replaced.

    They are partitioned by ``date`` (UTC day of receipt), then ``agent`` (name, else publisher). Each
    day that the journal rows cover is replaced as a whole, other days stay: give whole days.
    """
    root = Path(directory).absolute()
    days = {row[0] for row in tables.decoded.select(fn.to_date("received_at")).distinct().collect()}
    parts = {"notifications": tables.notifications, "quarantine": tables.quarantine, "alarms": tables.alarms}
    for name, rows in parts.items():
        _replace_days(rows, root / name, set(map(str, days)))
    return days


def store_counts(gap_rows: DataFrame, statistics: DataFrame, directory: str | Path) -> None:
    """Store ``gaps`` and ``statistics`` in place of those before."""
    root = Path(directory).absolute()
    for name, rows in (("gaps", gap_rows), ("statistics", statistics)):
        rows.coalesce(1).sortWithinPartitions("publisher", "topic").write.mode("overwrite").parquet(
            str(root / name)
        )


def read_table(spark: SparkSession, directory: str | Path, name: str) -> DataFrame:
    """A table that `write_tables` stored, with its schema whatever the partitions look like.

    Raises:
        JournalError: when it was not written yet.
    """
    path = Path(directory).absolute() / name
    if not path.is_dir():
        raise JournalError(f"no table {name} in {directory}")
    return spark.read.schema(ddl(stored(name))).parquet(literal(path))


def _replace_days(rows: DataFrame, path: Path, days: set[str]) -> None:
    agent = fn.coalesce(_filled("name"), _filled("publisher"), fn.lit("unknown"))
    dated = rows.withColumn("date", fn.to_date("received_at")).withColumn("agent", agent)
    in_order = dated.repartition(*_PARTITIONS).sortWithinPartitions(
        *_PARTITIONS, "topic", "epoch", "sequence"
    )
    writer = in_order.write.partitionBy(*_PARTITIONS).mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").parquet(str(path))
    fresh = {(str(date), agent) for date, agent in dated.select(*_PARTITIONS).distinct().collect()}
    for folder in path.glob("date=*/agent=*"):
        date, agent = (unquote(part.partition("=")[2]) for part in folder.parts[-2:])
        if date in days and (date, agent) not in fresh:
            shutil.rmtree(folder)


def _filled(name: str) -> Column:
    return fn.nullif(fn.col(name), fn.lit(""))


def _number(key: str | int) -> Column:
    if isinstance(key, int):
        return fn.get(fn.from_json("value_json", "ARRAY<STRING>"), key).try_cast("double")
    return fn.from_json("value_json", f"{_quoted(key)} DOUBLE").getField(key)


def literal(path: Path) -> str:
    """The path with nothing left in it that Hadoop would take for a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
