"""Feeds: subscriptions to the topics whose values somebody sees.

::

    a topic            is followed
    quiet and small    once it was published, up to `MOST`: so values stand everywhere, and a read that raised
                       is noticed. Not before: who waits for readers shall not take a monitor for one
    any other          while somebody wants it

A subscription is opened and closed by threads of its own; a publisher that hangs holds one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from ...agents import Notification, Subscription
from ...delivery.policies import drop, latest
from ...protocol.errors import PzcError
from .collector import Collector
from .state import LabState

Key = tuple[str, str]
"""Name of an agent, and a topic."""

MOST = 1000
"""Subscriptions at a time."""

QUIET_HZ, SMALL_BYTES = 20.0, 1e5
"""Notifications, and bytes, in a second up to which a topic is followed always."""

LARGE = 64e3
"""Bytes of a notification from which only the newest is taken."""

_AT_ONCE, _TIMEOUT, _AGAIN = 4, 3.0, 10.0


class Feeds:
    """Opens and closes subscriptions, and puts what comes into a collector's state.

    Args:
        collector: whose state it is, and whose agent subscribes.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._pool = ThreadPoolExecutor(_AT_ONCE, "pzc-monitor-feeds")
        self._lock = threading.Lock()
        self._wanted: dict[object, frozenset[Key]] = {}
        self._open: dict[Key, Subscription] = {}
        self._opening: dict[Key, Future[None]] = {}
        self._failed: dict[Key, float] = {}
        self._closed = False

    def want(self, who: object, keys: Iterable[Key]) -> None:
        """What somebody wants to see from now on; nothing ends it."""
        with self._lock:
            self._wanted[who] = frozenset(keys)
            if not self._wanted[who]:
                del self._wanted[who]
        self.follow()

    def follow(self) -> None:
        """Open what is wanted and close what is not; after each round of the collector, and `want`."""
        with self._collector.state() as state:
            there = _topics(state)
            answering = {name for name, watched in state.agents.items() if watched.answers}
        with self._lock:
            if self._closed:
                return
            wanted = {key for keys in self._wanted.values() for key in keys if key[0] in answering}
            quiet = [
                key for key, (published, rate, size) in there.items()
                if published and rate <= QUIET_HZ and size <= SMALL_BYTES
            ]  # fmt: skip
            keep = set([*wanted, *(key for key in quiet if key not in wanted)][:MOST])
            # What was opened while it was quiet stays until it is twice as loud: no flutter at the bound.
            keep |= {key for key in self._open if key in there and there[key][1] <= 2 * QUIET_HZ}
            # What answers no longer is left open: it may be back at once.
            keep |= {key for key in self._open if key[0] not in answering}
            gone = {key: self._open.pop(key) for key in list(self._open) if key not in keep}
            now = time.monotonic()
            self._failed = {key: at for key, at in self._failed.items() if now - at < _AGAIN}
            for key in keep - self._open.keys() - self._opening.keys():
                if key not in self._failed:
                    _, rate, size = there.get(key, (0, 0.0, 0.0))
                    self._opening[key] = self._pool.submit(self._subscribe, key, size > LARGE * max(rate, 1))
            for key, subscription in gone.items():  # with the lock: once it is closed, nothing is taken
                self._pool.submit(self._end, key, subscription)

    def _end(self, key: Key, subscription: Subscription) -> None:
        subscription.close()
        with self._lock:
            again = key in self._open
        if not again:  # its last value is not its newest any more
            with self._collector.state() as state:
                state.lives.pop(key, None)

    def _subscribe(self, key: Key, large: bool) -> None:
        agent, topic = key
        with self._collector.state() as state:
            watched = state.agents.get(agent)
            endpoint = "" if watched is None else str(watched.about.get("endpoint") or agent)
        made: Subscription | None = None
        try:
            if endpoint:
                made = self._collector.agent.subscribe(
                    endpoint, topic, partial(self._take, key), policy=latest(1) if large else drop(1000),
                    timeout=_TIMEOUT,
                )  # fmt: skip
                made.on_lost = partial(self._lost, key)
        except PzcError:
            pass
        with self._lock:
            self._opening.pop(key, None)
            if made is None:
                self._failed[key] = time.monotonic()
            elif not self._closed:
                self._failed.pop(key, None)
                self._open[key] = made
                return
        if made is not None:
            made.close()

    def _take(self, key: Key, notification: Notification) -> None:
        with self._collector.state() as state:
            state.take(*key, notification.content, time.monotonic())

    def _lost(self, key: Key, _reason: str) -> None:
        with self._lock:
            lost = self._open.pop(key, None)
        if lost is not None:
            lost.close()

    def close(self) -> None:
        """End every subscription."""
        with self._lock:
            self._closed = True
            ending, self._open = list(self._open.values()), {}
        for subscription in ending:
            subscription.close()
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def following(collector: Collector) -> Generator[Feeds]:
    """The feeds of a collector that is not begun; closed at the end of the block."""
    feeds = Feeds(collector)
    collector.after.append(feeds.follow)
    try:
        yield feeds
    finally:
        feeds.close()


def _topics(state: LabState) -> dict[Key, tuple[int, float, float]]:
    """What was published, rate and bytes in a second of each topic of the agents that answer."""
    return {
        (name, topic): (about.told["published"], about.told["rate_hz"], about.told["bytes_per_s"])
        for name, watched in state.agents.items() if watched.answers
        for topic, about in watched.topics.items() if not topic.startswith("pzc/")
    }  # fmt: skip
