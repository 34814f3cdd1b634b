"""The topic of an audit log: its lines, published in a thread of their own.

A reader with the policy ``block`` lets publications wait; the log itself has to be written all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...protocol import limits
from ...protocol.errors import AgentClosed, PzcError
from ...transport.counters import Counters
from ...transport.executor import Executor
from .audit import CALLS

logger = logging.getLogger("pzc.audit")

CLOSE_TIMEOUT = 0.5
"""Seconds that the last lines have to be published."""


class AuditTopic:
    """Publishes lines; any thread.

    Args:
        publish: a topic and a content; it may wait.
        wanted: whether somebody listens to a topic.
        counters: where lines are counted that were not published.
    """

    def __init__(
        self, publish: Callable[[str, Any], object], wanted: Callable[[str], bool], counters: Counters
    ) -> None:
        self._publish = publish
        self._wanted = wanted
        self._counters = counters
        self._executor = Executor("pzc-calls", bound=limits.current.audit_waiting + 1)  # one for the end

    def tell(self, lines: Iterable[dict[str, Any]]) -> None:
        """Publish lines soon, in order, when somebody listens; never waits."""
        if not self._wanted(CALLS):
            return
        for line in lines:
            try:
                taken = len(self._executor) < limits.current.audit_waiting and self._executor.submit(
                    partial(self._tell, line)
                )
            except AgentClosed:
                taken = False
            if not taken:
                self._counters.add("calls_unpublished")

    def _tell(self, line: dict[str, Any]) -> None:
        try:
            self._publish(CALLS, line)
        except PzcError as exc:  # it is in the file, and nobody else waits for it
            self._counters.add("calls_unpublished")
            logger.debug("an audit line was not published: %s", exc)

    def close(self) -> None:
        """Publish what waits, as far as there is time; what waits for a reader ends with the publisher."""
        published = threading.Event()
        if self._executor.submit(published.set):
            published.wait(CLOSE_TIMEOUT)
        self._counters.add("calls_unpublished", len(self._executor.abandon()))
