"""Arrivals: notifications of a link in this process, decoded once and done when nobody needs them.

A link number at the reader's end::

    state    event                                   next     what happens
    -        arrives, no subscription wants it       done
    -        arrives                                 held
    held     a subscription is done with it          held
    held     the last subscription is done with it   held     the content is let go of here
    held     the last view of its block is gone      held
    held     neither subscription nor view is left   done     the publisher may be told

Nothing else may be said of an order: a kept slice outlives its subscriptions, and a content that nobody
takes is let go of before it was decoded.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident

from ...delivery.acknowledgements import Acknowledger
from ...protocol.bundle import Item
from ...protocol.errors import ProtocolError
from ..notification import Notification

Make = Callable[[], Notification]


class Arrival:
    """One notification for all subscriptions of this process that want it.

    Args:
        ledger: where its end is written down.
        number: in the link.
        topic: of the notification.
        key: of the notification.
        epoch: of the publisher.
        sequence: number in its topic.
        leased: its content lies in a block of the publisher.
        notification: what it is, when that is known already.

    Attributes:
        make: decodes it; called once, by whoever opens it first.
        left: subscriptions that are not done with it.
    """

    __slots__ = (
        "_error", "_ledger", "_lock", "_notification",
        "epoch", "key", "leased", "left", "make", "number", "sequence", "topic",
    )  # fmt: skip

    def __init__(
        self, ledger: Ledger, number: int, topic: str, key: str, epoch: int, sequence: int,
        leased: bool = False, notification: Notification | None = None,
    ) -> None:  # fmt: skip
        self.number = number
        self.topic = topic
        self.key = key
        self.epoch = epoch
        self.sequence = sequence
        self.leased = leased
        self.left = 0
        self._ledger = ledger
        self.make: Make | None = None
        self._notification = notification
        self._error: ProtocolError | None = None
        self._lock = None if notification is not None else threading.Lock()

    def open(self) -> Notification:
        """The notification, the same for everybody.

        Raises:
            ProtocolError: why its content cannot be had here, each time.
        """
        notification = self._notification
        if notification is not None:
            return notification
        if self._lock is None:
            raise _too_late()
        with self._lock:
            make, self.make = self.make, None
            if make is not None:
                try:
                    self._notification = make()
                except ProtocolError as exc:
                    self._error = exc.with_traceback(None)
                    exc.__cause__ = exc.__context__ = None  # their frames would keep the content
            if self._notification is not None:
                return self._notification
        raise self._error or _too_late()

    @property
    def readable(self) -> bool:
        """False when it could not be made ready to be opened."""
        return self._notification is not None or self.make is not None

    def consumed(self) -> None:
        """A subscription is done with it; keep no reference to its content when calling."""
        self._ledger.consumed(self)

    def forget(self) -> None:
        """Let go of the content."""
        self.make = self._notification = self._error = None


def _too_late() -> ProtocolError:
    return ProtocolError("a notification was opened after the last subscription was done")


class Urgency(enum.Enum):
    """How soon a publisher should be told what is done.

    ``NOW``: memory was freed, or half of a window, or somebody waits for it. ``SOON``: nothing is left to do
    here. ``LATER``: the reader is still busy with what it has.
    """

    NOW = 0
    SOON = 1
    LATER = 2


_NOW, _SOON, _LATER = Urgency


class _Held:
    """One link number that is not done; ``holds`` counts subscriptions, together as one, and the view."""

    __slots__ = ("holds", "leased", "topic")

    def __init__(self, topic: str, leased: bool) -> None:
        self.topic = topic
        self.leased = leased
        self.holds = 2 if leased else 1


class Ledger:
    """What of one link this process has and is not done with; safe from any thread.

    Args:
        on_news: called when the publisher should be told.
        wake: makes some thread call `settle` soon; may be called by finalizers.

    Attributes:
        hurry: somebody waits for the end of numbers up to this.
        acks: of the link's numbers; use it within ``lock`` only.
        halves: of each topic with a window, how many done ones are worth a message of their own.
    """

    def __init__(self, on_news: Callable[[Urgency], object], wake: Callable[[], object]) -> None:
        self.lock = threading.Lock()
        self.acks = Acknowledger()
        self.halves: dict[str, int] = {}
        self._held: dict[int, _Held] = {}
        self._ended: deque[int] = deque()  # filled by finalizers, which may take no lock
        self.hurry = 0
        self._since_report: dict[str, int] = {}
        self._upto = 0
        self._on_news = on_news
        self._wake = wake
        self._settling: set[int] = set()

    def __len__(self) -> int:
        return len(self._held)

    def arrived(self, number: int, topic: str, leased: bool) -> bool:
        """Enter the next number of the link; False when it came before.

        Raises:
            ValueError: when one before it is missing.
        """
        with self.lock:
            new = self.acks.arrived(number)
            if new:
                self._held[number] = _Held(topic, leased)
            return new

    def entered(self, first: int, items: Sequence[Item]) -> int:
        """Enter a bundle, as `arrived` each of its items; how many of its first ones came before."""
        repeated, arrived, held = 0, self.acks.arrived, self._held
        with self.lock:
            for number, item in enumerate(items, first):
                if arrived(number):
                    held[number] = _Held(item.topic, item.block > 0)
                else:
                    repeated += 1
        return repeated

    def consumed(self, arrival: Arrival) -> None:
        """One subscription less needs an arrival."""
        with self.lock:
            arrival.left -= 1
            if arrival.left > 0:
                return
        if arrival.leased or self._ended:
            self.unwanted(arrival)
            return
        arrival.forget()  # before the lock: user code may run
        with self.lock:
            urgency = self._end(arrival.number)
            if urgency is _LATER and not self._held:
                urgency = _SOON
        if urgency is not None:
            self._on_news(urgency)

    def unwanted(self, arrival: Arrival) -> None:
        """No subscription needs an arrival."""
        me = get_ident()
        self._settling.add(me)
        try:
            arrival.forget()
            self._ended.append(arrival.number)
        finally:
            self._settling.discard(me)
        self.settle()

    def view_ended(self, number: int) -> None:
        """The last view of a number's block is gone; any thread at any moment, takes no lock."""
        self._ended.append(number)
        if get_ident() not in self._settling:
            self._wake()

    def settle(self) -> None:
        """Write down what has ended, and tell whether that is news."""
        urgency: Urgency | None = None
        with self.lock:
            while self._ended:
                try:
                    number = self._ended.popleft()
                except IndexError:
                    break
                ended = self._end(number)
                if urgency is not _NOW and ended is not None:
                    urgency = ended
            if urgency is _LATER and not self._held:
                urgency = _SOON
        if urgency is not None:
            self._on_news(urgency)

    def _end(self, number: int) -> Urgency | None:
        """One hold of a number less; with the lock."""
        held = self._held.get(number)
        if held is None:
            return None
        held.holds -= 1
        if held.holds:
            return None
        del self._held[number]
        self.acks.done(number)
        topic, since = held.topic, self._since_report
        count = since[topic] = since.get(topic, 0) + 1
        half = self.halves.get(topic)
        urgent = held.leased or number <= self.hurry or (half is not None and count >= half)
        return _NOW if urgent else _LATER

    def report(self, *, always: bool) -> tuple[int, int, list[int]] | None:
        """What the publisher is to be told: received, done up to, others done; None: nothing new.

        Args:
            always: tell something all the same.
        """
        with self.lock:
            self._since_report.clear()
            report = self.acks.report()
            if report is not None:
                self._upto = report[1]
            elif always:
                report = (self.acks.received, self._upto, [])
            return report

    def repeat(self) -> None:
        """What was told may be lost with its connection: tell it again."""
        with self.lock:
            self.acks.repeat()
