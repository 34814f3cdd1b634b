"""Telling: an agent publishes its own statistics, each so many seconds, for whoever subscribes to that."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from ...protocol.errors import ConfigError, PzcError
from ...transport.loop import Loop, Timer

logger = logging.getLogger("pzc.agent")

STATISTICS = "statistics"
"""The topic, unless another one is given."""


class Telling:
    """A timer and what it does; any thread.

    Args:
        loop: for the timer; publishing in its thread never waits for a reader.
        publish: takes topic and content.
        statistics: what is told.
    """

    def __init__(
        self, loop: Loop, publish: Callable[[str, Any], object], statistics: Callable[[], dict[str, Any]]
    ) -> None:
        self._loop = loop
        self._publish = publish
        self._statistics = statistics
        self._every = math.inf
        self._topic = STATISTICS
        self._timer: Timer | None = None

    def begin(self, every: float, topic: str) -> None:
        """Tell from now on; again: at another pace.

        Raises:
            ConfigError: for a pace that cannot be kept.
        """
        if not 0.01 <= every <= 86_400:
            raise ConfigError(f"every={every!r} cannot be used: expected 0.01 to 86400 seconds")
        self._loop.run(lambda: self._begin(every, topic))

    def _begin(self, every: float, topic: str) -> None:
        self.close()
        self._every, self._topic = every, topic
        self._tell()

    def _tell(self) -> None:
        self._timer = self._loop.call_later(self._every, self._tell)
        try:
            self._publish(self._topic, self._statistics())
        except PzcError as exc:
            logger.warning("statistics could not be published: %s", exc)

    def close(self) -> None:
        """Tell no more; I/O thread. Again: no effect."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
