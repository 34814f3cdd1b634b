"""Subscriptions without a publisher: notifications are handed to them by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pzc import Notification, Subscription
from pzc.transport.executor import Executor

from tests.contract.rigs.peers import TIMEOUT, Inbox

EPOCH = 7

Make = Callable[..., Subscription]


def note(number: int, content: Any = None, *, key: str = "", topic: str = "t") -> Notification:
    return Notification("p", "name", topic, key, number, EPOCH, 1.0, 2.0, content)


def feed(subscription: Subscription, first: int, last: int) -> None:
    for number in range(first, last + 1):
        if subscription.observe("t", EPOCH, number)[0]:
            subscription.deliver(note(number, number))


def finish(executor: Executor) -> None:
    """Wait until everything that was submitted so far has run."""
    done = threading.Event()
    executor.submit(done.set)
    assert done.wait(TIMEOUT)


class Blocked(Inbox):
    """A callback that waits at the first notification until the test opens it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, notification: Notification) -> None:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)
        super().__call__(notification)
