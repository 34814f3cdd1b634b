"""Pile: the letters of a mailbox that wait, for interests that have a reader and for those that have none.

A letter waits under an order, which its interests know it by: those that have a reader by a letter that goes,
all that have none by one that stays, under the same order. What comes later has a larger one.
"""

from __future__ import annotations

from itertools import count
from typing import Generic

from .claim_queue import ClaimQueue
from .claims import M
from .letters import Kept, Largest, Letter, Part


class Pile(ClaimQueue[Letter[M], Kept], Generic[M]):
    """What `KeepQueue` keeps; not thread-safe.

    Attributes:
        bytes: of what waits or is under way, of each message once.
        waiting: letters that wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0
        self.waiting: int = 0
        self._orders, self._fronts = count(1), count(0, -1)
        self._letters: dict[int, Letter[M]] = {}  # that wait for readers, as they go
        self._sorted = True  # these are, by their orders
        self._orphaned: dict[int, Letter[M]] = {}  # that wait for those without one, who are not its claims
        self._largest = Largest()

    def letters(self, interest: Kept) -> list[Letter[M]]:
        """What waits for an interest, oldest first."""
        letters = self._letters if interest.has_reader else self._orphaned
        return [letters[order] for order in interest.orders]

    def _wait(self, letter: Letter[M]) -> None:
        """A letter waits for its claims, behind all that waits for them."""
        order, key, size, claims = next(self._orders), letter.key, letter.size, letter.claims
        for interest in claims:
            place, parts = key if interest.apart else "", interest.parts
            part = parts[place] if place in parts else parts.setdefault(place, Part())
            part.waiting.append(order)
            part.bytes += size
            if self._largest.asked:
                self._largest.grown(interest, part)
        letter.left = len(claims)
        self.waiting += 1
        (self._letters if claims[0].has_reader else self._orphaned)[order] = letter

    def _let_go(self, interest: Kept, part: Part) -> Letter[M]:
        """The oldest that waits in a part of an interest waits for it no longer."""
        letters, order = self._letters if interest.has_reader else self._orphaned, part.waiting.popleft()
        letter = letters[order]
        part.bytes -= letter.size
        interest.tidy(letter.key, part)
        letter.left -= 1
        if not letter.left:
            del letters[order]
            self.waiting -= 1
            self._gone(letter)
        return letter

    def _gone(self, letter: Letter[M]) -> None:
        if self.is_last(letter):
            self.bytes -= letter.size

    def _join(self, found: Kept) -> None:
        """What waits for an interest that had no reader goes, together with the same for others."""
        letters, last, joins = self._letters, next(reversed(self._letters), 0), False
        for order in found.orders:
            letter, other = self._orphaned[order], letters.get(order)
            letter.left -= 1
            if not letter.left:
                del self._orphaned[order]
            if other is not None:
                joins = True
                if not letter.left:
                    self.waiting -= 1
                    self.is_last(letter)
                other.claims, other.left = (*other.claims, found), other.left + 1
                continue
            if letter.left:
                self.waiting += 1
                self.divide(letter.message)
                letter = letter.copy(())
            letters[order], letter.claims, letter.left = letter, (found,), 1
            self._sorted = self._sorted and order > last
        if joins and not self._sorted:  # else that of others decides what comes first
            self._letters, self._sorted = dict(sorted(letters.items())), True

    def _put_in_front(self, letter: Letter[M]) -> None:
        """What was under way waits again, before all that does for those who want it."""
        claims = [each for each in letter.claims if self.has(each)]
        if not claims:
            self._gone(letter)
            return
        order = next(self._fronts)
        again = self._orphaned[order] = letter.copy(())
        again.left = len(claims)
        self.waiting += 1
        for interest in claims:
            part = interest.parts[letter.key if interest.apart else ""]
            part.held -= 1
            part.waiting.appendleft(order)
