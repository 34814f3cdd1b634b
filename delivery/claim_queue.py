"""Claim queue: what `SendQueue` and `KeepQueue` have in common: interests, and what is under way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from .claims import Claim, Loss
from .interests import Interests
from .under_way import E, UnderWay

I = TypeVar("I", bound=Claim)  # noqa: E741

OVERHEAD = 64
"""Bytes of an entry beside its content."""


class ClaimQueue(ABC, Generic[E, I]):
    """Not thread-safe: the publisher's lock protects it. Its length counts what may go now.

    Attributes:
        matching: tells of a topic and a key which of them get a message.
        suspended: nothing is kept, and everything is counted.
        parts: of messages that became several entries, by their ids: how many more there are.
    """

    def __init__(self) -> None:
        self.index: Interests[I] = Interests()
        self.matching: Callable[[str, str], tuple[I, ...]] = self.index.matching
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

    def _cease(self, interest: I) -> None:
        self.index.discard(interest.topic, interest.keys, interest)

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
