"""Roster: the places of one link, found by topic, however many they are."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....protocol.peer import Peer
from ..filters import ANY
from ..subscription import Subscription
from ..typed import Ask, still_fits
from .answers import Confirmed
from .places import Place
from .topics import MAX_KEYS


class Roster:
    """Safe from any thread; what it returns does not change.

    Args:
        places: the first ones.

    Attributes:
        version: another one after each change.
    """

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self.version = 0
        self._lock = threading.Lock()
        self._of: dict[Subscription, Place] = {}
        self._by_topic: dict[str, tuple[Place, ...]] = {}
        for place in places:
            self.add(place)

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Place]:
        with self._lock:
            return iter(list(self._of.values()))

    def add(self, place: Place) -> None:
        """One more."""
        topic = place.subscription.topic
        with self._lock:
            self.version += 1
            self._of[place.subscription] = place
            self._by_topic[topic] = (*self._by_topic.get(topic, ()), place)

    def remove(self, subscription: Subscription) -> bool:
        """One less; False when it had none."""
        topic = subscription.topic
        with self._lock:
            place = self._of.pop(subscription, None)
            if place is None:
                return False
            self.version += 1
            left = tuple(each for each in self._by_topic[topic] if each is not place)
            if left:
                self._by_topic[topic] = left
            else:
                del self._by_topic[topic]
            return True

    def judge(self, peer: Peer, ask: Ask) -> None:
        """Another publisher is there: the subscriptions that want other types than its own end.

        Raises:
            PzcError: when it could not be asked for them.
        """
        for place in self:
            still_fits(place.subscription, peer.endpoint, ask)

    def restart(self, publisher: str) -> None:
        """It has taken the place of the one before, numbering anew."""
        for place in self:
            place.restart(publisher)

    def wanting(self, topic: str) -> tuple[Place, ...]:
        """Those that want what is published on a topic."""
        of_all = self._by_topic.get(ANY)
        return self._by_topic.get(topic, ()) + (of_all or ())

    def at(self, topic: str) -> tuple[Place, ...]:
        """Those whose subscription has exactly this topic."""
        return self._by_topic.get(topic, ())

    def wishes(self, topic: str) -> list[list[Any]]:
        """What the publisher is asked for of a topic, each wish once, with all of its keys."""
        found: dict[tuple[Any, ...], set[str] | None] = {}
        for place in self.at(topic):
            topic, keys, *rest = place.wish
            others = found.setdefault(tuple(rest), set())
            if keys is None or others is None or len(others | set(keys)) > MAX_KEYS:
                found[tuple(rest)] = None
            else:
                others.update(keys)
        return [[topic, keys and sorted(keys), *rest] for rest, keys in found.items()]

    def wished(self) -> tuple[dict[str, list[list[Any]]], list[list[Any]]]:
        """What it is asked for of every topic: by topic, and all together."""
        found = {topic: self.wishes(topic) for topic in self.topics()}
        return found, [wish for wishes in found.values() for wish in wishes]

    def halves(self, confirmed: Confirmed, topics: Iterable[str]) -> Mapping[str, int]:
        """How many done ones of each topic with a window are worth a message of their own."""
        found: dict[str, int] = {}
        for topic in topics:
            for place in self.at(topic):
                policy = place.subscription.policy
                if policy.name == "block":
                    window = min(policy.bound, confirmed.buffers.get(topic, policy.bound))
                    found[topic] = min(found.get(topic, window), max(1, window // 2))
        return found

    def topics(self) -> list[str]:
        """Each topic once."""
        with self._lock:
            return list(self._by_topic)
