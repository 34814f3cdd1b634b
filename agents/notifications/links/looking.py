"""Looking: who of the readers of one publisher lives, is silent, or has been silent for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from ....protocol import limits
from ....transport.counters import Counters
from ....transport.loop import Loop
from ....transport.timers import until_next
from .live_outlet import LiveOutlet
from .mailbox_outlet import MailboxOutlet
from .outlet import Outlet
from .outlets import Outlets

logger = logging.getLogger("pzc.links")


class Looking:
    """Looks each `link_look` seconds, while there are links; I/O thread, but for `watch`.

    Args:
        outlets: the links.
        loop: keeps the time.
        counters: where mailboxes that are removed are counted.
    """

    def __init__(self, outlets: Outlets, loop: Loop, counters: Counters) -> None:
        self._counters = counters
        self._outlets = outlets
        self._loop = loop
        self._looking = False

    def watch(self) -> None:
        """Look at signs of life from now on, as long as there are links; any thread."""
        if not self._looking:
            self._looking = True
            self._loop.call_later(until_next(limits.current.link_look), self._look)

    def _look(self) -> bool:
        now, quiet = time.monotonic(), True
        for outlet in self._outlets.all():
            try:
                quiet = self._look_at(outlet, now) and quiet
            except Exception:  # the others are looked at all the same, and this one again
                logger.exception("%r could not be looked after", outlet)
                quiet = False
        self._looking = False
        if self._outlets.links:
            self.watch()
        return quiet

    def _look_at(self, outlet: Outlet, now: float) -> bool:
        """As `Loop.call_later` returns it."""
        if isinstance(outlet, LiveOutlet):
            return self._look_at_live(outlet, now)
        return not isinstance(outlet, MailboxOutlet) or self._look_at_mailbox(outlet, now)

    def _look_at_mailbox(self, outlet: MailboxOutlet, now: float) -> bool:
        outlets, queue = self._outlets, outlet.queue
        with outlets.lock:
            if queue.has_orphans and now - outlet.said_at > limits.current.mail_adoption:
                queue.forget_others()
                outlets.routes.renew()
            over, kept = outlet.is_over(now), queue.waiting + queue.unacknowledged
        if over:
            self._counters.add("mailboxes_expired")
            self._counters.add("mailbox_messages_expired", kept)
            logger.warning(
                "the mailbox of %s was removed with %d messages: it was silent for too long",
                outlet.reader, kept,
            )  # fmt: skip
            outlets.end(outlet, "it was silent for too long")
        elif outlet.kind == "unix":
            outlet.beat(now + limits.current.link_look / 4)  # not a whole look late
        return not over

    def _look_at_live(self, outlet: LiveOutlet, now: float) -> bool:
        if outlet.is_local:
            outlet.liveness.heard(now)
        if outlet.alone(now) > limits.current.link_keep:
            self._outlets.end(outlet, "it was silent for too long")
        elif outlet.queue.suspended:
            return True
        elif outlet.liveness.state(now) == "lost":
            self._outlets.suspend(outlet, f"it has been silent for {outlet.liveness.silence(now):.1f} s")
        elif outlet.alone(now) > limits.current.silence:
            self._outlets.suspend(outlet, "its connection ended and it did not come back")
        elif outlet.is_local and not outlet.queue.behind:
            return True
        else:
            outlet.beat(now + limits.current.link_look / 4)  # not a whole look late
            return outlet.kind != "tcp"
        return False

    def make_room(self, links: Iterable[Outlet]) -> bool:
        """End one of these that is suspended in favour of another link; False when none is."""
        found = next((each for each in links if each.queue.suspended), None)
        if found is not None:
            self._outlets.end(found, "it was silent when another link needed its place")
        return found is not None
