"""Looking: who of the readers of one publisher lives, is silent, or has been silent for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from ....delivery.standstill import Standstill
from ....protocol import limits
from ....transport.counters import Counters
from ....transport.loop import Loop
from ....transport.timers import until_next
from .link_subscriber import LinkSubscriber
from .mailbox_subscriber import MailboxSubscriber
from .subscriber import Subscriber
from .subscribers import Subscribers

_MAIL_ADOPTION = 10.0
"""Seconds for which a process that opens a named mailbox may ask for what is kept there."""


logger = logging.getLogger("pzc.links")


class Looking:
    """Looks each `link_look` seconds, while there are links; I/O thread, but for `watch`.

    Args:
        subscribers: the links.
        loop: keeps the time.
        counters: where mailboxes that are removed are counted.
    """

    def __init__(self, subscribers: Subscribers, loop: Loop, counters: Counters) -> None:
        self._counters = counters
        self._subscribers = subscribers
        self._loop = loop
        self._looking = False
        self._standstill = Standstill(limits.current.link_look, time.monotonic())

    def watch(self) -> None:
        """Look at signs of life from now on, as long as there are links; any thread."""
        if not self._looking:
            self._looking = True
            self._standstill = Standstill(limits.current.link_look, time.monotonic())
            self._loop.call_later(until_next(limits.current.link_look), self._look)

    def _look(self) -> bool:
        now, quiet = time.monotonic(), True
        stood = self._standstill.look(now)
        for subscriber in self._subscribers.all():
            try:
                subscriber.excuse(stood, now)
                quiet = self._look_at(subscriber, now) and quiet
            except Exception:  # the others are looked at all the same, and this one again
                logger.exception("%r could not be looked after", subscriber)
                quiet = False
        self._looking = False
        if self._subscribers.links:
            self.watch()
        return quiet

    def _look_at(self, subscriber: Subscriber, now: float) -> bool:
        """As `Loop.call_later` returns it."""
        if isinstance(subscriber, LinkSubscriber):
            return self._look_at_live(subscriber, now)
        return not isinstance(subscriber, MailboxSubscriber) or self._look_at_mailbox(subscriber, now)

    def _look_at_mailbox(self, subscriber: MailboxSubscriber, now: float) -> bool:
        subscribers, queue, unwanted = self._subscribers, subscriber.queue, 0
        with subscribers.lock:
            if queue.has_orphans and now - subscriber.said_at > _MAIL_ADOPTION:
                unwanted = queue.forget_others()
                subscribers.routes.renew()
            over, kept = subscriber.is_over(now), queue.waiting + queue.unacknowledged
        if unwanted:
            self._counters.add("mailbox_messages_unwanted", unwanted)
            logger.warning(
                "the mailbox of %s had %d messages that its reader before was not done with and the one "
                "of now does not want: they were given up", subscriber.reader, unwanted,
            )  # fmt: skip
        if over:
            self._counters.add("mailboxes_expired")
            self._counters.add("mailbox_messages_expired", kept)
            logger.warning(
                "the mailbox of %s was removed with %d messages: it was silent for too long",
                subscriber.reader, kept,
            )  # fmt: skip
            subscribers.end(subscriber, "it was silent for too long")
        elif subscriber.kind == "unix":
            subscriber.beat(now + limits.current.link_look / 4)  # not a whole look late
        return not over

    def _look_at_live(self, subscriber: LinkSubscriber, now: float) -> bool:
        if subscriber.is_local:
            subscriber.liveness.heard(now)
        if subscriber.alone(now) > limits.current.link_keep:
            self._subscribers.end(subscriber, "it was silent for too long")
        elif subscriber.queue.suspended:
            return True
        elif subscriber.liveness.look(now) == "lost":
            self._subscribers.suspend(
                subscriber, f"it has been silent for {subscriber.liveness.silence(now):.1f} s"
            )
        elif subscriber.alone(now) > limits.current.silence:
            self._subscribers.suspend(subscriber, "its connection ended and it did not come back")
        elif subscriber.is_local and not subscriber.queue.behind:
            return True
        else:
            subscriber.beat(now + limits.current.link_look / 4)  # not a whole look late
            return subscriber.kind != "tcp"
        return False

    def make_room(self, links: Iterable[Subscriber]) -> bool:
        """End one of these that is suspended in favour of another link; False when none is."""
        found = next((each for each in links if each.queue.suspended), None)
        if found is not None:
            self._subscribers.end(found, "it was silent when another link needed its place")
        return found is not None
