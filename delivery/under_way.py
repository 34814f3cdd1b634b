"""Under way: what went over one link, and what its reader is not done with.

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

from collections.abc import Iterable
from itertools import chain
from typing import Any, Generic, TypeVar

from ..protocol.errors import RemoteProtocolError
from .claims import Interest, Sent

E = TypeVar("E", bound=Sent[Any])


class UnderWay(Generic[E]):
    """Oldest first; its length counts it. Not thread-safe: the publisher's lock protects it.

    Attributes:
        next: position of the next entry.
        arrived: position up to which the reader surely has everything.
    """

    __slots__ = ("_entries", "_stubs", "_upto", "arrived", "next")

    def __init__(self) -> None:
        self.next = 1
        self.arrived = 0
        self._upto = 0
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
        count = upto - self._upto
        told: Iterable[int] = ()
        if count > 0:
            self._upto = upto
            few = count <= 2 * len(entries)  # else most were done before: look at what is left instead
            told = range(upto - count + 1, upto + 1) if few else [n for n in entries if n <= upto]
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
