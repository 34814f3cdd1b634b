"""Roster: what each subscription of this process gets of one link, found by the number of its interest."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from ....delivery.cursor import Gap
from ....protocol.link_messages import Command, Row
from ..callbacks import start
from ..columns import Sink
from ..keys import every
from ..shares import Come, Share
from ..subscription import Subscription
from .arrivals import Flow
from .together import Together

_MOST_KNOWN = 10_000


class LinkShare(Share):
    """See `Share`; safe from any thread.

    Args:
        subscription: who gets the arrivals.
        interest: its number on the link, which no other share has or had.
        confirmed: to be done once the publisher has confirmed, or refused.

    Attributes:
        command: what the publisher is asked for; the throttle the subscription judges itself.
        window: most messages of a block or a mailbox that are not done with, as the publisher said last.
    """

    __slots__ = ("command", "interest", "window")

    def __init__(
        self, subscription: Subscription, interest: int, confirmed: Future[None] | None = None
    ) -> None:
        super().__init__(subscription, confirmed, lock=threading.Lock())
        self.interest = interest
        policy, keys = subscription.policy, subscription.key
        self.window = policy.bound
        self.command = Command(
            interest, subscription.topic, None if keys is None else sorted(every(keys)), policy.name,
            policy.bound, policy.timeout, subscription.who, subscription.type,
            subscription.initial, policy.max_bytes, policy.when_full, policy.keep, subscription.raw,
        )  # fmt: skip

    def pass_by(self, topic: str, rows: Sequence[Row]) -> None:
        """Messages went to the sink."""
        self._cursors.at(topic).new(rows[-1].number)
        self.subscription.passed(len(rows), sum([len(row.body) for row in rows]))

    def spoil(self, epoch: int, topic: str, number: int) -> None:
        """A message for the sink came that cannot be used."""
        if self.held or self._cursors.at(topic).new(number):
            self._report(topic, Gap(epoch, number, number), "refused")


class MailboxShare(LinkShare):
    """One whose messages are kept until they are done with.

    What came before the publisher confirmed is not lost when the mailbox ended, or the publisher was
    restarted: of a mailbox with a name it is delivered, of another one it is part of the gap that follows.
    """

    __slots__ = ()

    @property
    def special(self) -> bool:
        """Whether its arrivals are its own."""
        return self.subscription.raw or self.subscription.manual_ack

    def _miss_early(self, early: list[Come]) -> None:
        for come in early:
            if isinstance(come, Together) and self._cursors.at(come.topic).last is None:
                first = come.arrivals[0]
                self._cursors.at(come.topic).begin(first.epoch, first.sequence - 1)
        if self.subscription.policy.durable is None:
            super()._miss_early(early)
        else:
            start([self.admit(each) for each in early])


class Wanting(NamedTuple):
    """Who gets what comes for some interests.

    Attributes:
        shares: theirs.
        flow: all that comes for just these; it knows nobody, because a view that is kept keeps it.
        special: those of a mailbox whose arrivals are their own.
        sink: what takes everything for all of them; None when each is to get its own.
    """

    shares: tuple[LinkShare, ...]
    flow: Flow
    special: tuple[LinkShare, ...] = ()
    sink: Sink | None = None


def _wanting(shares: tuple[LinkShare, ...]) -> Wanting:
    windows = [each.window for each in shares if not each.subscription.policy.lossy]
    flow = Flow(max(1, min(windows) // 2) if windows else None)
    special = tuple([each for each in shares if isinstance(each, MailboxShare) and each.special])
    if not special:
        return Wanting(shares, flow)
    sinks = [each.subscription.sink if each.subscription.key is None else None for each in shares]
    return Wanting(shares, flow, special, sinks[0] if all(each is sinks[0] for each in sinks) else None)


class Roster:
    """Safe from any thread.

    Attributes:
        bound: the largest one of all policies that there were.
        known: what `wanting` has found of late.
        sinks: of those subscriptions that have one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[Subscription, LinkShare] = {}
        self._by_interest: dict[int, LinkShare] = {}
        self.known: dict[tuple[int, ...], Wanting] = {}
        self.sinks: dict[Subscription, Sink] = {}
        self.bound = 0

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[LinkShare]:
        with self._lock:
            return iter(list(self._of.values()))

    def add(self, share: LinkShare) -> None:
        """One more."""
        subscription = share.subscription
        with self._lock:
            self._of[subscription] = self._by_interest[share.interest] = share
            self.bound = max(self.bound, subscription.policy.bound)
            if subscription.sink is not None:
                self.sinks[subscription] = subscription.sink

    def remove(self, subscription: Subscription) -> LinkShare | None:
        """One less; None when it had none."""
        with self._lock:
            share = self._of.pop(subscription, None)
            if share is not None:
                del self._by_interest[share.interest]
                self.sinks.pop(subscription, None)
                self.known = {}
            return share

    @property
    def paused(self) -> bool:
        """Whether any sink takes no more for now."""
        with self._lock:
            return any(sink.paused for sink in self.sinks.values())

    def at(self, interest: int) -> LinkShare | None:
        """The share of an interest, while it is there."""
        return self._by_interest.get(interest)

    def confirm(self, share: LinkShare, window: int) -> None:
        """The publisher has said how many messages may be under way for a share."""
        with self._lock:
            share.window = window
            self.known = {}

    def wanting(self, interests: Sequence[int]) -> Wanting:
        """Who gets what comes for these; the same as before, so that all of it is one flow."""
        asked = tuple(interests)
        with self._lock:
            known = self.known.get(asked)
            if known is None:
                found = [self._by_interest[each] for each in asked if each in self._by_interest]
                if len(self.known) >= _MOST_KNOWN:
                    self.known = {}
                known = self.known[asked] = _wanting(tuple(found))
            return known

    def restart(self, publisher: str) -> None:
        """It has taken the place of the one before, numbering anew."""
        for share in self:
            share.restart(publisher)
