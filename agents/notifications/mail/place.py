"""Place: one subscription of this process to a mailbox, and which messages it gets.

::

    state     event                             next      what happens
    held      message                           held      kept
    held      the publisher confirmed           open      what it numbers later is delivered; of a mailbox
                                                          with a name everything: it was kept for us
    held      the mailbox was removed           held      what was kept is a gap once confirmed
    held      the publisher was restarted       held      what was kept, and what is not said yet, is one
                                                          restart gap; with a name it is delivered before
    open      message                           open      delivered
    open      messages were evicted             open      a gap of so many
    open      the mailbox was removed           held      once confirmed, a gap of what was numbered meanwhile
    open      the publisher was restarted       held      one restart gap
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

from ....delivery.mail import ALL, Lost
from ....delivery.sequences import Gap
from ....protocol.bundle import Item, Record
from ..links.arrivals import Arrival
from ..rounds import Round
from ..subscription import Subscription
from .bursts import Missed, Sink

_topic = attrgetter("topic")


_EVERY = (None,)
_NONE: Mapping[str, int] = MappingProxyType({})


def asked_keys(subscription: Subscription) -> Collection[str | None]:
    """What a publisher is asked for; what else the subscription wants, it judges itself."""
    key = subscription.key
    if not key or subscription.topic == ALL:
        return _EVERY
    if isinstance(key, str):
        return (key,)
    return _EVERY if "" in key else key


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
        "_begun", "_confirmed", "_durable", "_early", "_forgotten", "_last", "_lasts", "_unsaid", "held",
        "subscription", "unjudged",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, durable: bool, confirmed: Future[None]) -> None:
        self.subscription = subscription
        self._confirmed: Future[None] | None = confirmed
        self.unjudged = False
        self._durable = durable
        self._early: list[Arrival] | None = None
        # The highest numbers that were seen: of its topic, or of each when it is for all topics.
        self._last: int | None = None
        self._lasts: dict[str, int] | None = {} if subscription.topic == ALL else None
        self._begun: Mapping[str, int] | None = None  # numbers after which unseen topics began
        self._forgotten = False
        self._unsaid: set[str | None] | None = None  # of many keys, those that are not confirmed
        self._hold()

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
    def keys(self) -> Collection[str | None]:
        """As `asked_keys`."""
        return asked_keys(self.subscription)

    @property
    def keyed(self) -> bool:
        """Whether the publisher is asked for some keys only."""
        return self.keys is not _EVERY

    @property
    def many(self) -> bool:
        """Whether the publisher is asked for several keys, said one by one."""
        return isinstance(self.keys, frozenset)

    def wants(self, topic: str, key: str) -> bool:
        """Whether messages of a topic with a key are for it."""
        return self.topic in (topic, ALL) and (not self.keyed or key in self.keys)

    def _hold(self) -> None:
        """Nothing is confirmed."""
        self.held = True
        self._unsaid = set(self.keys) if self.many else None

    def confirm(self, key: str | None) -> bool:
        """The publisher has confirmed a key; whether it has confirmed all of them now."""
        if self._unsaid is None:
            return self.held
        self._unsaid.discard(key)
        return self.held and not self._unsaid

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
        self._unsaid = None
        early, self._early = [*earlier, *(self._early or ())], None
        forgotten, self._forgotten = self._forgotten, False
        for topic, last in lasts.items():
            if self.topic not in (topic, ALL):
                continue
            if forgotten and (seen := self._seen(topic, self._begun)) is not None:
                self._lose(epoch, topic, last, last - seen, "forgotten")
            if not self._durable:
                self._see(topic, last)
        self._begun = lasts if self._durable else _NONE
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            with suppress(InvalidStateError):  # it was closed at this moment
                confirmed.set_result(None)
        self.deliver(early)

    def fail(self, error: BaseException) -> None:
        """The publisher refused, or nobody waits for it any more."""
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not None:
            with suppress(InvalidStateError):  # it was confirmed at this moment
                confirmed.set_exception(error.with_traceback(None))  # else the two may hold each other

    def _seen(self, topic: str, begun: Mapping[str, int] | None = None) -> int | None:
        seen = self._last if self._lasts is None else self._lasts.get(topic)
        return seen if seen is not None or begun is None else begun.get(topic, 0)

    def _see(self, topic: str, number: int) -> None:
        if self._lasts is None:
            self._last = number
        else:
            self._lasts[topic] = number

    def restart(self, epoch: int, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        missed = self._end_early()
        self.subscription.publisher = publisher
        self.unjudged = bool(self.subscription.type)
        self._last = None
        if self._lasts is not None:
            self._lasts.clear()
        self._begun = None
        if missed or self._forgotten or not self.held:
            self._report(ALL, Gap(epoch, 0, 0, restarted=True), "restarted")
        self._forgotten = False
        self._hold()

    def forget(self) -> None:
        """The publisher has removed the mailbox, with what was in it."""
        self._forgotten = self._end_early() or self._forgotten or not self.held
        self._hold()

    def _end_early(self) -> bool:
        """What came is not confirmed any more: delivered of a name, else missed; False for nothing."""
        early, self._early = self._early or [], None
        if self._durable and not self.unjudged:
            self.deliver(early)
            return bool(early)
        for arrival in early:
            if self._seen(arrival.topic) is None:
                self._see(arrival.topic, arrival.sequence - 1)
            arrival.consumed()
        return bool(early)

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

    def passed(self, letters: Sequence[Record]) -> None:
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
