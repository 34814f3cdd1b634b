"""Place: one subscription of this process on one link."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from ..keys import every
from ..shares import Share
from ..subscription import Subscription


class Place(Share):
    """See `Share`; safe from any thread."""

    __slots__ = ()

    def __init__(self, subscription: Subscription, confirmed: Future[None] | None = None) -> None:
        super().__init__(subscription, confirmed, lock=threading.Lock())

    @property
    def wish(self) -> list[Any]:
        """What the publisher is asked for, and by whom; the throttle the subscription judges itself."""
        policy, who = self.subscription.policy, self.subscription.who or None
        topic = self.subscription.topic
        key = self.subscription.key
        keys = None if key is None else sorted(every(key))
        return [topic, keys, policy.name, policy.bound, policy.timeout, policy.on_timeout, who]
