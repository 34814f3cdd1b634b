"""Interests: who subscribes to which topic and key.

::

    entity           gets
    (topic, key)     messages of the topic with that key
    (topic, None)    all messages of the topic
    (ALL, None)      all messages

An entity exists from its first subscriber to its last. Somebody with several matching entities gets a message
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from .mail import ALL

W = TypeVar("W")


class Interests(Generic[W]):
    """Finds subscribers by topic and key; its length counts the entities. ``W`` is compared by identity."""

    __slots__ = ("_everything", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, dict[str | None, tuple[W, ...]]] = {}
        self._everything: tuple[W, ...] = ()

    def __len__(self) -> int:
        return sum(len(entities) for entities in self._topics.values())

    def add(self, topic: str, key: str | None, who: W) -> None:
        """Subscribe; whoever calls does so once for each entity."""
        entities = self._topics.setdefault(topic, {})
        entities[key] = (*entities.get(key, ()), who)
        if topic == ALL:
            self._everything = entities[key]

    def discard(self, topic: str, key: str | None, who: W) -> None:
        """Unsubscribe; an entity without a subscriber is erased, and so is a topic without entities."""
        entities = self._topics.get(topic, {})
        left = tuple(other for other in entities.get(key, ()) if other is not who)
        if left:
            entities[key] = left
        else:
            entities.pop(key, None)
            if not entities:
                self._topics.pop(topic, None)
        if topic == ALL:
            self._everything = left

    def about(self, topic: str) -> set[W]:
        """Who gets any message of a topic, whatever its key."""
        groups = self._topics.get(topic, {}).values()
        return {who for group in (*groups, self._everything) for who in group}

    def knows(self, topic: str) -> bool:
        """Whether anybody gets any message of a topic."""
        return bool(self._everything) or topic in self._topics

    def matching(self, topic: str, key: str | None) -> tuple[W, ...]:
        """Who gets a message, each once."""
        entities = self._topics.get(topic)
        if entities is None:
            return self._everything
        every = entities.get(None, ())
        some = entities.get(key, ()) if key is not None else ()
        if not self._everything:
            if not some:
                return every
            if not every:
                return some
        groups = (self._everything, every, some)
        return tuple({id(who): who for group in groups for who in group}.values())


class Subscriptions:
    """The entities of one subscriber, and for whom it has each; its length counts them.

    Iterates over ``(topic, key)``.
    """

    __slots__ = ("_count", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, dict[str | None, tuple[str, ...]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return ((topic, key) for topic, keys in self._topics.items() for key in keys)

    def add(self, topic: str, key: str | None, who: tuple[str, ...] = ()) -> bool:
        """Whether the entity is new; it is for these from now on."""
        keys = self._topics.setdefault(topic, {})
        new = key not in keys
        keys[key] = who
        self._count += new
        return new

    def who(self, topic: str) -> set[str]:
        """For whom it has any message of a topic; empty when that was not said."""
        groups = (*self._topics.get(topic, {}).values(), *self._topics.get(ALL, {}).values())
        return {who for group in groups for who in group}

    def discard(self, topic: str, key: str | None) -> bool:
        """Whether the entity was there."""
        keys = self._topics.get(topic)
        if keys is None or key not in keys:
            return False
        del keys[key]
        self._count -= 1
        if not keys:
            del self._topics[topic]
        return True
