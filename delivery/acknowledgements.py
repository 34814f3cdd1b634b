"""Acknowledgements: which messages of a link arrived, which are done, and which have to be sent again.

A link numbers its messages 1, 2, 3, … whatever their topics. At the publisher (`Unacknowledged`)::

    message     event                            next            returned
    -           sent                             waiting         its number
    waiting     acknowledged (its number)        done            the item, once
                after(lower number)              waiting         the item, to send again
    done        acknowledged                     done            -
    not sent    received, acknowledged, after    -               RemoteProtocolError

At the reader (`Acknowledger`)::

    message     event                            next            returned
    expected    arrived                          held            True
    held, done  arrived                          as before       False: sent again
    later       arrived                          -               RemoteProtocolError: a hole
    held        done                             done, untold    -
    done        done                             -               LocalProtocolError
    untold      report                           told            in ``upto`` or ``others``

``upto`` says that all numbers up to it are done; ``others`` are done ones above it, each told once. So a
message that is held for ever costs one entry here and there, and nothing for those behind it. A report that
is lost with its connection is made good by `Acknowledger.repeat`: to the publisher, numbers may come twice
and in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from ..protocol.errors import LocalProtocolError, RemoteProtocolError

MAX_OTHERS = 1000
"""Most numbers beside ``upto`` in one report; the rest is told by the next one."""

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


class Acknowledger:
    """What one link has brought, and what of it is done.

    `arrived`, `report` and `repeat` belong to one thread. `done` may be called by any thread at any moment,
    even by the garbage collector: it takes two steps, each of them atomic, and needs no lock.

    Attributes:
        received: number of the last message that arrived; there are no holes before it.
    """

    __slots__ = ("_again", "_fresh", "_held", "_told", "_upto", "received")

    def __init__(self) -> None:
        self.received = 0
        self._upto = 0
        self._held: set[int] = set()
        self._fresh: deque[int] = deque()  # done since the last report
        self._again: Iterator[int] = iter(())  # perhaps done and told in vain
        self._told = (0, 0)

    def __len__(self) -> int:
        """The number of messages that are not done."""
        return len(self._held)

    def arrived(self, number: int) -> bool:
        """A message arrived; False when it did before, and must not be delivered again.

        Raises:
            RemoteProtocolError: when messages before it are missing, or the number is below 1.
        """
        expected = self.received + 1
        if number == expected:
            self._held.add(number)
            self.received = number
            return True
        if 1 <= number < expected:
            return False
        raise RemoteProtocolError(f"message {number} of the link came, expected {expected}: some are missing")

    def arrived_all(self, first: int, count: int) -> int:
        """Messages with successive numbers arrived, as `arrived` each; how many of the first came before."""
        expected = self.received + 1
        if not 1 <= first <= expected:
            self.arrived(first)  # which tells what is wrong
        end = first + count
        if end > expected:
            self._held.update(range(expected, end))
            self.received = end - 1
        return min(count, expected - first)

    def done(self, number: int) -> None:
        """The whole process is done with a message; in any order, once for each.

        Raises:
            LocalProtocolError: when it is not held: done before, or never arrived.
        """
        try:
            self._held.remove(number)
        except KeyError:
            raise LocalProtocolError(
                f"message {number} of the link is not held: it was done before or never arrived"
            ) from None
        self._fresh.append(number)

    def report(self) -> tuple[int, int, list[int]] | None:
        """What to tell the publisher: ``(received, upto, others)``; None when nothing is new.

        ``others`` are above ``upto``, in any order, at most `MAX_OTHERS`: ask again until nothing is new.
        """
        held, received, upto = self._held, self.received, self._upto
        while upto < received and upto + 1 not in held:
            upto += 1
        self._upto = upto
        others = self._others(upto)
        told = (received, upto)
        if told == self._told and not others:
            return None
        self._told = told
        return received, upto, others

    def repeat(self) -> None:
        """The next reports tell everything again, because earlier ones may be lost with their connection."""
        self._told = (-1, -1)
        self._again = iter(range(self._upto + 1, self.received + 1))

    def _others(self, upto: int) -> list[int]:
        others: list[int] = []
        fresh, held = self._fresh, self._held
        while fresh and len(others) < MAX_OTHERS:
            number = fresh.popleft()
            if number > upto:
                others.append(number)
        if len(others) < MAX_OTHERS:
            for number in self._again:
                if number > upto and number not in held:
                    others.append(number)
                    if len(others) == MAX_OTHERS:
                        break
        return others
