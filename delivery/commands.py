"""Commands: what a reader wants of a publisher, in numbered batches; the last word on an interest counts.

::

    batch      event                     next
    none       next, something waits     in flight, with the next number
    in flight  next                      in flight, and nothing more is said
    in flight  unsure, next              in flight: the same again
    in flight  applied (its number)      none
    any        anew                      none; everything wanted waits, for a publisher that knows nothing

An interest that was given up before it was said is never said.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C")


class Batch(NamedTuple, Generic[C]):
    """Commands that go together.

    Attributes:
        number: rises by 1; one that comes again is applied once.
        commands: what is wanted of each interest from now on; None for one that is not wanted any more.
    """

    number: int
    commands: dict[int, C | None]


class Commands(Generic[C]):
    """Not thread-safe.

    Args:
        most: commands of one batch.
    """

    __slots__ = ("_flying", "_most", "_number", "_said", "_waiting", "_wanted")

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = 0
        self._wanted: dict[int, C] = {}
        self._waiting: dict[int, C | None] = {}
        self._flying: Batch[C] | None = None
        self._said = False

    def want(self, interest: int, command: C) -> None:
        """Have an interest, of a number that was never given before."""
        self._wanted[interest] = self._waiting[interest] = command

    def forget(self, interest: int) -> None:
        """Have it no more; nothing for one that is not there."""
        if self._wanted.pop(interest, None) is None:
            return
        if interest in self._waiting:
            del self._waiting[interest]
        else:
            self._waiting[interest] = None

    @property
    def settled(self) -> bool:
        """Whether everything was said and applied."""
        return self._flying is None and not self._waiting

    def next(self) -> Batch[C] | None:
        """What is to be said now; None when there is nothing, or when an answer has to come first."""
        if self._flying is None and self._waiting:
            some = list(self._waiting)[: self._most]
            self._number += 1
            self._flying = Batch(self._number, {each: self._waiting.pop(each) for each in some})
            self._said = False
        if self._said:
            return None
        self._said = True
        return self._flying

    def unsure(self) -> None:
        """What was said last may never have come."""
        self._said = False

    def applied(self, number: int) -> Batch[C] | None:
        """A batch was applied, or refused; None for any but the one in flight."""
        flying = self._flying
        if flying is None or flying.number != number:
            return None
        self._flying, self._said = None, False
        return flying

    def anew(self) -> None:
        """Whoever is told knows nothing: everything is said again."""
        self._waiting = {**self._wanted}
        self._flying, self._said = None, False
