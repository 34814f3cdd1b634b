"""Spark as what runs tasks: one row for each of them, and the function in ``mapInArrow``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol import limits
from ...protocol.errors import JournalError
from ..arrow import pa
from ..schema import ddl, stored
from ..snapshot import Tables
from ..tables.summary import Report, decode, encode
from ..tables.work import Inline, TaskT, WorkerDied
from .session import MOMENT, ended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALONE = 20_000
"""Rows that this process works on by itself sooner than Spark has begun."""

_REPORTED = "report BINARY"
_DEATH = re.compile(r"Python worker exited unexpectedly|ExecutorLostFailure|Python worker failed")
_CAUSE = re.compile(r"pzc\.\S*?(\w+): (.+)")


class SparkWorkers:
    """Runs tasks on the workers of a session, which is asked for when there is enough to do.

    Args:
        session: gives the session; called once.
        alone: rows up to which this process works by itself; 0 for none.
    """

    def __init__(self, session: Callable[[], SparkSession], alone: int = ALONE) -> None:
        self._session, self._alone = session, alone
        self._spark: SparkSession | None = None

    def is_here(self, rows: int) -> bool:
        """Whether so many rows are done without Spark."""
        return rows <= self._alone

    def count(self, rows: int) -> int:
        """One task per core of the workers."""
        return 1 if self.is_here(rows) else self.open().sparkContext.defaultParallelism

    def run(self, function: Callable[[TaskT], Report], tasks: Sequence[TaskT]) -> list[Report]:
        """See `tables.work.Workers`."""
        if self.is_here(sum(task.rows for task in tasks)):
            return Inline().run(function, tasks)
        self.check()
        numbers: Any = self.open().range(0, len(tasks), 1, len(tasks))
        try:
            told = numbers.mapInArrow(_Each(function, tasks), _REPORTED).collect()
        except Exception as exc:  # of Spark, of the way to it, or of the function, as Spark words it
            text = str(exc)
            if _DEATH.search(text) and not _CAUSE.search(text):
                raise WorkerDied(f"a worker has died: {_cause(text)}") from None
            self.check(MOMENT)
            raise JournalError(f"the pipeline has ended: {_cause(text)}") from None
        if len(told) < len(tasks):  # to the reader of a stream its end by a kill is an end like any other
            self.check(MOMENT)
            raise JournalError(f"the pipeline has ended: {len(told)} of {len(tasks)} tasks have reported")
        return [decode(row[0]) for row in told]

    def check(self, within: float = 0.0) -> None:
        """Find out that Spark has died: an idle run would not, until there is something to do for it.

        Args:
            within: seconds for it to end.

        Raises:
            JournalError: when it has.
        """
        status = None if self._spark is None else ended(self._spark, within)
        if status is not None:
            raise JournalError(f"the pipeline has ended: Spark's Java process is gone (status {status})")

    def open(self) -> SparkSession:
        """The session, which is asked for when this is called first."""
        if self._spark is None:
            self._spark = self._session()
        return self._spark


class _Each:
    """Callable for ``mapInArrow``: rows with numbers of tasks to rows with their reports."""

    def __init__(self, function: Callable[[Any], Report], tasks: Sequence[Any]) -> None:
        self._function, self._tasks, self._limits = function, tuple(tasks), limits.current

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        limits.use(self._limits)
        for batch in batches:
            told = [encode(self._function(self._tasks[number])) for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"report": pa.array(told, pa.binary())})


def read_table(spark: SparkSession, tables: Tables, name: str) -> DataFrame:
    """A table of a snapshot."""
    files, schema = tables.files(name), ddl(stored(name))
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", str(tables.directory / name))
    return reader.parquet(*(_literal(path) for path in files))


def _literal(path: str) -> str:
    """The path with nothing left in it that Hadoop would take for a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _cause(text: str) -> str:
    """What Spark says of a failure; behind its own words an error of this package, when it is one."""
    found = _CAUSE.findall(text)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return ": ".join(found[-1]) if found else lines[0] if lines else "Spark does not answer"
