"""Places: the subscriptions of this process to one mailbox, and which messages each of them gets.

::

    state     event                             next      what happens
    held      message                           held      kept
    held      the publisher confirmed           open      what it numbers later is delivered; of a mailbox
                                                          with a name everything: it was kept for us
    open      message                           open      delivered
    open      messages were evicted             open      a gap of so many
    open      the mailbox was removed           held      once confirmed, a gap of what was numbered meanwhile
    open      the publisher was restarted       held      one restart gap
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import groupby
from operator import attrgetter

from ...delivery.mail import ALL, MAX_WHO, Lost
from ...delivery.sequences import Gap
from ...protocol.bundle import Item
from ...protocol.letters import Letter
from ..links.arrivals import Arrival
from ..notifying.rounds import Round
from ..notifying.subscription import Subscription
from .bursts import Burst, Missed, Sink

_topic = attrgetter("topic")


def _entity(subscription: Subscription) -> tuple[str, str | None]:
    topic = subscription.topic
    return topic, None if topic == ALL else subscription.key or None


class Place:
    """One subscription; the lock of its reader protects it, but for `deliver`.

    Args:
        subscription: who gets the messages.
        durable: whether the mailbox has a name.
        confirmed: to be done once the publisher has confirmed, or refused.

    Attributes:
        unjudged: the publisher is another one, who may publish other types than the subscription wants.
    """

    __slots__ = (
        "_confirmed", "_durable", "_early", "_forgotten", "_last", "_lasts", "held",
        "subscription", "unjudged",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, durable: bool, confirmed: Future[None]) -> None:
        self.subscription = subscription
        self._confirmed: Future[None] | None = confirmed
        self.held = True
        self.unjudged = False
        self._durable = durable
        self._early: list[Arrival] | None = None
        # The highest numbers that were seen: of its topic, or of each when it is for all topics.
        self._last: int | None = None
        self._lasts: dict[str, int] | None = {} if subscription.topic == ALL else None
        self._forgotten = False

    @property
    def special(self) -> bool:
        """Whether its arrivals are its own."""
        return self.subscription.raw or self.subscription.manual_ack

    @property
    def sink(self) -> Sink | None:
        """What takes everything for the subscription; None for the subscription itself."""
        return self.subscription.sink

    @property
    def topic(self) -> str:
        """Of the subscription."""
        return self.subscription.topic

    @property
    def key(self) -> str | None:
        """What the publisher is asked for; what else the subscription wants, it judges itself."""
        return _entity(self.subscription)[1]

    def begin(self, epoch: int, lasts: Mapping[str, int], earlier: list[Arrival]) -> None:
        """The publisher has confirmed.

        Args:
            epoch: of the publisher.
            lasts: each topic's last number until then.
            earlier: what came before it was asked for, and nobody else wanted.
        """
        if not self.held:
            for arrival in earlier:
                arrival.consumed()
            return
        self.held = self.unjudged = False
        early, self._early = [*earlier, *(self._early or ())], None
        forgotten, self._forgotten = self._forgotten, False
        for topic, last in lasts.items():
            if self.topic not in (topic, ALL):
                continue
            if forgotten and (seen := self._seen(topic)) is not None:
                self._lose(epoch, topic, last, last - seen, "forgotten")
            if not self._durable:
                self._see(topic, last)
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            confirmed.set_result(None)
        self.deliver(early)

    def fail(self, error: BaseException) -> None:
        """The publisher refused."""
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            confirmed.set_exception(error.with_traceback(None))  # else the two may hold each other

    def _seen(self, topic: str) -> int | None:
        return self._last if self._lasts is None else self._lasts.get(topic)

    def _see(self, topic: str, number: int) -> None:
        if self._lasts is None:
            self._last = number
        else:
            self._lasts[topic] = number

    def restart(self, epoch: int, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self.subscription.publisher = publisher
        self.unjudged = bool(self.subscription.type)
        self._last = None
        if self._lasts is not None:
            self._lasts.clear()
        self._forgotten = False
        if not self.held:
            self._report(ALL, Gap(epoch, 0, 0, restarted=True), "restarted")
        self.held = True

    def forget(self) -> None:
        """The publisher has removed the mailbox, with what was in it."""
        self._forgotten = self._forgotten or not self.held
        self.held = True

    def take(self, arrivals: list[Arrival]) -> None:
        """Messages came."""
        if self.held:
            if self._early is None:
                self._early = []
            self._early += arrivals
        else:
            self.deliver(arrivals)

    def deliver(self, arrivals: list[Arrival]) -> None:
        """Hand on what was numbered since the subscription began."""
        fresh = list[Arrival]()
        for arrival in arrivals:
            if arrival.sequence <= (self._seen(arrival.topic) or 0):
                arrival.consumed()
            else:
                self._see(arrival.topic, arrival.sequence)
                fresh.append(arrival)
        for _, together in groupby(fresh, key=_topic):
            ready = self.subscription.admit(list(together))
            if ready is not None:
                Round(ready.executor, ready).start()

    def passed(self, letters: Sequence[Letter]) -> None:
        """Messages of its topics went to the sink; with the lock of the reader."""
        if self._lasts is not None:
            self._lasts.update([(letter.topic, letter.number) for letter in letters])
        elif letters:
            self._last = letters[-1].number
        self.subscription.passed(len(letters), sum([len(letter.body) for letter in letters]))

    def refuse(self, epoch: int, item: Item) -> None:
        """A message came that cannot be used."""
        self._lose(epoch, item.topic, item.number, 1, "refused")

    def miss(self, epoch: int, lost: Lost) -> None:
        """Messages were evicted."""
        if not self.held and lost.last > (self._seen(lost.topic) or 0):
            self._lose(epoch, lost.topic, lost.last, lost.evicted, "evicted")

    def _lose(self, epoch: int, topic: str, last: int, count: int, reason: str) -> None:
        self._see(topic, max(last, self._seen(topic) or 0))
        if count > 0:
            self._report(topic, Gap(epoch, last - count + 1, last), reason)

    def _report(self, topic: str, gap: Gap, reason: str) -> None:
        self.subscription.report_gap(gap)
        if self.sink is not None:
            self.sink.miss(Missed(self.subscription.publisher, topic, gap, reason))


def _group(found: Place | tuple[Place, ...]) -> tuple[Place, ...]:
    return found if isinstance(found, tuple) else (found,)


class Places:
    """All subscriptions to one mailbox; iterates over them. Not thread-safe.

    What one subscription or one message needs looks at no other subscription than those of its topic and key.
    """

    def __init__(self) -> None:
        self._poured: list[Burst] = []
        self._number = 0
        # By topic and key; most of many keys have one only, which needs no group.
        self._at: dict[str, dict[str | None, Place | tuple[Place, ...]]] = {}
        self._special = self._raw = self._keyed = 0
        self._sinks: dict[int, tuple[Sink | None, int]] = {}  # by id: it, and how many subscriptions have it

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Place]:
        groups = [_group(found) for keys in self._at.values() for found in keys.values()]
        return (place for group in groups for place in group)

    def add(self, place: Place) -> None:
        """One more."""
        topic, key = _entity(place.subscription)
        others = self.at(topic, key)
        self._at.setdefault(topic, {})[key] = (*others, place) if others else place
        self._count(place, 1)

    def remove(self, subscription: Subscription) -> tuple[Place, bool] | None:
        """One less: it, and whether it was the last one of its entity; None when it is not here."""
        topic, key = _entity(subscription)
        group = self.at(topic, key)
        place = next((each for each in group if each.subscription is subscription), None)
        if place is None:
            return None
        keys = self._at[topic]
        left = tuple(other for other in group if other is not place)
        if left:
            keys[key] = left[0] if len(left) == 1 else left
        else:
            del keys[key]
            if not keys:
                del self._at[topic]
        self._count(place, -1)
        return place, not left

    def _count(self, place: Place, change: int) -> None:
        self._number += change
        self._special += change * place.special
        self._raw += change * place.subscription.raw
        self._keyed += change * (place.key is not None)
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

    def who(self, topic: str, key: str | None) -> list[str]:
        """The agents that want this."""
        return sorted({place.subscription.who for place in self.at(topic, key)} - {""})[:MAX_WHO]

    def at(self, topic: str, key: str | None) -> tuple[Place, ...]:
        """Whose topic and key these are."""
        keys = self._at.get(topic)
        return () if keys is None else _group(keys.get(key, ()))

    def about(self, topic: str) -> list[Place]:
        """Who gets any message of a topic."""
        topics = (topic,) if topic == ALL else (topic, ALL)
        groups = (_group(found) for each in topics for found in self._at.get(each, {}).values())
        return [place for group in groups for place in group]


class Unclaimed:
    """Messages that no subscription wants, or not yet. Not thread-safe.

    Args:
        patience: seconds that they wait.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._arrivals: deque[tuple[float, Arrival]] = deque()

    def put(self, arrivals: list[Arrival], now: float) -> None:
        """They came."""
        self._arrivals.extend((now + self._patience, arrival) for arrival in arrivals)

    def claim(self, place: Place) -> list[Arrival]:
        """Those that a subscription wants; it has to be done with them."""
        if not self._arrivals:
            return []
        topic, key = place.topic, place.key
        waiting, claimed = deque[tuple[float, Arrival]](), list[Arrival]()
        for until, arrival in self._arrivals:
            wanted = topic in (arrival.topic, ALL) and key in (None, arrival.key)
            claimed.append(arrival) if wanted else waiting.append((until, arrival))
        self._arrivals = waiting
        return claimed

    def expired(self, now: float) -> list[Arrival]:
        """Those that have waited long enough."""
        found = list[Arrival]()
        while self._arrivals and self._arrivals[0][0] <= now:
            found.append(self._arrivals.popleft()[1])
        return found

    def clear(self) -> None:
        """The publisher was restarted: nobody waits for their acknowledgement."""
        self._arrivals.clear()
