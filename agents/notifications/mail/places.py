"""Places: the subscriptions of this process to one mailbox, by what they want.

A subscription of many keys is found by each of them, and counts once.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Sequence

from ....delivery.mail import ALL, MAX_WHO, Command
from ....protocol.bundle import Item
from ....protocol.errors import SubscriptionClosed
from ..subscription import Subscription
from .bursts import Burst, Sink
from .place import Place, asked_keys

logger = logging.getLogger("pzc.mail")


def _group(found: Place | tuple[Place, ...]) -> tuple[Place, ...]:
    return found if isinstance(found, tuple) else (found,)


class _Table:
    """Places by topic and key; most of many keys have one only, which needs no group."""

    def __init__(self) -> None:
        self._at: dict[str, dict[str | None, Place | tuple[Place, ...]]] = {}

    def at(self, topic: str, key: str | None) -> tuple[Place, ...]:
        """Whose topic and key these are."""
        keys = self._at.get(topic)
        return () if keys is None else _group(keys.get(key, ()))

    def keys(self, topic: str) -> Container[str | None]:
        """Those of a topic."""
        return self._at.get(topic, ())

    def of(self, topic: str) -> list[Place]:
        """Those of a topic, once for each key."""
        return [place for found in self._at.get(topic, {}).values() for place in _group(found)]

    def all(self) -> list[Place]:
        """Those of all topics, once for each key."""
        return [place for topic in self._at for place in self.of(topic)]

    def add(self, place: Place) -> None:
        """One more."""
        keys, its = self._at.setdefault(place.topic, {}), place.keys
        if len(its) > 1 and keys.keys().isdisjoint(its):
            keys.update(dict.fromkeys(its, place))
            return
        for key in its:
            others = _group(keys.get(key, ()))
            keys[key] = (*others, place) if others else place

    def remove(self, place: Place) -> None:
        """One less."""
        keys = self._at[place.topic]
        for key in place.keys:
            if keys[key] is place:
                del keys[key]
                continue
            left = tuple(other for other in _group(keys[key]) if other is not place)
            keys[key] = left[0] if len(left) == 1 else left
        if not keys:
            del self._at[place.topic]


class Places:
    """All subscriptions to one mailbox; iterates over them. Not thread-safe.

    What one subscription or one message needs looks at no other subscription than those of its topic and key.
    """

    def __init__(self) -> None:
        self._poured: list[Burst] = []
        self._number = 0
        self._lone, self._shared = _Table(), _Table()  # places of one key, and of many
        self._many: dict[Subscription, Place] = {}
        self._special = self._raw = self._keyed = 0
        self._sinks: dict[int, tuple[Sink | None, int]] = {}  # by id: it, and how many subscriptions have it

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Place]:
        return iter([*self._lone.all(), *self._many.values()])

    def add(self, place: Place) -> None:
        """One more."""
        if place.many:
            self._many[place.subscription] = place
            self._shared.add(place)
        else:
            self._lone.add(place)
        self._count(place, 1)

    def remove(self, subscription: Subscription) -> Place | None:
        """One less: it, for whose confirmation nobody waits any more; None when it is not here."""
        place = self._many.pop(subscription, None)
        if place is not None:
            self._shared.remove(place)
        else:
            group = self._lone.at(subscription.topic, next(iter(asked_keys(subscription))))
            place = next((each for each in group if each.subscription is subscription), None)
            if place is None:
                return None
            self._lone.remove(place)
        self._count(place, -1)
        place.fail(SubscriptionClosed(f"the subscription to {place.topic} ended before it was confirmed"))
        return place

    def _count(self, place: Place, change: int) -> None:
        self._number += change
        self._special += change * place.special
        self._raw += change * place.subscription.raw
        self._keyed += change * place.keyed
        number = self._sinks.get(id(place.sink), (None, 0))[1] + change
        if number:
            self._sinks[id(place.sink)] = place.sink, number
        else:
            del self._sinks[id(place.sink)]

    @property
    def special(self) -> bool:
        """Whether any of them has arrivals of its own."""
        return self._special > 0

    @property
    def raw(self) -> bool:
        """Whether any of them wants frames."""
        return self._raw > 0

    @property
    def sink(self) -> Sink | None:
        """What takes everything that comes for them; None when each is to get its own."""
        alone = len(self._sinks) == 1 and not self._keyed
        return next(iter(self._sinks.values()))[0] if alone else None

    @property
    def paused(self) -> bool:
        """Whether any sink takes no more for now."""
        return any(sink is not None and sink.paused for sink, _ in self._sinks.values())

    def wanting(self, topic: str, key: str | None = None) -> tuple[Place, ...]:
        """Who gets a message."""
        found = self.at(topic, None)
        if key:
            found += self.at(topic, key)
        return found if topic == ALL else found + self.at(ALL, None)

    def takes(self, topics: Iterable[str]) -> bool:
        """Whether messages of these topics all go to the sink."""
        return self.sink is not None and all(self.wanting(topic) for topic in topics)

    def pour(self, burst: Burst) -> None:
        """Messages came for the sink, which gets them once the publisher has confirmed all subscriptions."""
        self._poured.append(burst)
        self.flow()

    def spoil(self, epoch: int, items: Iterable[tuple[Item, Exception]]) -> None:
        """Messages came for the sink that cannot be used."""
        for item, error in items:
            logger.warning("%s number %s is lost here: %s", item.topic, item.number, error)
            for place in self.wanting(item.topic):
                place.spoil(epoch, item)

    def flow(self) -> None:
        """Let the sink have what waits for it, unless that has to wait."""
        if self.sink is None or any(place.held for place in self):
            return
        poured, self._poured = self._poured, []
        for burst in poured:
            letters = burst.letters
            for place in self:
                topic = place.topic
                mine = letters if topic == ALL else [each for each in letters if each.topic == topic]
                place.passed(mine)
            self.sink.take(burst)

    def who(self, command: Command) -> list[str]:
        """The agents that a command is for."""
        places = self.at(command.topic, command.key)
        return sorted({place.subscription.who for place in places} - {""})[:MAX_WHO]

    def confirmed(self, commands: Sequence[Command]) -> list[Place]:
        """Those to which the publisher has confirmed everything, now that it has applied these commands."""
        said = [(topic, key) for topic, key, subscribe, _ in commands if subscribe]
        return list(
            dict.fromkeys(place for each in said for place in self.at(*each) if place.confirm(each[1]))
        )

    def split(self, place: Place) -> tuple[list[str | None], list[str | None]]:
        """The keys of a place that any subscription wants, and those that none does."""
        lone, shared = self._lone.keys(place.topic), self._shared.keys(place.topic)
        wanted = [key for key in place.keys if key in lone or key in shared]
        return wanted, list(set(place.keys).difference(wanted) if wanted else place.keys)

    def at(self, topic: str, key: str | None) -> tuple[Place, ...]:
        """Whose topic and key these are."""
        found = self._lone.at(topic, key)
        return found + self._shared.at(topic, key) if self._many else found

    def asking(self, topic: str, key: str) -> tuple[Place, ...]:
        """Who asked the publisher for a key; without one, for all of a topic, alone or with all others."""
        return self.at(topic, key) if key else self.at(topic, None) + self.at(ALL, None)
