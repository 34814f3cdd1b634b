"""Pace: whoever publishes into mailboxes faster than their polls are answered gives way.

As long as a reader fetches, and a whole answer waits for it, the thread that publishes pauses for `PAUSE` s
after every `SHARE` notifications. A reader that does not ask is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import sleep
from typing import Any

from ....delivery.boxes import Box
from ....delivery.mail import BATCH_MESSAGES

SHARE = 64
"""Notifications between two pauses; a power of two."""

PAUSE = 50e-6
"""Seconds, at least, that the others get."""

FETCHING = 0.25
"""Seconds since its last poll for which a reader is taken to fetch on."""


def give_way(readers: Iterable[Box[Any, Any]], now: float) -> None:
    """Pause when one of these has fallen behind; not the I/O thread."""
    if any(_fetches(box, now) for box in readers):
        sleep(PAUSE)


def _fetches(box: Box[Any, Any], now: float) -> bool:
    kept = box.mailbox
    return box.held is None and now - box.polled_at < FETCHING and kept.next > kept.sent + BATCH_MESSAGES
