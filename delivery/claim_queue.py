"""Claim queue: what `SendQueue` and `KeepQueue` have in common: interests, and what is under way.

A link numbers what it sends 1, 2, 3, … whatever the topics: its *positions*, which have no hole::

    position    event                            next            returned
    -           sent                             under way       -
    under way   done (its position)              done            the entry, once
                after(lower position)            under way       the entry, to send again
    done        done                             done            -
    under way   suspend                          a stub          the entry, whose content is let go of
    stub        settle(received below it)        never sent      its number and claims: lost
    stub        settle(received)                 done            its claims: delivered
    not sent    received, done, after            -               RemoteProtocolError

Positions that were never received are given again after `settle`.

Positions may be told as done twice and in any order, because a report that is lost with its connection is
told again; the reader's part is `Receipts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, takewhile
from typing import Any, Generic, TypeVar

from ..protocol.errors import RemoteProtocolError
from .claims import Claim, Interest, Loss, Sent
from .interests import Interests, weight

E = TypeVar("E", bound=Sent[Any])
I = TypeVar("I", bound=Claim)  # noqa: E741

OVERHEAD = 64
"""Bytes of an entry beside its content."""


class UnderWay(Generic[E]):
    """Oldest first; its length counts it. Not thread-safe: the publisher's lock protects it.

    Attributes:
        next: position of the next entry.
        arrived: position up to which the reader surely has everything.
    """

    __slots__ = ("_entries", "_stubs", "arrived", "next")

    def __init__(self) -> None:
        self.next = 1
        self.arrived = 0
        self._entries: dict[int, E] = {}
        self._stubs: list[tuple[int, int, tuple[Interest, ...]]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def sent(self, entries: Iterable[E]) -> None:
        """Entries go for the first time, at the next positions."""
        kept, position = self._entries, self.next - 1
        for position, entry in enumerate(entries, self.next):
            entry.position = position
            kept[position] = entry
        self.next = position + 1

    def received(self, position: int) -> None:
        """The reader has everything up to it: that is never sent again.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
        self._check(position)
        if position > self.arrived:
            self.arrived = position

    def done(self, upto: int, others: Iterable[int] = ()) -> list[E]:
        """The reader is done with all positions up to ``upto``, and with ``others``.

        Returns:
            What it was not done with before, oldest first.

        Raises:
            RemoteProtocolError: for a position that was never sent; nothing was changed.
        """
        self._check(upto)
        later = sorted(others) if others else ()
        if later:
            self._check(later[0])
            self._check(later[-1])
        entries = self._entries
        told = list(takewhile(upto.__ge__, entries))
        found = [entries.pop(position, None) for position in chain(told, later)]
        return [entry for entry in found if entry is not None]

    def after(self, position: int) -> list[E]:
        """What to send again to a reader that has everything up to ``position``, in order.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
        self.received(position)
        return [entry for sent, entry in self._entries.items() if sent > self.arrived]

    def suspend(self) -> list[E]:
        """Keep of everything under way only what it was; returns it, oldest first."""
        left = self.all()
        self._stubs += [(entry.position, entry.number, entry.claims) for entry in left]
        self._entries.clear()
        return left

    def settle(self, position: int) -> list[tuple[bool, int, tuple[Interest, ...]]]:
        """The reader has everything up to ``position``, and nothing behind it any more.

        Returns:
            Of each stub whether it was received, its number, and its claims.

        Raises:
            RemoteProtocolError: for a position that was never sent; nothing was changed.
        """
        self.received(position)
        stubs, self._stubs, self.next = self._stubs, [], self.arrived + 1
        return [(sent <= self.arrived, number, claims) for sent, number, claims in stubs]

    @property
    def oldest(self) -> E | None:
        """The one that the reader is not done with for the longest time; None without any."""
        return next(iter(self._entries.values()), None)

    def all(self) -> list[E]:
        """Every entry that the reader is not done with, oldest first."""
        return list(self._entries.values())

    def _check(self, position: int) -> None:
        if not 0 <= position < self.next:
            raise RemoteProtocolError(
                f"the reader speaks of message {position} of its link, which has had {self.next - 1} so far"
            )


class ClaimQueue(ABC, Generic[E, I]):
    """Not thread-safe: the publisher's lock protects it. Its length counts what may go now.

    Attributes:
        matching: tells of a topic and a key which of them get a message.
        size: bytes of what the reader wants, as `weight` counts them, and of the types.
        suspended: nothing is kept, and everything is counted.
        parts: of messages that became several entries, by their ids: how many more there are; see `divide`.
    """

    def __init__(self) -> None:
        self.index: Interests[I] = Interests()
        self.matching: Callable[[str, str], tuple[I, ...]] = self.index.matching
        self.size = 0
        self.suspended = False
        self.parts: dict[int, int] = {}
        self._under_way: UnderWay[E] = UnderWay()
        self._again: deque[E] = deque()

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def sent(self) -> int:
        """The last position."""
        return self._under_way.next - 1

    @property
    def unacknowledged(self) -> int:
        """Entries that were sent and that the reader is not done with."""
        return len(self._under_way)

    @property
    @abstractmethod
    def behind(self) -> bool:
        """Whether the reader is to be told of more than of what may go now."""

    @property
    def interests(self) -> list[I]:
        """All of the reader."""
        return self.index.all()

    def has(self, interest: I) -> bool:
        """Whether the reader wants it still."""
        return self.index.holds(interest.topic, interest.keys, interest)

    def _begin(self, interest: I) -> None:
        self.index.add(interest.topic, interest.keys, interest)
        self.size += weight(interest.topic, interest.keys)

    def name(self, interest: I, who: str, type_name: str) -> None:
        """Say whose an interest is, and which type its messages must have."""
        self.size += len(type_name) - len(interest.type)
        interest.who, interest.type = who, type_name

    def _cease(self, interest: I) -> None:
        self.index.discard(interest.topic, interest.keys, interest)
        self.size -= weight(interest.topic, interest.keys) + len(interest.type)

    def divide(self, message: object, more: int = 1) -> None:
        """A message has so many entries more."""
        if more:
            self.parts[id(message)] = self.parts.get(id(message), 0) + more

    def is_last(self, entry: E) -> bool:
        """Whether nothing else of its message is left, now that an entry of it goes."""
        if not self.parts:
            return True
        parts = self.parts.pop(id(entry.message), 0)
        if parts > 1:
            self.parts[id(entry.message)] = parts - 1
        return not parts

    @abstractmethod
    def take(self, messages: int, size: int, blocks: bool) -> list[E]:
        """What goes next, at least one if anything may.

        Args:
            messages: at most so many.
            size: bytes of them together, unless one is larger.
            blocks: the carrier takes contents in blocks.
        """

    def later(self, entries: Iterable[E]) -> None:
        """The last that were taken did not go after all: they are the next."""
        self._again.extendleft(reversed(list(entries)))

    @abstractmethod
    def losses(self, most: int, shown: int) -> list[Loss]:
        """The sums that have changed since they were told; told with this call.

        Args:
            most: at most so many.
            shown: whoever has acknowledged this position knows them.
        """

    def check(self, received: int) -> None:
        """Judge what a reader says that it has.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
        self._under_way.received(received)

    @abstractmethod
    def done(self, received: int, upto: int, others: Iterable[int] = ()) -> list[Any]:
        """The reader has everything up to ``received``, and is done with positions up to one and with others.

        Returns:
            What is free now, oldest first.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """

    def _done(self, received: int, upto: int, others: Iterable[int]) -> list[E]:
        self._under_way.received(received)
        return self._under_way.done(upto, others)

    @abstractmethod
    def resume(self, received: int) -> None:
        """Another carrier, or another connection: what the reader has not got goes again, and every sum.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
