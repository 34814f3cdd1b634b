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

Entity = tuple[str, str | None]

_topic = attrgetter("topic")


class Place:
    """One subscription; the lock of its reader protects it, but for `deliver`.

    Args:
        subscription: who gets the messages.
        durable: whether the mailbox has a name.

    Attributes:
        special: whether its arrivals are its own.
        sink: what takes everything for the subscription; None for the subscription itself.
        confirmed: done once the publisher has confirmed, or refused.
        unjudged: the publisher is another one, who may publish other types than the subscription wants.
    """

    def __init__(self, subscription: Subscription, durable: bool) -> None:
        self.subscription = subscription
        self.special = subscription.raw or subscription.manual_ack
        self.sink = subscription.sink
        self.confirmed: Future[None] = Future()
        self.held = True
        self.unjudged = False
        self._durable = durable
        self._early: list[Arrival] = []
        self._seen: dict[str, int] = {}
        self._forgotten = False

    @property
    def entity(self) -> Entity:
        """What the publisher is asked for; what else the subscription wants, it judges itself."""
        topic = self.subscription.topic
        return topic, None if topic == ALL else self.subscription.key or None

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
        early, self._early = [*earlier, *self._early], []
        if self._forgotten:
            self._forgotten = False
            for topic, last in lasts.items():
                if topic in self._seen:
                    self._lose(epoch, topic, last, last - self._seen[topic], "forgotten")
        if not self._durable:
            self._seen.update({t: n for t, n in lasts.items() if self.subscription.topic in (t, ALL)})
        if not self.confirmed.done():
            self.confirmed.set_result(None)
        self.deliver(early)

    def fail(self, error: BaseException) -> None:
        """The publisher refused."""
        if not self.confirmed.done():
            self.confirmed.set_exception(error)

    def restart(self, epoch: int, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self.subscription.publisher = publisher
        self.unjudged = bool(self.subscription.type)
        self._seen.clear()
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
            self._early += arrivals
        else:
            self.deliver(arrivals)

    def deliver(self, arrivals: list[Arrival]) -> None:
        """Hand on what was numbered since the subscription began."""
        seen, fresh = self._seen, list[Arrival]()
        for arrival in arrivals:
            if arrival.sequence <= seen.get(arrival.topic, 0):
                arrival.consumed()
            else:
                seen[arrival.topic] = arrival.sequence
                fresh.append(arrival)
        for _, together in groupby(fresh, key=_topic):
            ready = self.subscription.admit(list(together))
            if ready is not None:
                Round(ready.executor, ready).start()

    def passed(self, letters: Sequence[Letter]) -> None:
        """Messages of its topics went to the sink; with the lock of the reader."""
        self._seen.update([(letter.topic, letter.number) for letter in letters])
        self.subscription.passed(len(letters), sum([len(letter.body) for letter in letters]))

    def refuse(self, epoch: int, item: Item) -> None:
        """A message came that cannot be used."""
        self._lose(epoch, item.topic, item.number, 1, "refused")

    def miss(self, epoch: int, lost: Lost) -> None:
        """Messages were evicted."""
        if not self.held and lost.last > self._seen.get(lost.topic, 0):
            self._lose(epoch, lost.topic, lost.last, lost.evicted, "evicted")

    def _lose(self, epoch: int, topic: str, last: int, count: int, reason: str) -> None:
        self._seen[topic] = max(last, self._seen.get(topic, 0))
        if count > 0:
            self._report(topic, Gap(epoch, last - count + 1, last), reason)

    def _report(self, topic: str, gap: Gap, reason: str) -> None:
        self.subscription.report_gap(gap)
        if self.sink is not None:
            self.sink.miss(Missed(self.subscription.publisher, topic, gap, reason))


class Places:
    """All subscriptions to one mailbox; iterates over them. Not thread-safe.

    Attributes:
        special: whether any of them has arrivals of its own.
        raw: whether any of them wants frames.
        sink: what takes everything that comes for them; None when each is to get its own.
    """

    def __init__(self) -> None:
        self.special = self.raw = False
        self.sink: Sink | None = None
        self._poured: list[Burst] = []
        self._of: dict[Subscription, Place] = {}
        self._at: dict[Entity, tuple[Place, ...]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Place]:
        return iter(list(self._of.values()))

    def add(self, place: Place) -> None:
        """One more."""
        self._of[place.subscription] = place
        self._at[place.entity] = (*self._at.get(place.entity, ()), place)
        self._look()

    def remove(self, subscription: Subscription) -> tuple[Place, bool] | None:
        """One less: it, and whether it was the last one of its entity; None when it is not here."""
        place = self._of.pop(subscription, None)
        if place is None:
            return None
        left = tuple(other for other in self._at[place.entity] if other is not place)
        if left:
            self._at[place.entity] = left
        else:
            del self._at[place.entity]
        self._look()
        return place, not left

    def _look(self) -> None:
        self.special = any(place.special for place in self._of.values())
        self.raw = any(place.subscription.raw for place in self._of.values())
        sinks = {id(place.sink) for place in self._of.values() if place.entity[1] is None}
        every = len(sinks) == 1 and all(place.entity[1] is None for place in self._of.values())
        self.sink = next(iter(self._of.values())).sink if every else None

    @property
    def paused(self) -> bool:
        """Whether any sink takes no more for now."""
        return any(place.sink is not None and place.sink.paused for place in self._of.values())

    def wanting(self, topic: str, key: str | None = None) -> tuple[Place, ...]:
        """Who gets a message."""
        at = self._at
        some = at.get((topic, key), ()) if key else ()
        return (*at.get((topic, None), ()), *some, *at.get((ALL, None), ()))

    def takes(self, topics: Iterable[str]) -> bool:
        """Whether messages of these topics all go to the sink."""
        return self.sink is not None and all(self.wanting(topic) for topic in topics)

    def pour(self, burst: Burst) -> None:
        """Messages came for the sink, which gets them once the publisher has confirmed all subscriptions."""
        self._poured.append(burst)
        self.flow()

    def flow(self) -> None:
        """Let the sink have what waits for it, unless that has to wait."""
        if self.sink is None or any(place.held for place in self._of.values()):
            return
        poured, self._poured = self._poured, []
        for burst in poured:
            letters = burst.letters
            for place in self._of.values():
                topic = place.entity[0]
                mine = letters if topic == ALL else [each for each in letters if each.topic == topic]
                place.passed(mine)
            self.sink.take(burst)

    def who(self, entity: Entity) -> list[str]:
        """The agents whose entity that is."""
        return sorted({place.subscription.who for place in self.at(entity)} - {""})[:MAX_WHO]

    def at(self, entity: Entity) -> tuple[Place, ...]:
        """Whose entity that is."""
        return self._at.get(entity, ())

    def about(self, topic: str) -> list[Place]:
        """Who gets any message of a topic."""
        return [place for place in self._of.values() if place.subscription.topic in (topic, ALL)]


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
        topic, key = place.entity
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
