"""Places: the subscriptions of this process on one link.

::

    state     event                             next      what happens
    held      arrival                           held      kept, up to `early_notifications`; the rest is lost
    held      the publisher confirmed           open      what it numbers later is delivered
    open      arrival                           open      losses before it are told, then it is delivered
    open      another publisher is in its place held      one restart gap, once that one has confirmed
    open      confirmed, without memory of us   open      what was missed meanwhile is told as lost
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ....delivery.sequences import Gap
from ....protocol import limits
from ..filters import ANY
from ..rounds import rounds
from ..subscription import Subscription
from .arrivals import Arrival, Together, alone


class Place:
    """One subscription on one link; safe from any thread, arrivals come from one at a time.

    Args:
        subscription: who gets the arrivals.

    Attributes:
        confirmed: done once the publisher has confirmed, or refused.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.confirmed: Future[None] = Future()
        self._lock = threading.Lock()
        self._held: list[tuple[Arrival, int]] | None = []
        self._open = False  # nothing is held any more, nor being handed on
        self._left_out: dict[str, int] = {}
        self._restarted = False
        self._floors: Mapping[str, int] = {}
        self._seen: dict[str, int] = {}

    @property
    def wish(self) -> list[Any]:
        """What the publisher is asked for, and by whom; key and throttle the subscription judges itself."""
        policy, who = self.subscription.policy, self.subscription.who or None
        topic = self.subscription.topic
        return [topic, None, policy.name, policy.bound, policy.timeout, policy.on_timeout, who]

    @property
    def held(self) -> bool:
        """True until the publisher has confirmed."""
        return self._held is not None

    def wants(self, topic: str) -> bool:
        """True for the subscription's topic; of the key the subscription judges itself."""
        return self.subscription.topic in (topic, ANY)

    def begin(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher has confirmed: each topic's last number that is not part of this.

        A topic that is not named had none.
        """
        with self._lock:
            held, self._held = self._held, None
            if held is None:
                return
            self._floors = dict(lasts)
            self._seen.clear()
            restarted, self._restarted = self._restarted, False
            if self.subscription.held:  # it came from the broadcast plane
                self.subscription.begin(epoch, {})
            if restarted:
                self.subscription.report_gap(Gap(epoch, 0, 0, restarted=True))
            for topic, number in self._left_out.items():
                self._lose(epoch, topic, number, number - self._floors.get(topic, 0))
            self._left_out.clear()
            ready = [self._admit(alone(arrival, lost)) for arrival, lost in held]
            self._open = True
        for each in rounds(called for called in ready if called is not None):
            each.start()
        if not self.confirmed.done():
            self.confirmed.set_result(None)

    def resume(self, epoch: int, lasts: Mapping[str, int]) -> None:
        """The publisher confirmed anew, and had closed the link: what it numbered until then is lost."""
        if self.held:
            self.begin(epoch, lasts)
            return
        with self._lock:
            for topic, number in lasts.items():
                if topic in self._seen or topic in self._floors or self.subscription.topic == topic:
                    before = max(self._seen.get(topic, 0), self._floors.get(topic, 0))
                    self._lose(epoch, topic, number, number - before)
            self._floors = {**self._floors, **lasts}

    def fail(self, error: BaseException) -> None:
        """The publisher refused."""
        if not self.confirmed.done():
            self.confirmed.set_exception(error.with_traceback(None))  # else the two may hold each other

    def restart(self, publisher: str) -> None:
        """Another agent has taken the publisher's place, numbering anew."""
        self.subscription.publisher = publisher
        with self._lock:
            self._open = False
            if self._held is None:
                self._restarted = True
            held, self._held = self._held or [], []
            self._left_out.clear()
        for arrival, _ in held:
            arrival.consumed()

    def take(self, together: Together) -> Subscription | None:
        """Take arrivals that are wanted; returns as `Subscription.admit`."""
        return None if not self._open and self._keep(together) else self._admit(together)

    def _admit(self, together: Together) -> Subscription | None:
        topic, arrivals = together.topic, together.arrivals
        floor = self._floors.get(topic, 0)
        if together.lost or arrivals[0].sequence <= floor:
            return self._take_after_losses(together, floor)
        self._seen[topic] = arrivals[-1].sequence
        return self.subscription.admit(arrivals, together.size)

    def _keep(self, together: Together) -> bool:
        """Keep them until the publisher has confirmed; False when it has."""
        with self._lock:
            held = self._held
            if held is None:
                return False
            room = limits.current.early_notifications - len(held)
            held.extend(
                (arrival, together.lost.get(arrival.sequence, 0)) for arrival in together.arrivals[:room]
            )
            refused = together.arrivals[room:]
            for arrival in refused:
                self._left_out[arrival.topic] = arrival.sequence
        for arrival in refused:
            arrival.consumed()
        return True

    def _take_after_losses(self, together: Together, floor: int) -> Subscription | None:
        """Those that are not part of the beginning, each loss told before what came after it."""
        topic, subscription, ready = together.topic, self.subscription, list[Arrival]()
        called: Subscription | None = None
        for arrival in together.arrivals:
            number = arrival.sequence
            if number <= floor:
                arrival.consumed()
                continue
            lost = together.lost.get(number, 0)
            if lost:
                if ready:  # first
                    called = subscription.admit(ready) or called
                    ready = []
                self._lose(arrival.epoch, topic, number - 1, min(lost, number - 1 - floor))
            self._seen[topic] = number
            ready.append(arrival)
        if ready:
            called = subscription.admit(ready) or called
        return called

    def tell(self, epoch: int, topic: str, number: int, lost: int) -> None:
        """The last number of a topic, of which this many were dropped that no arrival will tell of."""
        if not self.held and self.wants(topic):
            self._lose(epoch, topic, number, min(lost, number - self._floors.get(topic, 0)))
            self._seen[topic] = number

    def miss(self, arrival: Arrival) -> None:
        """An arrival cannot be read in this process."""
        if not self.held and arrival.sequence > self._floors.get(arrival.topic, 0):
            self._lose(arrival.epoch, arrival.topic, arrival.sequence, 1)

    def _lose(self, epoch: int, topic: str, last: int, count: int) -> None:
        if count > 0:
            self.subscription.report_gap(Gap(epoch, last - count + 1, last))
