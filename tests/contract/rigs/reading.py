"""A subscription in a worker, for the tests of links."""

from __future__ import annotations

import os
import threading
from typing import Any

from pzc import Gap, Notification, Subscription

from tests.contract.rigs.evidence import digest, payload


class Reading:
    """A subscription of a worker, and what became of what it got; its methods are its callbacks.

    Args:
        size: bytes of each `payload`, for `verify`.
        notes: file that gets a line for each payload that `verify` found damaged.
        seconds: that `slow` takes for each.
    """

    def __init__(self, size: int = 0, notes: str = "", seconds: float = 0.0) -> None:
        self.subscription: Subscription | None = None
        self.found: list[tuple[int, Any]] = []
        self.kept: list[Any] = []
        self.gaps: list[tuple[int, bool]] = []
        self.lost: list[str] = []
        self._size, self._seconds = size, seconds
        self._notes = os.open(notes, os.O_APPEND | os.O_CREAT | os.O_WRONLY) if notes else -1

    def gap(self, gap: Gap) -> None:
        self.gaps.append((gap.count, gap.restarted))

    def hash(self, notification: Notification) -> None:
        self.found.append((notification.sequence, digest(notification.content)))

    def slow(self, notification: Notification) -> None:
        threading.Event().wait(self._seconds)
        self.hash(notification)

    def collect(self, notification: Notification) -> None:
        self.found.append((notification.sequence, notification.content))

    def verify(self, notification: Notification) -> None:
        number, content = notification.sequence, notification.content
        if digest(content) != digest(payload(number, self._size)) and self._notes >= 0:
            os.write(self._notes, b"%d\n" % number)
        self.found.append((number, ""))

    def fail(self, notification: Notification) -> None:
        self.hash(notification)
        raise RuntimeError(f"no {notification.sequence}")

    def leave(self, notification: Notification) -> None:
        self.hash(notification)
        if notification.sequence >= 3 and self.subscription is not None:
            self.subscription.close()

    def keep(self, notification: Notification) -> None:
        self.hash(notification)
        self.kept.append(notification.content[1:])

    @property
    def counts(self) -> tuple[int, int, int]:
        assert self.subscription is not None
        return self.subscription.received, self.subscription.dropped, self.subscription.pending
