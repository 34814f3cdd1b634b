"""The pipeline's own agent, which tells of alarms."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ...agents import Agent
from ...protocol.errors import PzcError
from ...transport.threads import begin
from ...transport.wire import Protocol

logger = logging.getLogger("pzc.pipeline")

NAME = "pipeline"
"""Of the agent."""

TOPIC = "alarms"

WAITING = 1000
"""Alarms that may wait to be published; what comes then is counted in `Alerts.lost`."""


class Alerts:
    """Publishes alarms, each once, on the topic ``alarms`` of an agent named ``pipeline``.

    A subscriber gets a dictionary of the columns of an alarm, the times as datetimes. Publishing has a
    thread of its own, so that a slow network does not hold up the tables. Use as a context manager, or
    `close`.

    Args:
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    Attributes:
        agent: that publishes.
        published: how many alarms.
        lost: alarms that were not published: too many at once, or the agent could not.
    """

    def __init__(self, protocol: Protocol | None = None) -> None:
        self.published = self.lost = 0
        self._queue: queue.Queue[Mapping[str, Any] | None] = queue.Queue(WAITING)
        self._closing = threading.Event()
        self.agent = Agent(name=NAME, protocol=protocol)
        self._thread = threading.Thread(target=self._publish, name="pzc-alarms", daemon=True)
        try:
            begin(self._thread)
        except BaseException:
            self.agent.stop()
            raise

    def __enter__(self) -> Alerts:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def tell(self, alarms: Iterable[Mapping[str, Any]], more: int = 0) -> None:
        """Publish alarms, in order, without waiting.

        Args:
            alarms: rows of `schema.ALARMS`.
            more: alarms beyond these, which are counted as lost.
        """
        before, self.lost = self.lost, self.lost + more
        for alarm in alarms:
            try:
                self._queue.put_nowait(alarm)
            except queue.Full:
                self.lost += 1
        if self.lost > before:
            logger.warning("%d alarms are in the table and were not published", self.lost - before)

    def _publish(self) -> None:
        while (alarm := self._queue.get()) is not None:
            if self._closing.is_set():
                self.lost += 1
                continue
            try:
                self.agent.publish(TOPIC, dict(alarm))
                self.published += 1
            except (PzcError, OSError) as exc:
                self.lost += 1
                logger.warning("an alarm could not be published: %s", exc)

    def close(self, timeout: float = 5.0) -> None:
        """Publish what waits, for at most ``timeout`` seconds, and stop the agent."""
        if self._closing.is_set():
            return
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            self._closing.set()  # the thread takes what waits without publishing it
            self._queue.put(None)
        self._thread.join(timeout)
        self._closing.set()
        self.agent.stop()
        self._thread.join(timeout)
