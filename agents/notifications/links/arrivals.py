"""Arrivals: notifications of a link in this process, decoded once and done when nobody needs them.

A link number at the reader's end::

    state    event                                   next     what happens
    -        arrives, no subscription wants it       done
    -        arrives                                 held
    held     a subscription is done with it          held
    held     one of several arrivals is done with    held     of subscriptions that have one of their own
    held     the last subscription is done with it   held     the content is let go of here
    held     the last view of its block is gone      held
    held     neither subscription nor view is left   done     the publisher may be told
    held     it has no window, and was copied out    done     subscriptions keep the copy

Nothing else may be said of an order: a kept slice outlives its subscriptions, and a content that nobody
takes is let go of before it was decoded.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Protocol

from msgspec import Struct

from ....delivery.receipts import Receipts, Report
from ....protocol.errors import ProtocolError
from ...notification import Notification

Make = Callable[[], Notification]

LAGS = 16 << 20
"""Bytes that came without a window, `BESIDE` of each included, after which those that are held are done.

Fewer than the publisher has under way at once, so that one subscription holds up no other one.
"""

BESIDE = 1 << 14
"""See `LAGS`."""

GATHERED = 1000
"""Ended ones that are written down together, or half of the smallest window: each lock costs."""


class Book(Protocol):
    """Where the end of arrivals is written down."""

    lock: threading.Lock

    def consumed(self, arrival: Arrival) -> None:
        """One subscription less needs an arrival."""
        ...


class Arrival(Struct, eq=False):
    """One notification for all subscriptions of this process that want it.

    Attributes:
        book: where its end is written down.
        number: in the link.
        topic: of the notification.
        key: of the notification.
        epoch: of the publisher.
        sequence: number in its topic.
        leased: its content lies in a block of the publisher.
        notification: what it is, once that is known.
        left: subscriptions that are not done with it.
        make: decodes it; called once, by whoever opens it first.
        size: bytes of its encoded content; 0 for one that was not encoded.
        sent_ms: the publisher's Unix time in milliseconds.
        lock: of whoever opens it; one in a block has it from the beginning.
    """

    book: Book
    number: int
    topic: str
    key: str
    epoch: int
    sequence: int
    leased: bool = False
    notification: Notification | None = None
    left: int = 0
    make: Make | None = None
    error: ProtocolError | None = None
    lock: threading.Lock | None = None
    size: int = 0
    sent_ms: int = 0

    def open(self) -> Notification:
        """The notification, the same for everybody.

        Raises:
            ProtocolError: why its content cannot be had here, each time.
        """
        notification = self.notification
        if notification is not None:
            return notification
        lock = self.lock
        if lock is None:
            with self.book.lock:
                lock = self.lock = self.lock or threading.Lock()
        with lock:
            make, self.make = self.make, None
            if make is not None:
                try:
                    self.notification = make()
                except ProtocolError as exc:
                    self.error = exc.with_traceback(None)
                    exc.__cause__ = exc.__context__ = None  # their frames would keep the content
            if self.notification is not None:
                return self.notification
        text = "a notification was opened after the last subscription was done"
        raise self.error or ProtocolError(text)

    def consumed(self) -> None:
        """A subscription is done with it; keep no reference to its content when calling."""
        self.book.consumed(self)

    def forget(self) -> None:
        """Let go of the content."""
        self.make = self.notification = self.error = None


class _Nobody:
    """Nobody is told when something is done with."""

    lock = threading.Lock()

    def consumed(self, arrival: Arrival) -> None:
        """As `Book.consumed`."""


_NOBODY = _Nobody()


def arrival_of(notification: Notification) -> Arrival:
    """What waits for no end: it was broadcast, or kept by its publisher."""
    sent_ms = 0 if notification.initial else int(notification.sent_at * 1000)
    return Arrival(
        _NOBODY, 0, notification.topic, notification.key, notification.epoch, notification.sequence,
        notification=notification, size=notification.size, sent_ms=sent_ms,
    )  # fmt: skip


class Flow(Struct, eq=False):
    """What one set of interests gets.

    Attributes:
        half: how many done ones are worth a message of their own; None when no window counts them.
    """

    half: int | None = None


class HeldArrivals:
    """What of one link this process has and is not done with; safe from any thread.

    Args:
        on_news: called when the publisher should be told something: True at once, because somebody waits for
            it, or half of a window is done, or memory was freed; False in a while, once until the next
            report.
        wake: makes some thread call `settle` soon; may be called by finalizers.

    Attributes:
        hurry: somebody waits for the end of numbers up to this.
        receipts: which numbers came, and are done with; with the lock, but to look how far they came.
        lent: number of the one without a window that is looked at in its block; 0 for none.
        weight: bytes that came since `lighten`.
    """

    def __init__(self, on_news: Callable[[bool], object], wake: Callable[[], object]) -> None:
        self.lock = threading.Lock()
        self.receipts: Receipts[Flow] = Receipts()
        self.weight = 0
        self._leased: set[int] = set()  # numbers in blocks
        self._kept: set[int] = set()  # those of which either subscriptions or view ended
        self._several: dict[int, int] = {}  # numbers with several arrivals, and how many are left
        self._ended: deque[int] = deque()  # filled without the lock, which finalizers may not take
        self._gathers = GATHERED
        self.lent = self.hurry = 0
        self._waited = 0  # the last one that was copied and is waited for
        self._since_report: dict[Flow, int] = {}
        self._on_news = on_news
        self._wake = wake
        self._settling: set[int] = set()
        self._due = False  # since the last report it was said that there is something to be told

    def __len__(self) -> int:
        with self.lock:
            self._write_down()
            return len(self.receipts)

    def entered(self, first: int, count: int, flow: Flow) -> int:
        """Enter so many next numbers of the link; how many of the first ones came before.

        Raises:
            RemoteProtocolError: when others before them are missing.
        """
        with self.lock:
            repeated = self.receipts.arrived(first, count, flow)
            if flow.half is None:
                self.weight += BESIDE * count
            elif flow.half < self._gathers:
                self._gathers = flow.half
        return repeated

    def lease(self, number: int) -> None:
        """The content of one that was entered lies in a block: its view has an end of its own."""
        self._leased.add(number)

    def divide(self, number: int, arrivals: int) -> None:
        """A number has so many arrivals, each with an end of its own."""
        if arrivals > 1:
            with self.lock:
                self._several[number] = arrivals

    def ended(self, numbers: Iterable[int]) -> None:
        """One arrival of each of these is done with; any thread."""
        self._ended.extend(numbers)
        self.settle()

    def consumed(self, arrival: Arrival) -> None:
        """One subscription less needs an arrival."""
        if arrival.left > 1:
            with self.lock:
                arrival.left -= 1
                if arrival.left:
                    return
        if arrival.leased:
            self.unwanted(arrival)
            return
        arrival.make = arrival.notification = arrival.error = None  # without the lock: user code may run
        ended, number = self._ended, arrival.number
        ended.append(number)
        if len(ended) >= self._gathers or number <= self.hurry:
            self.settle()
        elif not self._due:
            self._due = True
            self._on_news(False)

    def unwanted(self, arrival: Arrival) -> None:
        """No subscription needs an arrival."""
        me = get_ident()
        self._settling.add(me)
        try:
            arrival.make = arrival.notification = arrival.error = None
            self._ended.append(arrival.number)
        finally:
            self._settling.discard(me)
        self.settle()

    def lend(self, number: int) -> bool:
        """Whether a content without a window may be looked at where it lies; False: another one is.

        It is one at a time; while a reader keeps it, further ones arrive as copies.
        """
        with self.lock:
            if not self.lent:
                self.lent = number
            return self.lent == number

    def copied(self, number: int) -> None:
        """The content of one without a window has left its block: done, unless its publisher waits for it.

        Of those that are waited for only the last one stays, or they would take all blocks of a reader.
        """
        with self.lock:
            if number == self.hurry:
                number, self._waited = self._waited, number
            done = self.receipts.done((number,))
        if done:
            self._on_news(True)

    def lighten(self) -> None:
        """Be done with what lies in no block and has no window, though subscriptions still have it."""
        with self.lock:
            self.weight = 0
            urgent = self._write_down()
            held = [number for number, flow in self.receipts.held() if flow.half is None]
            done = self.receipts.done(n for n in held if n not in self._leased and n != self.hurry)
        if done or urgent is not None:
            self._on_news(bool(done) or bool(urgent))

    def view_ended(self, number: int) -> None:
        """The last view of a number's block is gone; any thread at any moment, takes no lock."""
        if number == self.lent:
            self.lent = 0
        self._ended.append(number)
        if get_ident() not in self._settling:
            self._wake()

    def settle(self) -> None:
        """Write down what has ended, and tell whether that is news."""
        with self.lock:
            urgent, due = self._write_down(), self._due
            self._due = due or urgent is not None
        if urgent or (urgent is not None and not due):
            self._on_news(urgent)

    def _write_down(self) -> bool | None:
        """What has ended; whether that is to be told at once, None when nothing has. With the lock."""
        ended, several, leased = self._ended, self._several, self._leased
        over: list[int] = []
        freed = False
        while ended:
            number = ended.popleft()
            if several and (left := several.pop(number, 1) - 1):
                several[number] = left
                continue
            if leased and number in leased:
                if number not in self._kept:
                    self._kept.add(number)
                    continue
                self._kept.discard(number)
                leased.discard(number)
                freed = True
            over.append(number)
        return self._end(over, freed) if over else None

    def _end(self, numbers: list[int], freed: bool) -> bool | None:
        """Nothing holds these any more; with the lock."""
        since, urgent, done = self._since_report, freed, self.receipts.done(numbers)
        for flow, number in done.items():
            count = since[flow] = since.get(flow, 0) + number
            urgent = urgent or (flow.half is not None and count >= flow.half)
        return (urgent or min(numbers) <= self.hurry) if done else None

    def report(self, *, always: bool) -> Report | None:
        """What the publisher is to be told; None: nothing new.

        Args:
            always: tell something all the same.
        """
        with self.lock:
            self._due = False  # first: what ends from now on is told again
            self._write_down()
            if not len(self.receipts):  # narrow flows may be gone
                self._gathers = GATHERED
            self._since_report.clear()
            return self.receipts.report(always=always)

    def repeat(self) -> None:
        """What was told may be lost with its connection: tell it again."""
        with self.lock:
            self.receipts.repeat()
