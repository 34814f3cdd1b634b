"""Progress: which messages of a mailbox came to a reader, and up to which it is done with all.

::

    number          event                  next
    above received  receive, in its range  held, pending
                    receive, jumped over   evicted: done
    held            done, done_upto        done
    done            all below it are done  acknowledged
    any other       done                   LocalProtocolError
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from ..protocol.errors import LocalProtocolError


class Progress:
    """Which numbers of one position were received, and up to which all are done.

    Attributes:
        received: every number up to it came, or was evicted.
        acknowledged: every number up to it is done with, or was evicted.
        pending: numbers that came and are not done with.
    """

    __slots__ = ("_done", "_skipped", "acknowledged", "pending", "received")

    def __init__(self, after: int) -> None:
        self.received = self.acknowledged = after
        self.pending = 0
        self._done: set[int] = set()
        self._skipped: deque[tuple[int, int]] = deque()

    def receive(self, first: int, count: int) -> None:
        """So many numbers from ``first`` came; those between ``received`` and ``first`` were evicted."""
        if first > self.received + 1:
            self._skipped.append((self.received + 1, first - 1))
        self.received = first + count - 1
        self.pending += count
        self._advance()

    def done(self, number: int) -> None:
        """One number is done with.

        Raises:
            LocalProtocolError: when it did not come, or is done already.
        """
        held = self.acknowledged < number <= self.received and number not in self._done
        if not held or any(first <= number <= last for first, last in self._skipped):
            raise LocalProtocolError(f"message {number} of a mailbox is not held: it is done or never came")
        self.pending -= 1
        if number == self.acknowledged + 1:
            self.acknowledged = number
        else:
            self._done.add(number)
        if self._done or self._skipped:
            self._advance()

    def done_run(self, first: int, last: int) -> None:
        """All numbers of a range are done with; those that are not held change nothing."""
        if first == self.acknowledged + 1 and last <= self.received and not (self._done or self._skipped):
            self.pending -= last + 1 - first
            self.acknowledged = last
        else:
            self.done_many(range(first, last + 1))

    def done_many(self, numbers: Iterable[int]) -> None:
        """Several numbers are done with, in any order; those that are not held change nothing."""
        ordered = sorted(numbers)
        if not ordered:
            return
        count, first, last = len(ordered), ordered[0], ordered[-1]
        run = last - first + 1 == count == len(set(ordered))
        fresh = first == self.acknowledged + 1 and last <= self.received
        if run and fresh and not (self._done or self._skipped):
            self.acknowledged = last
            self.pending -= count
            return
        for number in ordered:
            with suppress(LocalProtocolError):
                self.done(number)

    def done_upto(self, number: int) -> None:
        """All numbers up to it are done with, those too that were before.

        Raises:
            LocalProtocolError: when it did not come.
        """
        if number > self.received:
            raise LocalProtocolError(f"message {number} of a mailbox is not held: it never came")
        if number <= self.acknowledged:
            return
        settled = sum(min(last, number) + 1 - first for first, last in self._skipped if first <= number)
        before = {each for each in self._done if each <= number}
        self.pending -= number - self.acknowledged - settled - len(before)
        self._done -= before
        while self._skipped and self._skipped[0][0] <= number:
            number = max(number, self._skipped.popleft()[1])
        self.acknowledged = number
        self._advance()

    def _advance(self) -> None:
        done, skipped = self._done, self._skipped
        while True:
            expected = self.acknowledged + 1
            if expected in done:
                done.remove(expected)
                self.acknowledged = expected
            elif skipped and skipped[0][0] == expected:
                self.acknowledged = skipped.popleft()[1]
            else:
                return
