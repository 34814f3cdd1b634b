"""Send queue: what one reader gets of a publisher, over all that it wants.

What `put` does with each claim of a message. Lossy ones *may go* while the carrier takes more, those of
``drop`` outside of blocks also while it `runs_ahead`, as long as `Ahead` has room and nothing is to repeat::

    policy      goes now                     else waits                else
    drop(n)     may go, and none waits       fewer than n wait         the new one is lost
    latest(k)   may go, and none waits       always                    k wait: the oldest that waits is lost
    block       always: `full` said that     -                         -
                nobody has to be waited for

What becomes of an entry::

    entry       event                                    next
    -           put, some claims go                      ready, for these
    -           put, some claims wait                    waiting, for these
    waiting     lost for a claim                         waiting for the others, or gone
    waiting     refill, it is the oldest of an interest  ready for this one and all others that may go,
                that may go                              waiting for the rest
    ready       take                                     under way, at the next position
    under way   done                                     gone: window, room ahead and lease are free
    under way   resume(n), position > n                  to repeat, at the same position
    to repeat   take, before all that is ready           under way
    waiting     forget of its last claim                 gone; what is ready or under way goes as ever

Always: an interest gets its numbers in order, what is under way is never left out, and of each interest
delivered + held + waiting + missed = put. A loss is told once, with a newer entry, or by `tails`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Generic

from .ahead import Ahead, Most
from .claims import UNBOUNDED, Entry, Interest, Loss, M
from .interests import Interests
from .policies import Policy
from .under_way import UnderWay

OVERHEAD = 64
"""Bytes of an entry beside its content."""


class SendQueue(Generic[M]):
    """Not thread-safe: the publisher's lock protects it. Its length counts what is ready.

    Args:
        flows: whether the carrier takes more now.
        most: bounds of lossy claims.

    Attributes:
        runs_ahead: what need not be the newest goes even though the carrier takes no more now.
        interests: all of the reader.
        matching: tells of a topic and a key which of them get a message.
        gone: entries that nothing waits for any more, without having gone; for the owner to empty.
        lent: bytes of ready contents in blocks.
    """

    def __init__(self, flows: Callable[[], bool], most: Most | None = None) -> None:
        self.runs_ahead = False
        self.interests: dict[Interest, None] = {}
        self.gone: list[Entry[M]] = []
        self.lent = 0
        self._flows = flows
        self._ahead = Ahead(most or Most())
        self._index: Interests[Interest] = Interests()
        self.matching = self._index.matching
        self._behind: dict[Interest, None] = {}  # those for which something waits
        self._ready: deque[Entry[M]] = deque()
        self._again: deque[Entry[M]] = deque()
        self._under_way: UnderWay[M] = UnderWay()
        self._parts: dict[int, int] = {}  # of entries that became several: how many more

    def __len__(self) -> int:
        return len(self._ready) + len(self._again)

    @property
    def sent(self) -> int:
        """The last position."""
        return self._under_way.next - 1

    @property
    def unacknowledged(self) -> int:
        """Entries that were sent and that the reader is not done with."""
        return len(self._under_way)

    # --- what the reader wants -----------------------------------------------------------------------

    def want(
        self, topic: str, policy: Policy, window: int | None = None, keys: Collection[str] | None = None
    ) -> Interest:
        """Have what is put from now on.

        Args:
            topic: one topic.
            policy: ``drop``, ``latest`` or ``block``.
            window: most messages of a block that are not done with; None for the policy's bound.
            keys: of the messages; None for all.

        Raises:
            PolicyRefused: for a mailbox.
            ConfigError: for a window below 1.
        """
        interest = Interest(topic, policy, window, keys)
        self.interests[interest] = None
        self._enter(interest)
        return interest

    def change(
        self, interest: Interest, policy: Policy, window: int | None, keys: Collection[str] | None
    ) -> None:
        """Go on with these; what no longer fits is lost, the newest of ``drop`` and the oldest of ``latest``.

        A block takes over all that waits, and its window counts what is held already. Errors as `want`.
        """
        before = interest.keys
        interest.adopt(policy, window, keys)
        if before != keys:
            self._leave(interest, before)
            self._enter(interest)
        while len(interest.waiting) > interest.bound:
            self._lose_waiting(interest, 0 if interest.newest else len(interest.waiting) - 1)
        if not interest.lossy:
            self._refill(interest)

    def forget(self, interest: Interest) -> None:
        """Nobody wants it any more."""
        del self.interests[interest]
        interest.window = UNBOUNDED  # nobody waits for it
        self._leave(interest, interest.keys)
        self.give_up(interest)

    def _enter(self, interest: Interest) -> None:
        for key in _each(interest.keys):
            self._index.add(interest.topic, key, interest)

    def _leave(self, interest: Interest, keys: Collection[str] | None) -> None:
        for key in _each(keys):
            self._index.discard(interest.topic, key, interest)

    # --- what is published ---------------------------------------------------------------------------

    def put(self, message: M, number: int, size: int, leased: bool, claims: tuple[Interest, ...]) -> bool:
        """A message for these, of which none has a full window; False when it is lost for all of them.

        Args:
            message: newer than all before it.
            number: in its topic.
            size: bytes of its content.
            leased: the content lies in a block.
            claims: as `matching`, without those that it is lost for.
        """
        ahead = -1
        for interest in claims:
            if interest.lossy:
                if interest.waiting or not self._may_go(interest, leased):
                    return self._put_apart(Entry(message, number, size, leased, claims))
                ahead = 0 if leased else size
        self._make_ready(Entry(message, number, size, leased, claims, ahead))
        return True

    def _put_apart(self, entry: Entry[M]) -> bool:
        """As `put` of what may have to wait, or to be lost."""
        goes, waits, leased = list[Interest](), list[Interest](), entry.leased
        for interest in entry.claims:
            if not interest.lossy or (not interest.waiting and self._may_go(interest, leased)):
                goes.append(interest)
            elif self._make_place(interest, entry.size):
                waits.append(interest)
            else:
                interest.lose(entry.number)
        if waits:
            waiting = self._part(entry, waits) if goes else entry
            waiting.claims = tuple(waits)
            self._ahead.waiting += entry.size
            for interest in waits:
                interest.waiting.append(waiting)
                interest.marks.append(interest.missed - interest.early)
                self._behind[interest] = None
        if goes:
            entry.claims, entry.ahead = tuple(goes), _weight(entry, goes)
            self._make_ready(entry)
        return bool(goes or waits)

    def _part(self, entry: Entry[M], claims: list[Interest]) -> Entry[M]:
        """What is an entry of its own from now on, for these."""
        message = entry.message
        self._parts[id(message)] = self._parts.get(id(message), 0) + 1
        return Entry(message, entry.number, entry.size, entry.leased, tuple(claims))

    def _may_go(self, interest: Interest, leased: bool) -> bool:
        """Whether a lossy claim can go now."""
        if self._again or not self._ahead.has_room(leased):
            return False
        return (self.runs_ahead and not leased and not interest.newest) or self._flows()

    def _make_place(self, interest: Interest, size: int) -> bool:
        """Whether one more can wait for it, after older ones gave way."""
        waiting = interest.waiting
        full = len(waiting) >= interest.bound
        if not interest.newest:
            return not full and self._ahead.has_place(size)
        while waiting and (full or not self._ahead.has_place(size)):
            self._lose_waiting(interest, 0)
            full = False
        return self._ahead.has_place(size)

    def _make_ready(self, entry: Entry[M]) -> None:
        for interest in entry.claims:
            interest.held += 1
            if interest.missed != interest.told:
                entry.lost += interest.tell(interest.missed)
        self._count_ready(entry)

    def _count_ready(self, entry: Entry[M]) -> None:
        if entry.ahead >= 0:
            self._ahead.add(entry)
        if entry.leased:
            self.lent += entry.size
        self._ready.append(entry)

    # --- what waits ----------------------------------------------------------------------------------

    def refill(self) -> None:
        """What waits becomes ready as far as it can go now."""
        for interest in list(self._behind):
            self._refill(interest)

    def _refill(self, interest: Interest) -> None:
        waiting = interest.waiting
        while waiting and self._may_advance(interest, waiting[0]):
            entry = waiting[0]
            goes = [interest, *(each for each in entry.claims if each is not interest)]
            self._advance(entry, [each for each in goes if self._may_advance(each, entry)])

    def _may_advance(self, interest: Interest, entry: Entry[M]) -> bool:
        if interest.waiting[0] is not entry:
            return False
        return not interest.lossy or self._may_go(interest, entry.leased)

    def _advance(self, entry: Entry[M], goes: list[Interest]) -> None:
        """An entry that waits becomes ready for these, of which it is the oldest."""
        rest = tuple(each for each in entry.claims if each not in goes)
        if rest:
            ready, entry.claims = self._part(entry, goes), rest
        else:
            ready, entry.claims = entry, tuple(goes)
            self._ahead.waiting -= entry.size
        ready.ahead = _weight(entry, goes)
        for interest in goes:
            interest.waiting.popleft()
            interest.held += 1
            ready.lost += interest.tell(interest.marks.popleft() + interest.early)
            self._look_behind(interest)
        self._count_ready(ready)

    def _look_behind(self, interest: Interest) -> None:
        if not interest.waiting:
            self._behind.pop(interest, None)

    def _lose_waiting(self, interest: Interest, index: int) -> None:
        """One that waits is lost for an interest; those behind it are told of that."""
        entry = interest.waiting[index]
        del interest.waiting[index], interest.marks[index]
        interest.lose(entry.number)
        if index == 0:
            interest.early += 1
        else:
            for behind in range(index, len(interest.marks)):
                interest.marks[behind] += 1
        self._let_go(entry, interest)

    def _let_go(self, entry: Entry[M], interest: Interest) -> None:
        """An entry waits no longer for one of its claims."""
        entry.claims = tuple(each for each in entry.claims if each is not interest)
        if not entry.claims:
            self._ahead.waiting -= entry.size
            if self._is_last(entry):
                self.gone.append(entry)
        self._look_behind(interest)

    def _is_last(self, entry: Entry[M]) -> bool:
        """Whether nothing else of its message is left."""
        if not self._parts:
            return True
        parts = self._parts.pop(id(entry.message), 0)
        if parts > 1:
            self._parts[id(entry.message)] = parts - 1
        return not parts

    def give_up(self, interest: Interest) -> None:
        """What waits for it is lost."""
        while interest.waiting:
            self._lose_waiting(interest, 0)

    def give_block(self) -> bool:
        """One that waits and lies in a block is lost; False when there is none."""
        for interest in self._behind:
            entry = next((each for each in interest.waiting if each.leased), None)
            if entry is not None:
                for claim in entry.claims:
                    self._lose_waiting(claim, claim.waiting.index(entry))
                return True
        return False

    # --- what goes -----------------------------------------------------------------------------------

    def take(self, messages: int, size: int, blocks: bool) -> list[Entry[M]]:
        """What goes next, at least one if anything is ready.

        Args:
            messages: at most so many.
            size: bytes of them together, unless one is larger.
            blocks: the carrier takes contents in blocks.
        """
        taken: list[Entry[M]] = []
        for entries in (self._again, self._ready):
            while entries and len(taken) < messages:
                entry = entries[0]
                size -= OVERHEAD if entry.leased and blocks else OVERHEAD + entry.size
                if size < 0 and taken:
                    return taken
                taken.append(entries.popleft())
                if not entry.position:
                    self._under_way.sent(entry)
                    if entry.leased:
                        self.lent -= entry.size
        return taken

    def later(self, entries: Iterable[Entry[M]]) -> None:
        """The last that were taken did not go after all: they are the next."""
        self._again.extendleft(reversed(list(entries)))

    def tails(self, most: int) -> list[Loss]:
        """Losses behind everything that goes, which no entry will tell of; told with this call."""
        asked = islice(() if len(self) else self.interests, most)
        return [loss for each in asked if not each.waiting for loss in each.tell(each.missed)]

    def check(self, received: int) -> None:
        """Judge what a reader says that it has.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
        self._under_way.received(received)

    def done(self, received: int, upto: int, others: Iterable[int]) -> list[Entry[M]]:
        """The reader has everything up to ``received``, and is done with positions up to one and with others.

        Returns:
            What is free now, oldest first.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
        self._under_way.received(received)
        done = self._under_way.done(upto, others)
        for entry in done:
            for interest in entry.claims:
                interest.held -= 1
                interest.delivered += 1
            if entry.ahead >= 0:
                self._ahead.remove(entry)
        return [entry for entry in done if self._is_last(entry)] if self._parts else done

    def resume(self, received: int) -> None:
        """Another carrier, or another connection: what the reader has not got goes again.

        Raises:
            RemoteProtocolError: for a position that was never sent.
        """
        self._again = deque(self._under_way.after(received))

    def clear(self) -> list[Entry[M]]:
        """Forget everything; returns what the reader was not done with, or never got."""
        for interest in self.interests:
            self.give_up(interest)
        left = [*self._under_way.all(), *self._ready]
        self._ready.clear()
        self._again.clear()
        self._under_way = UnderWay()
        self._parts.clear()
        self.lent = 0
        return left


def _each(keys: Collection[str] | None) -> Iterable[str | None]:
    return (None,) if keys is None else keys


def _weight(entry: Entry[M], claims: Iterable[Interest]) -> int:
    """What it counts as ahead, once it goes for these."""
    return (0 if entry.leased else entry.size) if any(interest.lossy for interest in claims) else -1
