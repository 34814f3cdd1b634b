"""Keep queue: what one reader gets by interests of the policy ``mailbox``, kept until it is done with that.

::

    letter      event                                   next
    -           put                                     waiting: one for all interests that have a reader, one
                                                        for each that has none
    -           put, and a bound is reached             the oldest of that interest, or of all, is evicted
    waiting     evicted for a claim                     waiting for the others, or gone; lost for it
    waiting     take, as far as the reader has room     under way, at the next position
    under way   done                                    gone, delivered
    under way   resume(n), position > n                 to repeat, at the same position
    to repeat   take, before all that waits             under way
    under way   hand_over                               waiting, in front, one for each claim
    waiting     forget of its last claim                gone; what is under way goes as ever

What is under way counts for a bound and is never evicted: one message may always wait beside it.

A mailbox with a name outlives the process that reads it::

    interest        event                             next
    has a reader    hand_over                         has none: it goes on keeping, and nothing of it goes
    has none        want of the same topic and keys   has a reader, who gets all that was kept, and the sum
                                                      of the losses that no process has acknowledged
    has none        want of others                    as it was; the new one gets what it wants of it, too
    has none        forget_others                     forgotten

Always: an interest gets its numbers in order, and delivered + held + waiting + missed = put. Losses are told
as sums, for each topic of an interest by itself, perhaps before older messages, and again after `resume`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice

from .claim_queue import OVERHEAD, ClaimQueue
from .claims import Entry, Loss, M
from .letters import Kept, Letter, Part, Sum
from .policies import Policy
from .under_way import UnderWay

MOST = 1_000_000
"""Messages that wait for one reader; beyond that the oldest makes room, whosever it is."""


class KeepQueue(ClaimQueue[M, Kept]):
    """Not thread-safe: the publisher's lock protects it. Its length counts what may go now.

    The bound in messages is that of each interest, and of each of its keys. The bound in bytes, the largest
    of them, is that of all together; the interest with most bytes makes room.

    Attributes:
        room: position up to which the reader takes messages, as it said last.
        bytes: of what waits or is under way.
        waiting: messages that wait.
        delivered: messages that the reader is done with.
        evicted: messages that make room for others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.room = self.bytes = self.waiting = self.delivered = self.evicted = 0
        self._orphans: dict[tuple[str, Collection[str] | None], list[Kept]] = {}  # that have no reader
        self._letters: deque[Letter[M]] = deque()  # that wait for readers; those without a claim are gone
        self._hollow = 0  # how many these are
        self._untold: dict[tuple[Kept, str], None] = {}
        self._tellings: deque[tuple[int, Sum, int]] = deque()  # position that shows that it came, sum, total
        self._orders = self._max_bytes = 0
        self._measured = True

    def __len__(self) -> int:
        room = max(0, self.room - self.sent)
        return len(self._again) + min(len(self._letters) - self._hollow, room)

    @property
    def behind(self) -> bool:
        """Whether losses are not told."""
        return bool(self._untold)

    @property
    def oldest(self) -> float | None:
        """When the oldest message came that is kept; None without one."""
        waiting = [part.waiting[0] for each in self.interests if (part := each.oldest()) is not None]
        kept: list[Entry[M]] = [*self._under_way.all()[:1], *waiting]
        return min([each.at for each in kept if isinstance(each, Letter)], default=None)

    # --- what the reader wants -----------------------------------------------------------------------

    def want(self, number: int, topic: str, policy: Policy, keys: Collection[str] | None = None) -> Kept:
        """Have what is put from now on, and what was kept of it for nobody; errors as `Kept`."""
        like = topic, None if keys is None else frozenset(keys)
        if like in self._orphans:
            found = self._orphans[like][0]
            self._claim(found)
            found.adopt(number, policy)
            self._letters.extend(found.waiting)
            self._tell_anew(found)
            self._measured = False
            return found
        found = Kept(number, topic, policy, keys)
        self._begin(found)
        self._max_bytes = max(self._max_bytes, found.max_bytes)
        orphans = [each for several in self._orphans.values() for each in several]
        kept = {each.order: each for orphan in orphans for each in orphan.waiting if found.wants(each)}
        for order in sorted(kept):
            self._wait(kept[order], (found,))
        return found

    def _claim(self, orphan: Kept) -> None:
        like = orphan.topic, orphan.keys
        self._orphans[like].remove(orphan)
        if not self._orphans[like]:
            del self._orphans[like]

    def forget(self, interest: Kept) -> None:
        """Nobody wants it any more."""
        self._cease(interest)
        if not interest.has_reader:
            self._claim(interest)
        while (part := interest.oldest()) is not None:
            self._let_go(interest, part)
        for topic in interest.sums:
            self._untold.pop((interest, topic), None)
        self._measured = False

    def forget_others(self) -> None:
        """What has no reader by now is not wanted any more."""
        for interest in [each for several in self._orphans.values() for each in several]:
            self.forget(interest)

    @property
    def has_orphans(self) -> bool:
        """Whether something is kept for nobody."""
        return bool(self._orphans)

    def _most_bytes(self) -> int:
        if not self._measured:
            self._max_bytes = max([each.max_bytes for each in self.interests], default=0)
            self._measured = True
        return self._max_bytes

    # --- what is published ---------------------------------------------------------------------------

    def full(self, claims: Iterable[Kept], key: str, size: int) -> list[Kept]:
        """Those for which whoever publishes so many bytes has to wait."""
        blocking = [each for each in claims if each.policy.when_full == "block"]
        if blocking and self.bytes > 0 and self.bytes + size > self._most_bytes():
            return blocking
        parts = [(each, each.part(key)) for each in blocking]
        return [each for each, part in parts if part is not None and part.is_full(each.bound)]

    def put(
        self, message: M, topic: str, key: str, number: int, size: int, claims: tuple[Kept, ...], now: float
    ) -> None:
        """Keep a message, newer than all before it; arguments as `SendQueue.put`, monotonic seconds."""
        for interest in claims:
            part = interest.part(key)
            while part is not None and part.waiting and part.is_full(interest.bound):
                self._evict(interest, part)
        while self.waiting and (self.bytes + size > self._most_bytes() or self.waiting >= MOST):
            self._evict_largest()
        self._orders += 1
        letter = Letter(
            message=message, number=number, size=size, leased=False, claims=(), topic=topic, key=key,
            order=self._orders, at=now,
        )  # fmt: skip
        reading = tuple([each for each in claims if each.has_reader]) if self._orphans else claims
        if reading:
            self._wait(letter, reading)
        for interest in claims if self._orphans else ():
            if not interest.has_reader:
                self._wait(letter, (interest,))

    def _wait(self, like: Letter[M], claims: tuple[Kept, ...]) -> None:
        """A letter of that content waits for these, behind all that waits for them."""
        letter = like if not like.claims else like.copy()
        letter.claims = claims
        for interest in claims:
            interest.wait(letter)
        self._count(letter, 1)
        if claims[0].has_reader:
            self._letters.append(letter)

    def _count(self, letter: Letter[M], change: int) -> None:
        self.waiting += change
        self.bytes += change * letter.size

    def lose(self, interest: Kept, topic: str, number: int) -> None:
        """An interest does not get the message of this number."""
        interest.missed += 1
        told = interest.sums.get(topic) or interest.sums.setdefault(topic, Sum())
        told.total += 1
        told.at = max(told.at, number)
        if interest.has_reader:
            self._untold[interest, topic] = None

    def _evict_largest(self) -> None:
        """The oldest of the interest with most bytes makes room."""
        largest: tuple[int, Kept, Part] | None = None
        for interest in self.interests:
            if largest is None or interest.bytes > largest[0]:
                part = interest.oldest()
                largest = largest if part is None else (interest.bytes, interest, part)
        if largest is not None:
            self._evict(*largest[1:])

    def _evict(self, interest: Kept, part: Part) -> None:
        letter = self._let_go(interest, part)
        self.lose(interest, letter.topic, letter.number)
        self.evicted += not letter.claims

    def _let_go(self, interest: Kept, part: Part) -> Letter[M]:
        """The oldest that waits in a part of an interest waits for it no longer."""
        letter: Letter[M] = interest.take(part)
        letter.claims = tuple([each for each in letter.claims if each is not interest])
        if not letter.claims:
            self._count(letter, -1)
            if interest.has_reader:
                self._hollow += 1
                if self._hollow > 1024 and 2 * self._hollow > len(self._letters):
                    self._letters = deque([each for each in self._letters if each.claims])
                    self._hollow = 0
        return letter

    # --- what goes -----------------------------------------------------------------------------------

    def take(self, messages: int, size: int, blocks: bool = False) -> list[Entry[M]]:
        """See `ClaimQueue.take`."""
        taken: list[Entry[M]] = []
        again, letters = self._again, self._letters
        while again and len(taken) < messages:
            size -= OVERHEAD + again[0].size
            if size < 0 and taken:
                return taken
            taken.append(again.popleft())
        while letters and len(taken) < messages and self.sent < self.room:
            letter = letters.popleft()
            if not letter.claims:
                self._hollow -= 1
                continue
            size -= OVERHEAD + letter.size
            if size < 0 and taken:
                letters.appendleft(letter)
                break
            self._send(letter)
            taken.append(letter)
        return taken

    def _send(self, letter: Letter[M]) -> None:
        self._under_way.sent(letter)
        self.waiting -= 1
        for interest in letter.claims:
            interest.send(letter)

    def losses(self, most: int, shown: int) -> list[Loss]:
        """See `ClaimQueue.losses`."""
        found = list(islice(self._untold, most))
        losses = list[Loss]()
        for interest, topic in found:
            del self._untold[interest, topic]
            told = interest.sums[topic]
            losses.append(Loss(interest, topic, told.at, told.total))
            self._tellings.append((shown, told, told.total))
        return losses

    def done(self, received: int, upto: int, others: Iterable[int] = ()) -> list[Entry[M]]:
        """See `ClaimQueue.done`."""
        done = self._done(received, upto, others)
        for letter in done:
            self.bytes -= letter.size
            for interest in letter.claims:
                if isinstance(interest, Kept) and isinstance(letter, Letter):
                    interest.done(letter)
        self.delivered += len(done)
        while self._tellings and self._tellings[0][0] <= upto:
            _, told, total = self._tellings.popleft()
            told.settled = max(told.settled, total)
        return done

    def resume(self, received: int) -> None:
        """See `ClaimQueue.resume`."""
        self._again = deque(self._under_way.after(received))
        for interest in self.interests:
            self._tell_anew(interest)

    def _tell_anew(self, interest: Kept) -> None:
        self._untold.update({(interest, topic): None for topic, told in interest.sums.items() if told.total})

    def hand_over(self) -> None:
        """Another process reads it from now on: what is not done with is kept for it, until it asks."""
        under_way: list[Letter[M]] = self._under_way.all()  # pyright: ignore[reportAssignmentType]
        waiting = [each for each in self._letters if each.claims]
        self.bytes -= sum([each.size for each in (*under_way, *waiting)])
        self.waiting -= len(waiting)
        for interest in self.interests:
            if interest.has_reader:
                self._orphans.setdefault((interest.topic, interest.keys), []).append(interest)
                interest.leave()
            for told in interest.sums.values():
                told.total -= told.settled
                told.settled = 0
        self._letters, self._again, self._under_way = deque(), deque(), UnderWay()
        self._untold, self._tellings, self._hollow, self.room = {}, deque(), 0, 0
        for letter in (*under_way, *waiting):
            for interest in letter.claims:
                if interest in self.interests:
                    self._wait(letter.copy(), (interest,))
