"""Routes: which links a topic goes to, and what its publisher says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ....delivery.ahead import Most
from ....shm.ring import BUFFERS, Ring
from ....transport.counters import Counters
from ..filters import ANY
from .outlet import Outlet
from .topics import Advertised, Wanted
from .turns import Route, route_of

SPARE = 2
"""Blocks beside those that readers have: one that is written, one whose writer still looks at it."""

_DEFAULT = Advertised()
_MAX_ROUTES = 10_000


class Routes:
    """The topics of one publisher; safe from any thread.

    Args:
        lock: of all its links.
        links: those that are open, by id.
        numbers: the last number of each topic.
        ring: blocks of the publisher.
        counters: where everything is counted.
        on_change: called with the lock after flows began, changed or ceased.

    Attributes:
        version: another one after each change.
        changes: how often what readers want has changed.
        usual: what is said of topics that nobody advertised; None for nothing of any.
        mail_readers: who reads a topic out of a mailbox.
    """

    def __init__(
        self,
        lock: threading.RLock,
        links: Mapping[str, Outlet],
        numbers: Mapping[str, int],
        ring: Ring,
        counters: Counters,
        on_change: Callable[[], object],
    ) -> None:
        self._lock = lock
        self._links = links
        self._numbers = numbers
        self._ring = ring
        self._counters = counters
        self._on_change = on_change
        self._advertised: dict[str, Advertised] = {}
        self._buffers = 0  # of all of them
        self._known: dict[str, Route] = {}
        self.version = self.changes = 0
        self.usual: Callable[[str], Advertised | None] | None = None
        self.mail_readers: Callable[[str], set[str]] = _nobody

    def advertise(self, topic: str, about: Advertised) -> None:
        """Say how a topic differs from the defaults; links that are open follow."""
        with self._lock:
            before = self._advertised.get(topic)
            self._buffers += about.buffers - (0 if before is None else before.buffers)
            self._advertised[topic] = about
            self._ring.buffers = SPARE + max(BUFFERS, self._buffers)
            for outlet in self._links.values():
                for interest in outlet.interests.get(topic, {}).values():
                    if not interest.lossy:
                        interest.window = min(interest.policy.bound, about.buffers)
            self._change()

    def withdraw(self, topic: str) -> None:
        """Forget what was said of a topic; with the lock."""
        before = self._advertised.pop(topic, None)
        self._buffers -= 0 if before is None else before.buffers
        self._ring.buffers = SPARE + max(BUFFERS, self._buffers)
        self._change()

    def about(self, topic: str) -> Advertised:
        """What is said of a topic."""
        return self._advertised.get(topic) or (_DEFAULT if self.usual is None else self._begin_usual(topic))

    def _begin_usual(self, topic: str) -> Advertised:
        about = None if self.usual is None else self.usual(topic)
        if about is None:
            return _DEFAULT
        with self._lock:
            if topic not in self._advertised and len(self._advertised) < _MAX_ROUTES:
                self.advertise(topic, about)
            return self._advertised.get(topic) or about

    def is_throttled(self, topic: str, now: float) -> bool:
        """True when a topic is throttled and this publication is one too many; counted."""
        throttle = self.about(topic).throttle
        if throttle is None:
            return False
        with self._lock:
            admitted = throttle.admit(now)
        if not admitted:
            self._counters.add("publish_throttled")
        return not admitted

    def is_wanted(self, topic: str) -> bool:
        """True when a link wants a topic."""
        of_links = any(not outlet.queue.suspended for outlet in self.of(topic).outlets)
        return of_links or bool(self.mail_readers(topic))

    def readers(self, topic: str) -> set[str]:
        """Agents that want a topic by a link, as in their marks; a reader that does not say them is one."""
        found = self.mail_readers(topic)
        for outlet in self.of(topic).outlets:
            found |= outlet.readers(topic)
        return found

    def of(self, topic: str) -> Route:
        """Where a topic goes."""
        return self._known.get(topic) or self._find(topic)

    def _find(self, topic: str) -> Route:
        with self._lock:
            for outlet in self._links.values():
                for number, wanted in outlet.everything.items():
                    if number not in outlet.interests.get(topic, ()):
                        self._begin(outlet, wanted, topic)
            wanting = tuple(outlet for outlet in self._links.values() if topic in outlet.interests)
            route = self._known[topic] = route_of(topic, wanting, self.about(topic).zero_copy)
            if len(self._known) > _MAX_ROUTES:
                self._known = {topic: route}
            return route

    def renew(self) -> None:
        """What links or mailboxes want has changed; with the lock. Have the agent act upon it then."""
        self.changes += 1
        self.renew_ways()

    def renew_ways(self) -> None:
        """The way of a link has changed; with the lock."""
        links = self._links.values()
        lossy = (outlet for outlet in links if any(each.lossy for each in outlet.queue.interests))
        self._ring.lossy = Most().leased * sum(outlet.takes_blocks for outlet in lossy)
        self._change()

    def _change(self) -> None:
        self._known = {}
        self.version += 1
        self._on_change()

    def _begin(self, outlet: Outlet, wanted: Wanted, topic: str) -> int:
        policy = wanted.policy
        window = None if policy.lossy else min(policy.bound, self.about(topic).buffers)
        outlet.begin(wanted, topic, window)
        return window or policy.bound

    def follow(self, outlet: Outlet, wanted: Wanted) -> tuple[dict[str, int], int]:
        """Let a reader have an interest from now on; with the lock, and `renew` is to follow.

        Returns:
            The last number of each of its topics until now, and the smallest window.
        """
        outlet.want(wanted)
        if wanted.topic == ANY:
            outlet.everything[wanted.interest] = wanted
        lasts = self.lasts(wanted.topic)
        window = min([self._begin(outlet, wanted, topic) for topic in lasts], default=wanted.policy.bound)
        return lasts, window

    def lasts(self, topic: str) -> dict[str, int]:
        """The last number of a topic, or with ``*`` of each."""
        return {**self._numbers} if topic == ANY else {topic: self._numbers.get(topic, 0)}


def _nobody(topic: str) -> set[str]:
    del topic
    return set()
