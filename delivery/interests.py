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


class _Share(Generic[W]):
    """The entities of a topic that one subscriber has: how many, and the group of it alone."""

    __slots__ = ("alone", "entities")

    def __init__(self, who: W) -> None:
        self.alone = (who,)
        self.entities = 0


class Interests(Generic[W]):
    """Finds subscribers by topic and key; its length counts the entities. ``W`` is compared by identity.

    Nothing that is asked or told of one entity looks at any other one.
    """

    __slots__ = ("_everything", "_shares", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, dict[str | None, tuple[W, ...]]] = {}
        self._shares: dict[str, dict[int, _Share[W]]] = {}
        self._everything: tuple[W, ...] = ()

    def __len__(self) -> int:
        return sum(len(entities) for entities in self._topics.values())

    def add(self, topic: str, key: str | None, who: W) -> None:
        """Subscribe; whoever calls does so once for each entity."""
        entities, shares = self._topics.setdefault(topic, {}), self._shares.setdefault(topic, {})
        share = shares.get(id(who))
        if share is None:
            share = shares[id(who)] = _Share(who)
        share.entities += 1
        others = entities.get(key)
        entities[key] = share.alone if others is None else (*others, who)
        if topic == ALL:
            self._everything = entities[key]

    def discard(self, topic: str, key: str | None, who: W) -> None:
        """Unsubscribe; an entity without a subscriber is erased, and so is a topic without entities."""
        entities = self._topics.get(topic, {})
        group = entities.get(key, ())
        left = tuple(other for other in group if other is not who)
        if len(left) == len(group):
            return
        if left:
            entities[key] = left
        else:
            del entities[key]
            if not entities:
                del self._topics[topic]
        self._leave(topic, who)
        if topic == ALL:
            self._everything = left

    def _leave(self, topic: str, who: W) -> None:
        shares = self._shares[topic]
        share = shares[id(who)]
        share.entities -= 1
        if not share.entities:
            del shares[id(who)]
            if not shares:
                del self._shares[topic]

    def about(self, topic: str) -> set[W]:
        """Who gets any message of a topic, whatever its key."""
        shares = self._shares.get(topic, {}).values()
        return {share.alone[0] for share in shares}.union(self._everything)

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

    Attributes:
        changes: how often an entity came or went.
    """

    __slots__ = ("_count", "_told", "_topics", "changes")

    def __init__(self) -> None:
        self._topics: dict[str, dict[str | None, tuple[str, ...]]] = {}
        self._told: dict[str, dict[tuple[str, ...], int]] = {}  # for whom, and how many entities of a topic
        self._count = self.changes = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return ((topic, key) for topic, keys in self._topics.items() for key in keys)

    def has(self, topic: str, key: str | None) -> bool:
        """Whether the entity is there."""
        return key in self._topics.get(topic, ())

    def add(self, topic: str, key: str | None, who: tuple[str, ...] = ()) -> bool:
        """Whether the entity is new; it is for these from now on."""
        keys = self._topics.setdefault(topic, {})
        before = keys.get(key)
        if before != who:
            keys[key] = self._tell(topic, who)
            if before is not None:
                self._untell(topic, before)
        self._count += before is None
        self.changes += before is None
        return before is None

    def _tell(self, topic: str, who: tuple[str, ...]) -> tuple[str, ...]:
        """One entity more is for these; returns them as they are for all others."""
        told = self._told.setdefault(topic, {})
        told[who] = told.get(who, 0) + 1
        return next(iter(told)) if len(told) == 1 else who

    def _untell(self, topic: str, who: tuple[str, ...]) -> None:
        told = self._told[topic]
        told[who] -= 1
        if not told[who]:
            del told[who]
            if not told:
                del self._told[topic]

    def single(self) -> tuple[str, str | None] | None:
        """The entity that is the widest for every message; None when that depends on its topic or key."""
        if ALL in self._topics:
            return (ALL, None)
        return next(iter(self)) if self._count == 1 else None

    def widest(self, topic: str, key: str | None) -> tuple[str, str | None]:
        """The widest entity that has a message; that of all topics when none has."""
        keys = self._topics.get(topic)
        if keys is None or ALL in self._topics:
            return (ALL, None)
        return (topic, key if key in keys and None not in keys else None)

    def concerned(self, topic: str, key: str | None) -> tuple[str, ...]:
        """Keys of the entities that have a message; an empty one for those of all keys, or topics."""
        keys = self._topics.get(topic, {})
        own = (key,) if key is not None and key in keys else ()
        return own if own and ALL not in self._topics and None not in keys else ("", *own)

    def who(self, topic: str) -> set[str]:
        """For whom it has any message of a topic; empty when that was not said."""
        groups = {*self._told.get(topic, ()), *self._told.get(ALL, ())}
        return {who for group in groups for who in group}

    def discard(self, topic: str, key: str | None) -> bool:
        """Whether the entity was there."""
        keys = self._topics.get(topic)
        if keys is None or key not in keys:
            return False
        self._untell(topic, keys.pop(key))
        self._count -= 1
        self.changes += 1
        if not keys:
            del self._topics[topic]
        return True
