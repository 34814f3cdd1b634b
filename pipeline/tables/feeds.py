"""Feeds: what the streaming query of the tables reads, and what a feed knows of a batch beside its rows.

::

    JournalFeed   segments of a journal               which of them are damaged
    MailboxFeed   mailboxes of agents, no journal     which numbers were published, arrived or not

Whatever feeds it, a row is known by ``recorder`` and ``offset`` for ever: the commit log takes what has the
same ones for the same row.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlparse

from ...protocol.errors import ConfigError
from .. import missing
from ..forms import check_journal
from ..schema import JOURNAL, ddl
from ..source import SourceListener, read_stream
from ..source.offsets import Offset, read_offset
from ..source.options import read_options
from ..spark.cluster import is_local
from ..spark.jobs import literal
from .damage import find_damage
from .state import State

try:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as fn
except ImportError as exc:
    raise missing("pyspark") from exc

CHECKPOINT = ".checkpoint-journal"
"""Folder among the tables: Spark's memory of the segments that it has given, by their absolute paths."""

MAILBOXES = ".checkpoint-mailboxes"
"""Folder among the tables: how far the mailboxes of each name were read."""

MAX_FILES = 64
"""Segments of one batch at most."""

OWN = frozenset({"agents", "topics", "name", "checkpointlocation", "decode", "keyfile", "keyring", "wait"})
"""Options of the source that a pipeline decides itself; its keys are those of its environment."""

_MAX_AGE = "60d"
_SEGMENTS = "segment-*.parquet"


class Feed(Protocol):
    """What a query reads.

    Attributes:
        name: of the query.
        checkpoint: folder of the query's checkpoint, below that of the tables.
    """

    name: str
    checkpoint: str

    def rows(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame with the columns of `schema.JOURNAL`; asked for once."""
        ...

    def note(self, checkpoint: Path, number: int, state: State) -> int:
        """Note what is known of a batch whose rows are in the state; how many segments are damaged."""
        ...

    def close(self) -> None:
        """Give everything back, when the query has ended."""
        ...


class JournalFeed:
    """The segments of a journal.

    Args:
        journal: its directory.
        max_files: segments of one batch at most.

    Raises:
        JournalError: when there is no journal, or it is of a newer form.
    """

    name = "pzc-journal"

    def __init__(self, journal: str | Path, max_files: int = MAX_FILES) -> None:
        check_journal(journal)
        self._journal, self._max_files = Path(journal).absolute(), max_files
        # Another one when the journal has moved; the commit log knows what is done.
        self.checkpoint = f"{CHECKPOINT}/{_short(os.fsencode(self._journal))}"

    def rows(self, spark: SparkSession) -> DataFrame:
        """See `Feed`."""
        reader = spark.readStream.schema(ddl(JOURNAL)).option("maxFilesPerTrigger", self._max_files)
        reader = reader.option("maxFileAge", _MAX_AGE).option("pathGlobFilter", _SEGMENTS)
        return reader.parquet(literal(self._journal))

    def note(self, checkpoint: Path, number: int, state: State) -> int:
        """See `Feed`."""
        damaged = find_damage(batch_files(checkpoint, number), state, time.time_ns() // 1000)
        state.damaged += damaged
        return len(damaged)

    def close(self) -> None:
        """Nothing is open."""


class MailboxFeed:
    """The mailboxes of agents: the source ``format("pzc")``.

    The rows' ``recorder`` names mailbox, publisher, epoch and topic, because their ``offset`` is the
    publisher's number, which counts within these.

    Args:
        agents: names, patterns or endpoints, each with ``:topic`` if only that is wanted.
        name: of the mailboxes; one query at a time reads them.
        topics: of the agents that name none; default all.
        options: further ones of docs/source.md, by name, except `OWN`.

    Raises:
        ConfigError: for what the source does not take, or the pipeline decides.
    """

    name = "pzc-mailboxes"

    def __init__(
        self,
        agents: str | Iterable[str],
        name: str,
        topics: str = "",
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._agents = agents if isinstance(agents, str) else ",".join(agents)
        self._mailbox = name
        self._options: dict[str, object] = dict(options or {})
        if taken := [option for option in self._options if option.lower() in OWN]:
            raise ConfigError(f"option {taken[0]} of the source is decided by the pipeline itself")
        if topics:
            self._options["topics"] = topics
        given = {"agents": self._agents, "name": name} | self._options
        read_options({key: str(value) for key, value in given.items()}, streaming=True)
        self.checkpoint = f"{MAILBOXES}/{_short(name.encode())}"
        self._listener: SourceListener | None = None

    def rows(self, spark: SparkSession) -> DataFrame:
        """See `Feed`; what Spark has committed is acknowledged from now on."""
        options = dict(self._options)
        remote = not is_local(spark.sparkContext.master or "local")
        if remote and not any(option.lower() == "endpoint" for option in options):
            options["endpoint"] = f"tcp://{spark.conf.get('spark.driver.host')}:0"
        rows = read_stream(spark, self._agents, self._mailbox, **options)
        self._listener = SourceListener(spark)
        line = fn.concat_ws("/", "recorder", "publisher", fn.col("epoch").cast("string"), "topic")
        return rows.withColumn("recorder", line)

    def note(self, checkpoint: Path, number: int, state: State) -> int:
        """See `Feed`."""
        for line, upto in batch_end(checkpoint, number, self._mailbox).at.items():
            state.expect((line.publisher, line.epoch, line.topic), upto)
        return 0

    def close(self) -> None:
        """Acknowledge no more; the mailboxes stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


def mailbox_name(tables: str | Path) -> str:
    """Name of the mailboxes that belong to a folder of tables, unless somebody says another one."""
    return f"pipeline-{_short(os.fsencode(Path(tables).absolute()))}"


def batch_files(checkpoint: Path, number: int) -> list[Path]:
    """Segments that Spark gave with a batch, as its log of the source tells."""
    folder = checkpoint / "sources" / "0"
    for path in (folder / str(number), folder / f"{number}.compact"):
        with suppress(FileNotFoundError):
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            entries = [json.loads(line) for line in lines]
            return [
                Path(unquote(urlparse(entry["path"]).path))
                for entry in entries
                if entry.get("batchId") == number
            ]
    return []


def batch_end(checkpoint: Path, number: int, mailbox: str) -> Offset:
    """How far a batch of the source pzc goes, as Spark has planned it.

    Raises:
        ConfigError: when the checkpoint is one of another source, or of other mailboxes.
    """
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    return read_offset(json.loads(lines[2]), mailbox)


def _short(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]
