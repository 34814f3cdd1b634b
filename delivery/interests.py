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

from typing import Generic, TypeVar

ALL = "*"
"""Topic of a subscription to all topics."""

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

    __slots__ = ("_count", "_everything", "_shares", "_topics")

    def __init__(self) -> None:
        self._count = 0
        self._topics: dict[str, dict[str | None, tuple[W, ...]]] = {}
        self._shares: dict[str, dict[int, _Share[W]]] = {}
        self._everything: tuple[W, ...] = ()

    def __len__(self) -> int:
        return self._count

    def add(self, topic: str, key: str | None, who: W) -> None:
        """Subscribe; whoever calls does so once for each entity."""
        entities, shares = self._topics.setdefault(topic, {}), self._shares.setdefault(topic, {})
        share = shares.get(id(who))
        if share is None:
            share = shares[id(who)] = _Share(who)
        share.entities += 1
        others = entities.get(key)
        self._count += others is None
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
            self._count -= 1
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

    def knows(self, topic: str) -> bool:
        """Whether anybody gets any message of a topic."""
        return bool(self._everything) or topic in self._topics

    def has(self, topic: str, key: str | None) -> bool:
        """Whether somebody subscribes to just that."""
        return key in self._topics.get(topic, ())

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
