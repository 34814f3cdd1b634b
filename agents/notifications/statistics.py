"""Statistics: what is told of the topics of one publisher; and an agent that publishes its own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, cast

from ...protocol.errors import ConfigError, PzcError
from ...transport.loop import Loop, Timer
from .links.subscribers import Subscribers
from .metering import told
from .readers import Readers, name_of

logger = logging.getLogger("pzc.agent")

STATISTICS = "statistics"
"""The topic, unless another one is given."""

MOST_READERS = 100
"""Names of readers that are told of one topic."""


def topics_told(subscribers: Subscribers, readers: Readers) -> dict[str, Any]:
    """Of each topic its last number, who listens, what was dropped for links, and what its meter says."""
    now = monotonic()
    with subscribers.lock:
        dropped = Counter[str]()
        for subscriber in subscribers.live():
            for interest in subscriber.queue.interests:
                dropped[interest.topic] += interest.missed
        topics = {
            topic: {
                "published": last,
                "dropped": dropped[topic],
                **told(subscribers.meters[topic], None, now),
            }
            for topic, last in subscribers.numbers.items()
            if topic not in subscribers.withdrawn
        }
    return {
        topic: {
            **about,
            "subscribers": readers.count(topic),
            "readers": sorted(name_of(who) for who in readers.of(topic) if ":" in who)[:MOST_READERS],
        }
        for topic, about in topics.items()
    }


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
        self._timer: Timer | None = None

    def begin(self, every: float, topic: str) -> None:
        """Tell from now on; again: at another pace.

        Raises:
            ConfigError: for a pace that cannot be kept.
        """
        if not isinstance(cast("object", every), int | float) or not 0.01 <= every <= 86_400:
            raise ConfigError(f"every={every!r} cannot be used: expected 0.01 to 86400 seconds")
        self._loop.run(partial(self._tell, every, topic))

    def _tell(self, every: float, topic: str) -> None:
        self.close()
        self._timer = self._loop.call_later(every, partial(self._tell, every, topic))
        try:
            self._publish(topic, self._statistics())
        except PzcError as exc:
            logger.warning("statistics could not be published: %s", exc)

    def close(self) -> None:
        """Tell no more; I/O thread. Again: no effect."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
