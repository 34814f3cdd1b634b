"""Place: one subscription of this process on one link."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from ....protocol.link_messages import Command
from ..keys import every
from ..shares import Share
from ..subscription import Subscription


class Place(Share):
    """See `Share`; safe from any thread.

    Args:
        subscription: who gets the arrivals.
        interest: its number on the link, which no other place has or had.
        confirmed: to be done once the publisher has confirmed, or refused.

    Attributes:
        command: what the publisher is asked for; the throttle the subscription judges itself.
        window: most messages of a block that are not done with, as the publisher said last.
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
            subscription.initial,
        )  # fmt: skip
