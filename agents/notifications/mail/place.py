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
    open      the publisher was restarted       held      once confirmed, one restart gap
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

from ....delivery.cursor import Cursors, Gap
from ....delivery.mail import ALL, Lost
from ....protocol.bundle import Item, Record
from ..links.arrivals import Arrival
from ..rounds import Round
from ..subscription import Subscription
from .bursts import Missed, Sink

_topic = attrgetter("topic")


_EVERY = (None,)


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
        "_confirmed", "_cursors", "_durable", "_early", "_unsaid", "held", "subscription", "unjudged",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, durable: bool, confirmed: Future[None]) -> None:
        self.subscription = subscription
        self._confirmed: Future[None] | None = confirmed
        self.unjudged = False
        self._durable = durable
        self._early: list[Arrival] | None = None
        self._cursors = Cursors(None if subscription.topic == ALL else subscription.topic)
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
        for topic, gap in self._cursors.begin(epoch, lasts, self._durable):
            self._report(topic or ALL, gap, "restarted" if gap.restarted else "forgotten")
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

    def restart(self, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self._end_early()
        self.subscription.publisher = publisher
        self.unjudged = bool(self.subscription.type)
        self._cursors.restart()
        self._hold()

    def forget(self) -> None:
        """The publisher has removed the mailbox, with what was in it."""
        self._end_early()
        self._hold()

    def _end_early(self) -> None:
        """What came is not confirmed any more: delivered of a name, else missed."""
        early, self._early = self._early or [], None
        if self._durable and not self.unjudged:
            self.deliver(early)
            return
        for arrival in early:
            cursor = self._cursors.at(arrival.topic)
            if cursor.last is None:
                cursor.begin(arrival.epoch, arrival.sequence - 1)
            arrival.consumed()

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
            if self._cursors.at(arrival.topic).new(arrival.sequence):
                fresh.append(arrival)
            else:
                arrival.consumed()
        for _, together in groupby(fresh, key=_topic):
            ready = self.subscription.admit(list(together))
            if ready is not None:
                Round(ready.executor, ready).start()

    def passed(self, letters: Sequence[Record]) -> None:
        """Messages of its topics went to the sink; with the lock of the reader."""
        for topic, number in {letter.topic: letter.number for letter in letters}.items():
            self._cursors.at(topic).new(number)
        self.subscription.passed(len(letters), sum([len(letter.body) for letter in letters]))

    def refuse(self, epoch: int, item: Item) -> None:
        """A message came that cannot be used."""
        if self.held or self._cursors.at(item.topic).new(item.number):
            self._report(item.topic, Gap(epoch, item.number, item.number), "refused")

    def miss(self, lost: Lost) -> None:
        """Messages were evicted."""
        gap = None if self.held else self._cursors.at(lost.topic).lost(lost.evicted, lost.last)
        if gap is not None:
            self._report(lost.topic, gap, "evicted")

    def _report(self, topic: str, gap: Gap, reason: str) -> None:
        self.subscription.report_gap(gap)
        if self.sink is not None:
            self.sink.miss(Missed(self.subscription.publisher, topic, gap, reason))
