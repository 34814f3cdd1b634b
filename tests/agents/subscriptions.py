"""Subscriptions without a publisher: notifications are handed to them by the test."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from pzc import Notification, Subscription
from pzc.agents.notifications.callbacks import Runs, start
from pzc.agents.notifications.links.arrivals import arrival_of
from pzc.agents.notifications.links.together import alone
from pzc.agents.notifications.shares import BroadcastShare, hand_on
from pzc.transport.peer import Peer

from tests.contract.rigs.peers import TIMEOUT, Inbox

EPOCH = 7
_heard: weakref.WeakKeyDictionary[Subscription, BroadcastShare] = weakref.WeakKeyDictionary()

Make = Callable[..., Subscription]


def note(number: int, content: Any = None, *, key: str = "", topic: str = "t") -> Notification:
    return Notification("p", "name", topic, key, number, EPOCH, 1.0, 2.0, content)


def deliver(subscription: Subscription, notification: Notification) -> None:
    """As if it had arrived, whatever is missing before it."""
    start((subscription.admit((arrival_of(notification),)),))


def heard(subscription: Subscription, *, held: bool = False) -> BroadcastShare:
    """A share of what its publisher broadcasts."""
    share = BroadcastShare(subscription, Peer("", "PZC01", "p", EPOCH, "", "", 0, {}), "")
    share.held = held
    return share


def hear(share: BroadcastShare, first: int, last: int, *, epoch: int = EPOCH, topic: str = "t") -> None:
    """These numbers arrive."""
    for number in range(first, last + 1):
        notification = Notification("p", "name", topic, "", number, epoch, 1.0, 2.0, number)
        start(hand_on((share,), alone(arrival_of(notification))))


def feed(subscription: Subscription, first: int, last: int) -> None:
    """These numbers arrive of topic ``t``, and what is missing before them is lost."""
    share = _heard.get(subscription)
    if share is None:
        share = _heard[subscription] = heard(subscription)
    hear(share, first, last)


def finish(executor: Runs) -> None:
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
