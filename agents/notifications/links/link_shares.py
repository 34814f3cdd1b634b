"""Link shares: what each subscription of this process gets of one link."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from ....delivery.cursor import Gap
from ....protocol.link_messages import Command, Row
from ..callbacks import start
from ..keys import every
from ..shares import Come, Share
from ..subscription import Subscription
from .arrivals import Together


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
            policy.bound, policy.timeout, policy.on_timeout, subscription.who, subscription.type,
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

    bounded = False  # no more comes than the mailbox may have under way

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
