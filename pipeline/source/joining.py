"""Joining: subscribes to the mailboxes of all publishers that a query names, now or when they come.

::

    target      event                                  next
    an agent    subscribed                             joined: it is followed wherever its name goes
                not there, or not to be reached        tried again after `RETRY` seconds
                refused by its publisher               failed: `check` raises it
    joined      taken over by another process          failed: `check` raises it
    pattern     a name that fits is there              an agent of its own, for good
                that one is refused                    left out, told once

What was joined is never left: closing the last subscription of a mailbox ends the mailbox.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from ...agents.agent import Agent
from ...agents.discover import acquire
from ...agents.naming import participants
from ...agents.notifications.subscription import Subscription
from ...delivery.policies import Policy
from ...discovery.names import is_pattern
from ...protocol.errors import (
    AgentClosed,
    CallTimeout,
    PeerLost,
    PzcError,
    SubscriptionClosed,
    UnknownName,
)
from ...protocol.notification import Notification
from .options import Target

logger = logging.getLogger("pzc.source")

RETRY = 1.0
"""Seconds until a publisher that is not there is looked for again, and names that fit a pattern."""

CONFIRM = 5.0
"""Seconds for a publisher's confirmation."""

ASK = 2.0
"""Seconds for a publisher to say what its mailbox holds."""

LISTEN = 0.3
"""Seconds for which names are listened for at first; those that are there answer within 0.1 s."""

_PASSING = (PeerLost, CallTimeout, UnknownName)


class Joined:
    """One subscription; whose it is now is told by what arrives.

    Attributes:
        target: as it was named.
        subscription: once there is one.
        start: publisher and epoch of what arrived last.
        reason: why it ended.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.subscription: Subscription | None = None
        self.start: tuple[str, int] | None = None
        self.reason = ""


Take = Callable[[Joined, Notification], object]


class Joining:
    """All subscriptions of a query; a thread for each target that is looked for.

    Args:
        agent: subscribes; its stop ends the subscriptions and keeps the mailboxes.
        targets: of the query.
        policy: of the mailboxes.
        take: gets each notification, in a thread of the agent.
    """

    def __init__(self, agent: Agent, targets: tuple[Target, ...], policy: Policy, take: Take) -> None:
        self._agent, self._policy, self._take = agent, policy, take
        self._closed = threading.Event()
        self._lock = threading.Condition()
        self._joined: dict[Target, Joined] = {}
        self._refused: set[str] = set()
        self._error: PzcError | None = None
        self._looking = len(targets)
        self._patterns = {
            each for each in targets if "://" not in each.publisher and is_pattern(each.publisher)
        }
        site = participants.site_of(agent.settings) if self._patterns else None
        self._names = None if site is None else acquire(site, agent.protocol)
        for target in targets:
            name = f"pzc-source {target.publisher}"
            threading.Thread(target=self._look, args=(target,), name=name, daemon=True).start()

    def joined(self) -> list[Joined]:
        """Everything that is subscribed now."""
        with self._lock:
            return [each for each in self._joined.values() if each.subscription is not None]

    def wait(self, timeout: float) -> bool:
        """Wait until everything was looked for once; False after so many seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: self._looking == 0 or self._error is not None, timeout)

    def check(self) -> None:
        """Raise what prevents the query from going on.

        Raises:
            PzcError: when a publisher refused, or a mailbox is read by another process now.
        """
        if self._error is not None:
            raise self._error
        for each in self.joined():
            if each.subscription is not None and each.subscription.closed and not self._closed.is_set():
                raise SubscriptionClosed(
                    f"{each.target.publisher}: {each.reason or 'the subscription has ended'}; one query at a "
                    "time reads the mailboxes of one name"
                )

    def close(self) -> None:
        """Look for nobody any more."""
        self._closed.set()
        names, self._names = self._names, None
        if names is not None:
            participants.release(names)

    def _look(self, target: Target) -> None:
        """Subscribe to a target once it is there, or for ever to all whose names fit."""
        names, first, there = self._names, True, False
        pattern = target in self._patterns
        if pattern and names is not None:
            names.ask([target.publisher])
            self._closed.wait(LISTEN)
        while not self._closed.is_set() and not there:
            tried = [self._try(each, target) for each in (self._fitting(target) if pattern else [target])]
            there = not pattern and all(tried)
            if first:
                first = False
                with self._lock:
                    self._looking -= 1
                    self._lock.notify_all()
            if not there:
                self._closed.wait(RETRY)

    def _fitting(self, pattern: Target) -> list[Target]:
        """Those whose names fit now, but for those that have refused."""
        entries = [] if self._names is None else self._names.match(pattern.publisher)
        names = {f"@{each.partition}@{each.name}" for each in entries if each.kind != "topic"}
        return [Target(name, pattern.topic) for name in names - self._refused]

    def _try(self, target: Target, named: Target) -> bool:
        """Subscribe to one; False when that is to be tried again."""
        try:
            self._join(target)
        except _PASSING as exc:
            logger.info("%s cannot be subscribed to yet: %s", target.publisher, exc)
            return False
        except AgentClosed:
            pass
        except PzcError as exc:
            if target == named:
                with self._lock:
                    self._error = self._error or exc
                    self._lock.notify_all()
            else:
                logger.warning("%s is left out of %s: %s", target.publisher, named.publisher, exc)
                self._refused.add(target.publisher)
        return True

    def _join(self, target: Target) -> None:
        with self._lock:
            if target in self._joined:
                return
            joined = self._joined[target] = Joined(target)
        try:
            subscription = self._agent.subscribe(
                target.publisher,
                target.topic,
                partial(self._take, joined),
                policy=self._policy,
                raw=True,
                manual_ack=True,
                timeout=CONFIRM,
                must_exist=True,
            )
        except BaseException:
            with self._lock:
                del self._joined[target]
            raise
        subscription.on_lost = partial(self._lost, joined)
        joined.subscription = subscription

    def _lost(self, joined: Joined, reason: str) -> None:
        joined.reason = reason
        logger.warning("%s: %s", joined.target.publisher, reason)


def kept(agent: Agent, publisher: str, mailbox: str | None, deadline: float) -> tuple[int, int] | None:
    """What a publisher keeps for a reader, and how much of that it has not sent; None when it does not tell.

    Args:
        agent: asks.
        publisher: endpoint or name.
        mailbox: its name.
        deadline: monotonic seconds; one publisher gets at most `ASK` of them.
    """
    left = min(ASK, deadline - time.monotonic())
    try:
        told = agent.request(publisher, {"pzc": "statistics"}, left) if left > 0 else None
    except PzcError:
        return None
    if told is None:
        return None
    own = [each for each in told["mailboxes"] if each["reader"] == mailbox]
    waiting = sum(each["waiting"] for each in own)
    return waiting, waiting - sum(each["unacknowledged"] for each in own)
