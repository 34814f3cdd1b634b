"""Send queue: what one reader gets of a publisher, over all that it wants.

What `put` does with each claim of a message. Lossy ones *may go* while the carrier takes more, those of
``drop`` outside of blocks also while it `runs_ahead`, as long as `Most` has room and nothing is to repeat::

    policy      goes now                     else waits                else
    drop(n)     may go, and none waits       fewer than n wait         the new one is lost
    latest(k)   may go, and none waits       always                    k wait: the oldest that waits is lost
    block       always: `full` said that     -                         -
                nobody has to be waited for

What becomes of an entry::

    entry       event                                    next
    -           put, some claims go                      ready: one for those with a window, one for lossy
    -           put, some claims wait                    waiting, for these
    waiting     lost for a claim                         waiting for the others, or gone
    waiting     refill, it is the oldest of an interest  ready for this one and all others that may go,
                that may go                              waiting for the rest
    ready       take                                     under way, at the next position
    under way   done                                     gone: window, room ahead and lease are free
    under way   resume(n), position > n                  to repeat, at the same position
    to repeat   take, before all that is ready           under way
    waiting     forget of its last claim                 gone; what is ready or under way goes as ever
    waiting,    suspend                                  lost for all claims
    ready
    under way   suspend                                  gone; it is known with `resume` whether it was lost
    -           put, while suspended                     lost for all claims

Always: an interest gets its numbers in order, what is under way is never left out, and of each interest
delivered + held + waiting + missed = put. Losses are told as the sum of all losses of an interest, perhaps
before older entries, and again after `resume`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Generic, NamedTuple

from .claim_queue import OVERHEAD, ClaimQueue
from .claims import UNBOUNDED, Entry, Interest, Loss, M
from .policies import Policy


class Most(NamedTuple):
    """Bounds of what is ready or under way for lossy claims; what comes then waits or is lost by policy.

    Attributes:
        messages: all of them.
        bytes: outside of blocks.
        leased: contents in blocks: one that the reader looks at, one that somebody waits for, and one on its
            way, which the reader copies.
        waiting: bytes that wait; beyond them the oldest is lost, of ``drop`` the newest.
    """

    messages: int = 10_000
    bytes: int = 64 << 20
    leased: int = 3
    waiting: int = 64 << 20


class SendQueue(ClaimQueue[Entry[M], Interest], Generic[M]):
    """Not thread-safe: the publisher's lock protects it. Its length counts what is ready.

    Args:
        flows: whether the carrier takes more now.
        most: bounds of lossy claims.

    Attributes:
        runs_ahead: what need not be the newest goes even though the carrier takes no more now.
        gone: entries that nothing waits for any more, without having gone; for the owner to empty.
    """

    def __init__(self, flows: Callable[[], bool], most: Most | None = None) -> None:
        super().__init__()
        self.runs_ahead = False
        self.gone: list[Entry[M]] = []
        self._flows = flows
        self._most = most or Most()
        self._messages = self._bytes = self._leased = 0  # ready or under way for lossy claims
        self._waiting_bytes = 0
        self._behind: dict[Interest, None] = {}  # those for which something waits
        self._untold: dict[Interest, None] = {}  # those that lost something since they were told
        self._ready: deque[Entry[M]] = deque()

    def __len__(self) -> int:
        return len(self._ready) + len(self._again)

    def want(
        self,
        number: int,
        topic: str,
        policy: Policy,
        window: int | None = None,
        keys: Collection[str] | None = None,
    ) -> Interest:
        """Have what is put from now on; arguments and errors as those of `Interest`."""
        interest = Interest(number, topic, policy, window, keys)
        self._begin(interest)
        return interest

    def forget(self, interest: Interest) -> None:
        """Nobody wants it any more."""
        self._cease(interest)
        interest.window = UNBOUNDED  # nobody waits for it
        self.give_up(interest)
        self._untold.pop(interest, None)

    def put(self, message: M, number: int, size: int, leased: bool, claims: tuple[Interest, ...]) -> bool:
        """A message for these, of which none has a full window; False when it is lost for all of them.

        Args:
            message: newer than all before it.
            number: in its topic.
            size: bytes of its content.
            leased: the content lies in a block.
            claims: as `matching`, without those that it is lost for.
        """
        if self.suspended:
            for interest in claims:
                self.lose(interest, number)
            return False
        lossy = claims[0].lossy
        for interest in claims:
            if interest.lossy is not lossy or (
                lossy and (interest.waiting or not self._may_go(interest, leased))
            ):
                return self._put_apart(Entry(message, number, size, claims, leased))
        ahead = -1 if not lossy else 0 if leased else size
        self._make_ready(Entry(message, number, size, claims, leased, 0, ahead))
        return True

    def _put_apart(self, entry: Entry[M]) -> bool:
        """As `put` of what may have to wait, to be lost, or to become several."""
        every: tuple[list[Interest], ...] = ([], [], [])
        (windows, goes, waits), leased = every, entry.leased
        for interest in entry.claims:
            if not interest.lossy:
                windows.append(interest)
            elif not interest.waiting and self._may_go(interest, leased):
                goes.append(interest)
            elif self._make_place(interest, entry.size):
                waits.append(interest)
            else:
                self.lose(interest, entry.number)
        for group in (groups := [group for group in every if group]):
            part = entry if group is groups[-1] else self._part(entry, group)
            if len(group) < len(part.claims):
                part.claims = tuple(group)
            if group is waits:
                self._make_wait(part)
            else:
                part.ahead = -1 if group is windows else 0 if leased else entry.size
                self._make_ready(part)
        return bool(groups)

    def _make_wait(self, entry: Entry[M]) -> None:
        self._waiting_bytes += entry.size
        entry.left = len(entry.claims)
        for interest in entry.claims:
            interest.wait(entry)
            self._behind[interest] = None

    def lose(self, interest: Interest, number: int) -> None:
        """An interest does not get the message of this number."""
        interest.missed += 1
        interest.lost_at = max(interest.lost_at, number)
        self._untold[interest] = None

    def _part(self, entry: Entry[M], claims: list[Interest]) -> Entry[M]:
        """What is an entry of its own from now on, for these."""
        message = entry.message
        self.divide(message)
        return Entry(message, entry.number, entry.size, tuple(claims), entry.leased)

    def _may_go(self, interest: Interest, leased: bool) -> bool:
        """Whether a lossy claim can go now."""
        most = self._most
        if self._again or self._messages >= most.messages or self._bytes >= most.bytes:
            return False
        if leased and self._leased >= most.leased:
            return False
        return (self.runs_ahead and not leased and not interest.newest) or self._flows()

    def _make_place(self, interest: Interest, size: int) -> bool:
        """Whether one more can wait for it, after older ones gave way."""
        waiting = interest.waiting
        full = len(waiting) >= interest.bound
        if not interest.newest:
            return not full and self._has_place(size)
        while waiting and (full or not self._has_place(size)):
            self._lose_waiting(interest, 0)
            full = False
        return self._has_place(size)

    def _has_place(self, size: int) -> bool:
        """Whether so many bytes more may wait."""
        return not self._waiting_bytes or self._waiting_bytes + size <= self._most.waiting

    def _make_ready(self, entry: Entry[M]) -> None:
        for interest in entry.claims:
            interest.held += 1
        if entry.ahead >= 0:
            self._messages += 1
            self._bytes += entry.ahead
            self._leased += entry.leased
        self._ready.append(entry)

    def _leave(self, entry: Entry[M]) -> None:
        """It is neither ready nor under way any more."""
        if entry.ahead >= 0:
            self._messages -= 1
            self._bytes -= entry.ahead
            self._leased -= entry.leased

    def refill(self) -> None:
        """What waits becomes ready as far as it can go now."""
        for interest in list(self._behind):
            self._refill(interest)

    def _refill(self, interest: Interest) -> None:
        waiting = interest.waiting
        while waiting and self._may_go(interest, waiting[0].leased):
            entry = waiting[0]
            oldest = [each for each in entry.claims if each.waiting and each.waiting[0] is entry]
            self._advance(entry, [each for each in oldest if self._may_go(each, entry.leased)])

    def _advance(self, entry: Entry[M], goes: list[Interest]) -> None:
        """An entry that waits becomes ready for these, of which it is the oldest."""
        entry.left -= len(goes)
        if entry.left:
            ready = self._part(entry, goes)
        else:
            ready, entry.claims = entry, tuple(goes)
            self._waiting_bytes -= entry.size
        ready.ahead = 0 if entry.leased else entry.size
        for interest in goes:
            interest.waits_not()
            self._look_behind(interest)
        self._make_ready(ready)

    def _look_behind(self, interest: Interest) -> None:
        if not interest.waiting:
            self._behind.pop(interest, None)

    def _lose_waiting(self, interest: Interest, index: int) -> None:
        """One that waits is lost for an interest."""
        entry = interest.waiting[index]
        interest.waits_not(index)
        self.lose(interest, entry.number)
        self._let_go(entry, interest)

    def _let_go(self, entry: Entry[M], interest: Interest) -> None:
        """An entry waits no longer for one of its claims."""
        entry.left -= 1
        if not entry.left:
            self._waiting_bytes -= entry.size
            if self.is_last(entry):
                self.gone.append(entry)
        self._look_behind(interest)

    def give_up(self, interest: Interest) -> None:
        """What waits for it is lost."""
        while interest.waiting:
            self._lose_waiting(interest, 0)

    def abandon(self) -> None:
        """What did not go yet is lost, whether it waits or is ready."""
        for interest in self.interests:
            self.give_up(interest)
        for entry in self._ready:
            self._leave(entry)
            for interest in entry.claims:
                interest.held -= 1
                if self.has(interest):
                    self.lose(interest, entry.number)
            if self.is_last(entry):
                self.gone.append(entry)
        self._ready.clear()

    def give_block(self) -> bool:
        """One that waits and lies in a block is lost; False when there is none."""
        for interest in self._behind:
            entry = next((each for each in interest.waiting if each.leased), None)
            if entry is not None:
                for claim in [each for each in entry.claims if each.waits(entry)]:
                    self._lose_waiting(claim, claim.waiting.index(entry))
                return True
        return False

    # --- what goes -----------------------------------------------------------------------------------

    def take(self, messages: int, size: int, blocks: bool) -> list[Entry[M]]:
        """See `ClaimQueue.take`."""
        taken: list[Entry[M]] = []
        before: M | None = None  # whose content goes anyway
        for entries in (self._again, self._ready):
            while entries and len(taken) < messages:
                entry = entries[0]
                if entry.message is not before:
                    size -= OVERHEAD if entry.leased and blocks else OVERHEAD + entry.size
                if size < 0 and taken and entry.message is not before:
                    break
                taken.append(entries.popleft())
                before = entry.message
        fresh = taken
        if taken and taken[0].position:  # again
            fresh = [entry for entry in taken if not entry.position]
        if self.parts and len(fresh) > 1:  # in this order, contents of several entries go once
            taken[-len(fresh) :] = fresh = sorted(fresh, key=lambda each: each.ahead >= 0)
        self._under_way.sent(fresh)
        return taken

    def losses(self, most: int, shown: int = 0) -> list[Loss]:
        """See `ClaimQueue.losses`."""
        found = list(islice(self._untold, most))
        for interest in found:
            del self._untold[interest]
        return [Loss(each, each.topic, each.lost_at, each.missed) for each in found]

    @property
    def behind(self) -> bool:
        """Whether something waits, or losses are not told."""
        return bool(self._behind or self._untold)

    def done(self, received: int, upto: int, others: Iterable[int] = ()) -> list[Entry[M]]:
        """See `ClaimQueue.done`."""
        done = self._done(received, upto, others)
        for entry in done:
            for interest in entry.claims:
                interest.held -= 1
                interest.delivered += 1
            self._leave(entry)
        return [entry for entry in done if self.is_last(entry)] if self.parts else done

    def resume(self, received: int) -> None:
        """See `ClaimQueue.resume`."""
        if self.suspended:
            for came, number, claims in self._under_way.settle(received):
                for interest in claims:
                    if came:
                        interest.delivered += 1
                    else:
                        self.lose(interest, number)
        self.suspended, self._again = False, deque(self._under_way.after(received))
        self._untold = {interest: None for interest in self.interests if interest.missed}

    def suspend(self) -> list[Entry[M]]:
        """Keep nothing but counts until `resume`; returns what went, and the reader was not done with."""
        self.abandon()
        for interest in self.interests:
            interest.held = 0  # nobody waits for it
        left = self._under_way.suspend()
        self._again, self.parts = deque(), {}
        self._messages = self._bytes = self._leased = 0
        self.suspended = True
        return left
