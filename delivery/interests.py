"""Interests: who subscribes to which topic and key.

::

    entity           gets
    (topic, key)     messages of the topic with that key
    (topic, None)    all messages of the topic
    (ALL, key)       all messages with that key
    (ALL, None)      all messages

An entity exists from its first subscriber to its last. Somebody with several matching entities gets a message
once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Generic, TypeVar, cast

ALL = "*"
"""Topic of a subscription to all topics."""

EACH = 64
"""Bytes that a topic or a key counts for beside its text."""

W = TypeVar("W")

_FEW = 16


class _Crowd(Generic[W]):
    """The subscribers of an entity with more than a few: each comes and goes without a look at the others."""

    __slots__ = ("_all", "each")

    def __init__(self, several: Collection[W]) -> None:
        self.each = {id(who): who for who in several}
        self._all: tuple[W, ...] | None = None

    def add(self, who: W) -> None:
        self.each[id(who)], self._all = who, None

    def discard(self, who: W) -> None:
        if self.each.pop(id(who), None) is not None:
            self._all = None

    def all(self) -> tuple[W, ...]:
        """The same tuple until somebody comes or goes."""
        if self._all is None:
            self._all = tuple(self.each.values())
        return self._all


class Interests(Generic[W]):
    """Finds subscribers by topic and key; its length counts the entities. ``W`` is compared by identity.

    Nothing that is asked or told of one entity looks at any other one, and whoever comes or goes, at no other
    subscriber. The only one of a key stands there by itself, without a tuple around it: most keys have one.
    """

    __slots__ = ("_everything", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, dict[str | None, W | tuple[W, ...] | _Crowd[W]]] = {}
        self._everything: dict[str | None, W | tuple[W, ...] | _Crowd[W]] = {}  # those of `ALL`

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def add(self, topic: str, keys: Collection[str] | None, who: W) -> None:
        """Subscribe to some keys, with None to all messages; whoever calls does so once for each entity."""
        entities = self._topics.setdefault(topic, {})
        for key in _each(keys):
            others = entities.get(key)
            if isinstance(others, _Crowd):
                cast("_Crowd[W]", others).add(who)
            elif others is None and key is not None:
                entities[key] = who
            else:
                several = (*_group(others), who)
                entities[key] = several if len(several) <= _FEW else _Crowd(several)
        if topic == ALL:
            self._everything = entities

    def discard(self, topic: str, keys: Collection[str] | None, who: W) -> None:
        """Unsubscribe; an entity without a subscriber is erased, and so is a topic without entities."""
        entities = self._topics.get(topic, {})
        for key in _each(keys):
            found = entities.get(key)
            if isinstance(found, _Crowd):
                crowd = cast("_Crowd[W]", found)
                crowd.discard(who)
                if len(crowd.each) <= _FEW:
                    entities[key] = crowd.all()
                continue
            group = _group(found)
            left = tuple([other for other in group if other is not who])
            if left:
                entities[key] = left[0] if len(left) == 1 and key is not None else left
            elif group:
                del entities[key]
        if not entities:
            self._topics.pop(topic, None)

    @property
    def topics(self) -> list[str]:
        """Those of the entities."""
        return list(self._topics)

    def all(self) -> list[W]:
        """Who subscribes to anything, each once."""
        return [who for topic in self._topics for who in self.of(topic)]

    def holds(self, topic: str, keys: Collection[str] | None, who: W) -> bool:
        """Whether somebody that subscribes to these has not unsubscribed."""
        found = self._topics.get(topic, {}).get(next(iter(_each(keys)), None))
        if isinstance(found, _Crowd):
            return id(who) in cast("_Crowd[W]", found).each
        return any(other is who for other in _group(found))

    def of(self, topic: str) -> list[W]:
        """Who subscribes to a topic by its name, each once."""
        groups = self._topics.get(topic, {}).values()
        return list({id(who): who for group in groups for who in _group(group)}.values())

    def knows(self, topic: str) -> bool:
        """Whether anybody gets any message of a topic."""
        return bool(self._everything) or topic in self._topics

    def matching(self, topic: str, key: str | None) -> tuple[W, ...]:
        """Who gets a message, each once."""
        some = _matching(self._topics.get(topic), key)
        if not self._everything:
            return some
        groups = (_matching(self._everything, key), some)
        return tuple({id(who): who for group in groups for who in group}.values())


def _matching(entities: dict[str | None, Any] | None, key: str | None) -> tuple[Any, ...]:
    """Who gets a message with a key, of those of one topic."""
    if not entities:
        return ()
    every: Any = entities.get(None, ())
    some: Any = entities.get(key, ()) if key is not None else ()
    if every.__class__ is _Crowd:
        every = every.all()
    if some.__class__ is not tuple:
        some = some.all() if some.__class__ is _Crowd else (some,)
    if not some:
        return every
    return tuple({id(who): who for who in (*every, *some)}.values()) if every else some


def _group(found: Any) -> tuple[Any, ...]:
    if found is None:
        return ()
    if found.__class__ is tuple:
        return found
    return found.all() if found.__class__ is _Crowd else (found,)


def _each(keys: Collection[str] | None) -> Collection[str | None]:
    return (None,) if keys is None else keys


def weight(topic: str, keys: Collection[str] | None) -> int:
    """Bytes that an interest counts for: those of its text, and `EACH` for the topic and each key."""
    texts = (topic, *(keys or ()))
    return len("".join(texts).encode(errors="surrogatepass")) + EACH * len(texts)


def thin(keys: Collection[str] | None) -> Collection[str] | None:
    """Keys as they are kept for long: several as a set, one as a tuple, in a quarter of the memory."""
    if keys is None:
        return keys
    if len(keys) == 1:
        return keys if isinstance(keys, tuple) else tuple(keys)
    several = frozenset(keys)
    return tuple(several) if len(several) == 1 else several
