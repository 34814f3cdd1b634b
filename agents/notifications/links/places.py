"""Place: one subscription of this process on one link."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

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
        window: most messages of a block that are not done with, as the publisher said last.
    """

    __slots__ = ("interest", "window")

    def __init__(
        self, subscription: Subscription, interest: int, confirmed: Future[None] | None = None
    ) -> None:
        super().__init__(subscription, confirmed, lock=threading.Lock())
        self.interest = interest
        self.window = subscription.policy.bound

    @property
    def command(self) -> list[Any]:
        """What the publisher is asked for, and by whom; the throttle the subscription judges itself."""
        policy, who = self.subscription.policy, self.subscription.who or None
        topic, key = self.subscription.topic, self.subscription.key
        keys = None if key is None else sorted(every(key))
        return [self.interest, topic, keys, policy.name, policy.bound, policy.timeout, policy.on_timeout, who]
