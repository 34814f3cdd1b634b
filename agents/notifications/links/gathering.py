"""BurstDetector: publications in quick succession, whose messages are gathered and go together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from ....transport.loop import Loop

_BURST_PAUSE = 50e-6
"""Seconds from one publication to the next below which they may belong to a burst."""

_BURST_PUBLICATIONS = 8
"""Quick publications in succession after which more are gathered."""


logger = logging.getLogger("pzc.links")

SMALL = 4096
"""Bytes of a content that waits for others, where nobody waits for it so urgently."""

SHARE = 64
"""Notifications between two pauses of whoever publishes faster than others send or fetch; a power of two."""

PAUSE = 50e-6
"""Seconds, at least, that the others get."""

LOOK = 16
"""Publications of a burst between two looks at what is left to the I/O thread; a power of two."""


class Sender(Protocol):
    """Who sends what was published."""

    def flush(self) -> None:
        """Send what waits; any thread."""
        ...


class Carrier(Sender, Protocol):
    """One that is asked with each publication whether what waits there is to go.

    Attributes:
        gathers: messages may wait there for one another.
    """

    gathers: bool

    def is_due(self, now: float, pause: float) -> bool:
        """Whether what waits should not wait for more, or has for ``pause`` seconds; with each of a burst."""
        ...

    def is_behind(self) -> bool:
        """Whether too much waits for it to be left to the I/O thread."""
        ...


class BurstDetector:
    """Tells bursts by the times of publications; any thread, and it does not matter when two are one.

    Attributes:
        on: the last publication belonged to one.
        quick: publications in quick succession, up to the last one.
        returned: when the last one was sent, or gathered.
    """

    __slots__ = ("on", "quick", "returned")

    def __init__(self) -> None:
        self.on = False
        self.quick = 0
        self.returned = 0.0

    def begin(self, since: float) -> bool:
        """A publication that began then is about to be sent; True when it belongs to a burst."""
        quick = self.quick = self.quick + 1 if since - self.returned < _BURST_PAUSE else 0
        self.on = quick >= _BURST_PUBLICATIONS
        return self.on


class FlushTimer:
    """Flushes senders a moment after something was gathered for them; any thread.

    Args:
        loop: keeps the time, and sends.
        pause: tells the seconds of that moment.

    Attributes:
        senders: those that will be flushed, with all that waits there by now.
    """

    def __init__(self, loop: Loop, pause: Callable[[], float]) -> None:
        self._pause = pause
        self._loop = loop
        self.senders: set[Sender] = set()
        self._armed = self._called = False

    def add(self, sender: Sender) -> None:
        """Something waits for others there."""
        self.senders.add(sender)
        if not self._armed:
            self._arm()

    def flush_soon(self, sender: Sender) -> None:
        """What waits there is to go as soon as the I/O thread can send it."""
        self.senders.add(sender)
        if not self._called:
            self._called = True
            self._loop.call(self._flush_now)

    def _flush_now(self) -> None:
        self._called = False  # first: whoever adds meanwhile calls again
        self._flush_all()

    def _flush_all(self) -> int:
        gathered = len(self.senders)
        for _ in range(gathered):
            sender = self.senders.pop()
            try:
                sender.flush()
            except Exception:  # the others, and what comes later, are sent all the same
                logger.exception("%r could not send what waits", sender)
        return gathered

    def _arm(self) -> None:
        self._armed = True
        self._loop.call_later(self._pause(), self._flush)

    def _flush(self) -> None:
        """Send what was gathered, and look again while more comes; I/O thread."""
        gathered = self._flush_all()
        # In this order: whoever gathers meanwhile is seen here, or sees that nobody will look.
        self._armed = False
        if gathered or self.senders:
            self._arm()
