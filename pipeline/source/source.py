"""PzcDataSource: ``spark.readStream.format("pzc")``, and what a program needs around it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import missing
from ..schema import DECODED, JOURNAL, ddl
from .options import read_options
from .readers import BatchReader, StreamReader

try:
    from pyspark import SparkFiles
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType
except ImportError as exc:
    raise missing("pyspark") from exc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PzcDataSource(DataSource):
    """Notifications of agents as rows; options are told in docs/source.md.

    Rows are those of a journal (`schema.JOURNAL`), to be verified and decoded by what follows; with the
    option ``decode`` they are verified and decoded in the reading tasks (`schema.DECODED`).
    """

    @classmethod
    def name(cls) -> str:
        """``pzc``."""
        return "pzc"

    def schema(self) -> str:
        """As the options want it.

        Raises:
            ConfigError: for options that cannot be used.
        """
        return ddl(DECODED if read_options(self.options, streaming=False).decode else JOURNAL)

    def reader(self, schema: StructType) -> BatchReader:
        """For ``spark.read``; errors as `schema`."""
        del schema
        return BatchReader(read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """For ``spark.readStream``; errors as `schema`, also for a query without a name."""
        del schema
        return StreamReader(read_options(self.options, streaming=True))


def register(spark: SparkSession) -> None:
    """Make ``format("pzc")`` known to a session, and the settings of this process to what it starts.

    The ``PZC_`` variables go to Spark's Python processes as they are now, keys included; they are in no plan
    and on no web page. These processes also import what was sent to the workers, such as a wheel.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith("PZC_")}
    context = spark.sparkContext
    if sent := getattr(context, "_python_includes", []):
        # Spark puts what was sent to the workers on their path, and not on that of its processes here.
        here = SparkFiles.getRootDirectory()
        settings["PYTHONPATH"] = os.pathsep.join(os.path.join(here, name) for name in sent)
    context.environment.update(settings)
    spark.dataSource.register(PzcDataSource)


def read_stream(spark: SparkSession, agents: str | Iterable[str], name: str, **options: object) -> DataFrame:
    """A streaming DataFrame of what agents publish; registers the source.

    Args:
        spark: the session.
        agents: names, patterns or endpoints, each with ``:topic`` if only that is wanted.
        name: of the mailboxes; one query at a time may have it.
        options: further ones of docs/source.md.

    Raises:
        ConfigError: for options that cannot be used.
    """
    listed = agents if isinstance(agents, str) else ",".join(agents)
    given = {"agents": listed, "name": name} | {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()
    }
    given["spool"] = str(read_options(given, streaming=True).spool)  # by the settings of this process
    register(spark)
    return spark.readStream.format("pzc").options(**given).load()
