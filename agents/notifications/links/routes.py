"""Routes: which links a topic goes to, and what its publisher says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ....delivery.send_queue import Most
from ....shm.ring import BUFFERS, Ring
from ....transport.counters import Counters
from ..filters import ANY
from .link_subscriber import LinkSubscriber
from .mailbox_subscriber import MailboxSubscriber
from .publication import Route, route_of
from .subscriber import Subscriber
from .topics import Advertised, Wanted

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
        on_asked: called with the topic of each new interest.
    """

    def __init__(
        self,
        lock: threading.RLock,
        links: Mapping[str, Subscriber],
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
        self.on_asked: Callable[[str], object] = bool

    def advertise(self, topic: str, about: Advertised) -> None:
        """Say how a topic differs from the defaults; links that are open follow."""
        with self._lock:
            before = self._advertised.get(topic)
            self._buffers += about.buffers - (0 if before is None else before.buffers)
            self._advertised[topic] = about
            self._ring.buffers = SPARE + max(BUFFERS, self._buffers)
            for subscriber in self.live():
                subscriber.resize(topic, about.buffers)
            self._change()

    def withdraw(self, topic: str) -> None:
        """Forget what was said of a topic; with the lock."""
        before = self._advertised.pop(topic, None)
        self._buffers -= 0 if before is None else before.buffers
        self._ring.buffers = SPARE + max(BUFFERS, self._buffers)
        self._change()

    def about(self, topic: str) -> Advertised:
        """What is said of a topic."""
        return self._advertised.get(topic, _DEFAULT)

    def is_wanted(self, topic: str) -> bool:
        """True when a link wants a topic."""
        route = self.of(topic)
        return any(not subscriber.queue.suspended for subscriber in (*route.subscribers, *route.mailboxes))

    def readers(self, topic: str) -> set[str]:
        """Agents that want a topic by a link, as in their marks; a reader that does not say them is one."""
        found, route = set[str](), self.of(topic)
        for subscriber in (*route.subscribers, *route.mailboxes):
            found |= subscriber.readers(topic)
        return found

    def of(self, topic: str) -> Route:
        """Where a topic goes."""
        return self._known.get(topic) or self._find(topic)

    def _find(self, topic: str) -> Route:
        with self._lock:
            live, about = self.live(), self.about(topic)
            for subscriber in live:
                begun = {each.number for each in subscriber.claims(topic)} if subscriber.everything else ()
                for number, wanted in subscriber.everything.items():
                    if number not in begun:
                        subscriber.begin(wanted, topic, self.window(wanted, topic))
            wanting = tuple(subscriber for subscriber in live if subscriber.gets(topic))
            kept = tuple(
                subscriber
                for subscriber in self._links.values()
                if isinstance(subscriber, MailboxSubscriber)
                and subscriber.gets(topic)
                and about.scope == "all"
            )
            route = self._known[topic] = route_of(topic, wanting, kept, about.zero_copy)
            if len(self._known) > _MAX_ROUTES:
                self._known = {topic: route}
            return route

    def live(self) -> list[LinkSubscriber]:
        """The links that are no mailboxes; with the lock."""
        return [subscriber for subscriber in self._links.values() if isinstance(subscriber, LinkSubscriber)]

    def renew(self) -> None:
        """What links or mailboxes want has changed; with the lock. Have the agent act upon it then."""
        self.changes += 1
        self.renew_transports()

    def renew_transports(self) -> None:
        """The transport of a link has changed; with the lock."""
        lossy = (subscriber for subscriber in self.live() if subscriber.lossy)
        self._ring.lossy = Most().leased * sum(subscriber.takes_blocks for subscriber in lossy)
        self._change()

    def _change(self) -> None:
        self._known = {}
        self.version += 1
        self._on_change()

    def window(self, wanted: Wanted, topic: str) -> int | None:
        """That of an interest in a topic, as of `Interest`."""
        policy = wanted.policy
        return None if policy.lossy else min(policy.bound, self.about(topic).buffers)

    def lasts(self, topic: str) -> dict[str, int]:
        """The last number of a topic, or with ``*`` of each."""
        return {**self._numbers} if topic == ANY else {topic: self._numbers.get(topic, 0)}
