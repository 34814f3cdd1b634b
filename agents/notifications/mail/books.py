"""Books: the messages of one numbering that this process has, and who of it still needs them.

::

    a subscription            is done with a message when
    of the usual kind         its callback returned, it was taken, dropped, or cannot be read
    with ``manual_ack``       it was acknowledged, dropped unseen, or cannot be read

The message is done with when all of them are. Subscriptions of the usual kind share one arrival, which is
decoded once; any other one has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import force_setattr

from ....delivery.mail import Message, Position
from ....protocol.bundle import Item
from ....protocol.notification import Notification, Receipt
from ..links.arrivals import Arrival
from .making import Making
from .place import Place
from .places import Places

Done = Callable[[Position, Sequence[int]], object]


class Book:
    """The messages of one position; safe from any thread.

    Args:
        position: of the numbering.
        on_done: told the numbers that the process is done with.
    """

    def __init__(self, position: Position, on_done: Done) -> None:
        self.lock = threading.Lock()
        self.position = position
        self._on_done = on_done
        self._shared: dict[int, int] = {}  # numbers with several arrivals, and how many are left
        self._manual = Manual(self)

    def arrivals(
        self, first: int, messages: list[Message[Item]], places: Places, making: Making
    ) -> dict[Place | None, list[Arrival]]:
        """What each subscription gets, and under None what none wants."""
        found: dict[Place | None, list[Arrival]] = {}
        for number, message in enumerate(messages, first):
            item = message.payload
            wanted = places.wanting(item.topic, item.key) or (None,)
            if places.special:
                self._distribute(number, item, wanted, making, found)
                continue
            arrival = self._arrival(self, number, item, len(wanted))
            arrival.make = partial(making.plain, item)
            for place in wanted:
                found.setdefault(place, []).append(arrival)
        return found

    def _distribute(
        self, number: int, item: Item, wanted: Sequence[Place | None], making: Making,
        found: dict[Place | None, list[Arrival]],
    ) -> None:  # fmt: skip
        usual = [place for place in wanted if place is None or not place.special]
        special = [place for place in wanted if place is not None and place.special]
        if len(special) + bool(usual) > 1:
            with self.lock:
                self._shared[number] = len(special) + bool(usual)
        if usual:
            arrival = self._arrival(self, number, item, len(usual))
            arrival.make = partial(making.plain, item)
            for place in usual:
                found.setdefault(place, []).append(arrival)
        for place in special:
            make = partial(making.raw if place.subscription.raw else making.plain, item)
            manual = place.subscription.manual_ack
            arrival = self._arrival(self._manual if manual else self, number, item, 1)
            arrival.make = partial(self._manual.receipted, make, number) if manual else make
            found.setdefault(place, []).append(arrival)

    def _arrival(self, ledger: Book | Manual, number: int, item: Item, left: int) -> Arrival:
        return Arrival(
            ledger, number, item.topic, item.key, self.position.epoch, item.number, left=left,
            size=len(item.body), sent_ms=item.sent_ms,
        )  # fmt: skip

    def consumed(self, arrival: Arrival) -> None:
        """One subscription less needs an arrival."""
        with self.lock:
            left = arrival.left = arrival.left - 1
            if left > 0:
                return
            content = (arrival.notification, arrival.make, arrival.error)  # it goes without the lock
            arrival.forget()
        del content
        self.ended((arrival.number,))

    def ended(self, numbers: Sequence[int]) -> None:
        """No subscription needs one of the arrivals of each of these numbers."""
        if self._shared:
            with self.lock:
                numbers = [number for number in numbers if self._is_last(number)]
        if numbers:
            self._on_done(self.position, numbers)

    def _is_last(self, number: int) -> bool:
        left = self._shared.get(number, 1) - 1
        if left:
            self._shared[number] = left
        else:
            self._shared.pop(number, None)
        return not left


class Manual:
    """What is done with when it was acknowledged; safe from any thread.

    Args:
        book: where it ends.
    """

    def __init__(self, book: Book) -> None:
        self.lock = book.lock
        self._book = book

    def receipted(self, make: Callable[[], Notification], number: int) -> Notification:
        """A notification with its receipt."""
        notification = make()
        force_setattr(notification, "receipt", Receipt(self, number))
        return notification

    def consumed(self, arrival: Arrival) -> None:
        """The subscription had its notification, which ends the message only when it was not opened."""
        seen = arrival.notification is not None
        arrival.forget()
        if not seen:
            self._book.ended((arrival.number,))

    def acknowledge(self, receipts: Sequence[Receipt], /) -> None:
        """These are done with; those that were before change nothing."""
        with self.lock:
            fresh = list[int]()
            for receipt in receipts:
                if receipt.open:
                    receipt.open = False
                    fresh.append(receipt.number)
        if fresh:
            self._book.ended(fresh)
