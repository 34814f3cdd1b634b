"""Place: one subscription of this process to a mailbox, and which messages it gets.

What came before the publisher has confirmed is not lost when the mailbox was removed, or the publisher was
restarted: of a mailbox with a name it is delivered, of another one it is part of the gap that follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future

from ....delivery.cursor import Cursor, Gap
from ....delivery.mail import ALL
from ....protocol.bundle import Item, Record
from ....protocol.notification import Notification
from ..callbacks import start
from ..links.arrivals import LeftOut, Together
from ..shares import Come, Share
from ..subscription import Subscription
from .bursts import Sink

_EVERY = (None,)


def asked_keys(subscription: Subscription) -> Collection[str | None]:
    """What a publisher is asked for; what else the subscription wants, it judges itself."""
    key = subscription.key
    if not key or subscription.topic == ALL:
        return _EVERY
    if isinstance(key, str):
        return (key,)
    return _EVERY if "" in key else key


class Place(Share):
    """One subscription to a mailbox; all of it in the I/O thread.

    Args:
        subscription: who gets the messages.
        durable: whether the mailbox has a name.
        confirmed: to be done once the publisher has confirmed, or refused.

    Attributes:
        begun: it was confirmed once.
        unjudged: the publisher is another one, who may publish other types than the subscription wants.
    """

    __slots__ = ("_begun", "_missed", "_unsaid", "begun", "unjudged")

    bounded = False  # no more comes than the mailbox may have under way

    def __init__(self, subscription: Subscription, durable: bool, confirmed: Future[None]) -> None:
        super().__init__(subscription, confirmed, durable)
        self.unjudged = self.begun = False
        self._begun: int | Mapping[str, int] = 0
        self._missed: dict[str, int] | None = None  # last number of each topic that is known to be evicted
        self._unsaid = self._all()  # of many keys, those that are not confirmed

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

    def _all(self) -> set[str | None] | None:
        return set(self.keys) if self.many else None

    def confirm(self, key: str | None) -> bool:
        """The publisher has confirmed a key; whether it has confirmed all of them now."""
        if self._unsaid is None:
            return self.held
        self._unsaid.discard(key)
        return self.held and not self._unsaid

    def begin(
        self,
        epoch: int,
        lasts: Mapping[str, int],
        earlier: Iterable[Together] = (),
        retained: Iterable[Notification | Gap] | None = None,
    ) -> None:
        """See `Share.begin`."""
        self.unjudged, self.begun, self._unsaid, self._begun = False, True, None, 0
        if not self._kept:
            self._begun = lasts if self.topic == ALL else lasts.get(self.topic, 0)
        super().begin(epoch, lasts, earlier, retained)

    def restart(self, publisher: str) -> None:
        """See `Share.restart`."""
        super().restart(publisher)
        self.unjudged = bool(self.subscription.type)

    def forget(self) -> None:
        """The publisher has removed the mailbox, with what was in it."""
        missed, self._missed = self._missed or {}, None
        for topic in missed:
            self._cursors.at(topic).lost(0, missed[topic])
        super().forget()
        self._unsaid = self._all()

    def _miss_early(self, early: list[Come]) -> None:
        """Of a mailbox with a name it is delivered, else missed."""
        if self._kept and not self.unjudged:
            start([self._admit(each) for each in early])
            return
        for come in early:
            for arrival in come.arrivals if isinstance(come, Together) else ():
                cursor = self._cursors.at(arrival.topic)
                if cursor.last is None:
                    cursor.begin(arrival.epoch, arrival.sequence - 1)
        super()._miss_early(early)

    def _tell(self, cursor: Cursor, last: LeftOut) -> None:
        """Evictions of one key are told before older messages of others have come."""
        topic, number, begun = last.topic, last.number, self._begun
        count = min(last.lost, number - (begun if isinstance(begun, int) else begun.get(topic, 0)))
        if cursor.epoch is not None and count > 0:
            self._missed = missed = self._missed or {}
            missed[topic] = max(number, missed.get(topic, 0))
            self._report(topic, Gap(cursor.epoch, number - count + 1, number), "evicted")

    def passed(self, records: Sequence[Record]) -> None:
        """Messages of its topics went to the sink; with the lock of the reader."""
        for topic, number in {record.topic: record.number for record in records}.items():
            self._cursors.at(topic).new(number)
        self.subscription.passed(len(records), sum([len(record.body) for record in records]))

    def spoil(self, epoch: int, item: Item) -> None:
        """A message came that cannot be used."""
        if self.held or self._cursors.at(item.topic).new(item.number):
            self._report(item.topic, Gap(epoch, item.number, item.number), "refused")
