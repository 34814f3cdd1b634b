"""Acknowledgements: which messages of a link its reader is not done with, and which have to be sent again.

A link numbers its messages 1, 2, 3, … whatever their topics. At the publisher (`Unacknowledged`)::

    message     event                            next            returned
    -           sent                             waiting         its number
    waiting     acknowledged (its number)        done            the item, once
                after(lower number)              waiting         the item, to send again
    done        acknowledged                     done            -
    not sent    received, acknowledged, after    -               RemoteProtocolError

A reader whose connection was lost may tell numbers twice, and in any order; its own part is `Receipts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from ..protocol.errors import RemoteProtocolError

T = TypeVar("T")


class Unacknowledged(Generic[T]):
    """What one link has sent and the reader is not done with, oldest first; its length counts it.

    Not thread-safe: the publisher's lock protects it. Its bounds are those of the link's flows.

    Attributes:
        next: number of the next message.
        arrived: number up to which the reader surely has everything.
    """

    __slots__ = ("_items", "_upto", "arrived", "next")

    def __init__(self) -> None:
        self.next = 1
        self.arrived = 0
        self._upto = 0
        self._items: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._items)

    def sent(self, item: T) -> int:
        """Note that an item goes; returns its link number."""
        number = self.next
        self._items[number] = item
        self.next = number + 1
        return number

    def received(self, number: int) -> None:
        """The reader has everything up to ``number``: that is never sent again.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self._check(number)
        if number > self.arrived:
            self.arrived = number

    def acknowledged(self, upto: int, others: Iterable[int] = ()) -> list[T]:
        """The reader is done with all numbers up to ``upto``, and with ``others``.

        Returns:
            The items that it was not done with before, oldest first.

        Raises:
            RemoteProtocolError: for a number that was never sent; nothing was changed.
        """
        self._check(upto)
        later = sorted(others) if others else ()
        if later:
            self._check(later[0])
            self._check(later[-1])
        items = self._items
        done: list[T] = []
        count = upto - self._upto
        if count > 0:
            self._upto = upto
            few = count <= 2 * len(items)  # else most were done before: look at what is left instead
            for number in range(upto - count + 1, upto + 1) if few else [n for n in items if n <= upto]:
                if number in items:
                    done.append(items.pop(number))
        for number in later:
            if number in items:
                done.append(items.pop(number))
        return done

    def after(self, number: int) -> list[tuple[int, T]]:
        """What to send again to a reader that has everything up to ``number``, in order.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self.received(number)
        return [(sent, item) for sent, item in self._items.items() if sent > self.arrived]

    def all(self) -> list[T]:
        """Every item that the reader is not done with, oldest first."""
        return list(self._items.values())

    def _check(self, number: int) -> None:
        if not 0 <= number < self.next:
            raise RemoteProtocolError(
                f"the reader speaks of message {number} of its link, which has had {self.next - 1} so far"
            )
