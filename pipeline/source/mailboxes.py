"""Mailboxes: how the subscriptions of one reader stand, and what they hold, without taking it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...agents import Agent, Burst, Missed, Subscription
from ...protocol.errors import PzcError, SubscriptionClosed
from ..arrow import pa
from ..recording.backlog import ASK, Named, kept, sources
from ..recording.rows import Rows
from .options import Options

MEMORY_ROWS = 10_000
"""Rows that go to Spark together."""

_LOOK = 0.05


def check(subscriptions: Iterable[Named], reasons: Mapping[Subscription, str]) -> None:
    """Raise what prevents rows from coming.

    Args:
        subscriptions: of the reader.
        reasons: why some have ended.

    Raises:
        SubscriptionClosed: when a mailbox is read by another process now, or its publisher refuses.
    """
    for named, subscription in subscriptions:
        if subscription.closed:
            reason = reasons.get(subscription, "the subscription has ended")
            raise SubscriptionClosed(
                f"{named}: {reason}; one process at a time reads the mailboxes of one name"
            )


def settle(
    agent: Agent,
    subscriptions: Iterable[Named],
    reasons: Mapping[Subscription, str],
    mailbox: str,
    taken: Callable[[], int],
    timeout: float,
) -> bool:
    """Wait until what the mailboxes hold now was taken; False after so many seconds.

    Args:
        agent: of the reader.
        subscriptions: of the reader.
        reasons: why some have ended.
        mailbox: its name.
        taken: how many were until now.
        timeout: in seconds.

    Raises:
        SubscriptionClosed: as `check`.
    """
    deadline, pause = time.monotonic() + timeout, threading.Event()
    enough: int | None = None
    while time.monotonic() < deadline:
        before = taken()
        told = [_waiting(agent, source, mailbox, deadline) for source in sources(subscriptions)]
        if None not in told:
            waiting = sum(each or 0 for each in told)
            enough = before + waiting if enough is None else enough
            if not waiting or before >= enough:
                return True
        check(subscriptions, reasons)
        pause.wait(_LOOK)
    return False


def _waiting(agent: Agent, publisher: str, mailbox: str, deadline: float) -> int | None:
    """What a publisher keeps for a reader; None when it does not tell before a time, or within `ASK`."""
    left = min(ASK, deadline - time.monotonic())
    if left <= 0:
        return None
    try:
        return kept(agent, publisher, mailbox, left)[0]
    except (PzcError, KeyError, TypeError):
        return None


def look(options: Options) -> Iterator[pa.RecordBatch]:
    """What the mailboxes hold and what comes within ``wait`` seconds, at most ``maxRowsPerBatch`` rows.

    Raises:
        PzcError: when a publisher refuses, or an endpoint cannot be reached.
    """
    seen = _Seen(options.max_rows)
    with Agent(protocol=options.protocol()) as agent:
        how: dict[str, Any] = {"policy": options.policy, "raw": True, "manual_ack": True, "sink": seen}
        read = [(each, agent.subscribe(each, topic, **how)) for each, topic in options.targets]
        if options.name is not None:
            settle(agent, read, {}, options.name, lambda: len(seen.rows), options.timeout)
        deadline, pause = time.monotonic() + options.wait, threading.Event()
        while not seen.paused and (left := deadline - time.monotonic()) > 0:
            pause.wait(min(left, _LOOK))
        check(read, {})
    if len(seen.rows):
        found = seen.rows.table(options.name or "", contents=[bytes(each) for each in seen.rows.contents])
        yield from found.slice(0, options.max_rows).to_batches(MEMORY_ROWS)


class _Seen:
    """Takes rows and acknowledges none."""

    def __init__(self, most: int) -> None:
        self.rows, self._most = Rows(), most

    @property
    def paused(self) -> bool:
        """There is enough."""
        return len(self.rows) >= self._most

    def take(self, burst: Burst) -> None:
        """Messages came."""
        self.rows.extend(burst)

    def miss(self, missed: Missed) -> None:
        """Messages will not come."""
