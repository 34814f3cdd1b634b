"""SourceListener: acknowledges a batch as soon as Spark has committed it.

Spark tells a source of a commit only when it builds the next batch, which may be long after. The listener is
told at once, in the process of the user's program, and asks the query's own process to release the rows.
Where that is, stands in the progress of the query.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from ...agents.proxy import Proxy
from ...protocol.errors import PzcError
from ...transport.wire import Protocol
from .. import missing

try:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )
except ImportError as exc:
    raise missing("pyspark") from exc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("pzc.source")

TIMEOUT = 2.0
"""Seconds that the query's process may take to answer; Spark's other listeners wait meanwhile."""


class SourceListener(StreamingQueryListener):
    """Acknowledges for all queries of a session that read the source pzc; `close` it at the end.

    Args:
        spark: the session; the listener is added to it.
        protocol: with the keys of the query; default `Protocol`, which reads the ``PZC_`` variables.

    Attributes:
        released: rows that were acknowledged through it.
        failed: times that the query's process could not be told; that is made good with the next batch.
    """

    def __init__(self, spark: SparkSession, protocol: Protocol | None = None) -> None:
        self.released = self.failed = 0
        self._spark = spark
        keyring = None if protocol is None else protocol.codec.keyring
        self._protocol = Protocol(serializer="msgpack", keyring=keyring)
        spark.streams.addListener(self)

    def __enter__(self) -> SourceListener:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch was committed."""
        for source in event.progress.sources:
            told, end = _as_dict(source.latestOffset), _as_dict(source.endOffset)
            if told.get("endpoint") and told.get("mailbox") == end.get("mailbox"):
                self._acknowledge(str(told["endpoint"]), end)

    def _acknowledge(self, endpoint: str, end: dict[str, Any]) -> None:
        try:
            with Proxy(endpoint, timeout=TIMEOUT, protocol=self._protocol) as receiver:
                self.released += receiver.acknowledge(end)
        except PzcError as exc:
            self.failed += 1
            logger.info("the query at %s was not told of its commit: %s", endpoint, exc)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing."""

    def close(self) -> None:
        """Listen no more."""
        self._spark.streams.removeListener(self)


def _as_dict(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
