"""Keep queue: what one reader gets by interests of the policy ``mailbox``, kept until it is done with that.

::

    letter      event                                   next
    -           put                                     waiting: one for all interests that have a reader, one
                                                        for all that have none
    -           put, and a bound is reached             the oldest of that interest, or of all, is evicted
    waiting     evicted for a claim                     waiting for the others, or gone; lost for it
    waiting     abandon                                 gone; lost for all claims
    waiting     take, as far as the reader has room     under way, at the next position
    under way   done                                    gone, delivered
    under way   resume(n), position > n                 to repeat, at the same position
    to repeat   take, before all that waits             under way
    under way   hand_over                               waiting, in front
    waiting     forget of its last claim                gone; what is under way goes as ever

What is under way counts for a bound and is never evicted: one message may always wait beside it, and goes
when all under way have room for it. Where all have too many bytes, that interest makes room which has most of
them, or that key of one with several.

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
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Generic

from .claim_queue import OVERHEAD, UnderWay
from .claims import Loss, M
from .interests import thin
from .letters import Kept, Letter, Part, Sum, alike
from .pile import Pile
from .policies import Policy

MOST = 1_000_000
"""Messages that wait for one reader; beyond that the oldest makes room, whosever it is."""


class KeepQueue(Pile[M], Generic[M]):
    """Not thread-safe: the publisher's lock protects it. Its length counts what may go now.

    The bound in messages is that of each interest, and of each of its keys. The bound in bytes, the largest
    of them, is that of all together, as far as its share goes. Nothing that happens to one message looks at
    all interests.

    Attributes:
        room: position up to which the reader takes messages, as it said last.
        share: most bytes, whatever the interests have as their bound.
        delivered: messages that the reader is done with.
        evicted: messages that make room for others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.room = self.delivered = self.evicted = 0
        self._orphans: dict[tuple[str, Collection[str] | None], list[Kept]] = {}  # that have no reader
        self._untold: dict[tuple[Kept, str], None] = {}
        self._tellings: deque[tuple[int, Sum, int]] = deque()  # position that shows that it came, sum, total
        self.share = 1 << 62
        self._asked = 0
        self._measured = True
        self._sent_bytes = 0  # of what is under way

    def __len__(self) -> int:
        return len(self._again) + self._open()

    def _open(self) -> int:
        """How many may go for the first time, as far as they are small enough, and the first one surely."""
        letters, under_way = self._letters, len(self._under_way)
        most = min(len(letters), self.room - self._under_way.next + 1, MOST - under_way)
        if most <= 0:
            return 0
        after = self._sent_bytes + next(iter(letters.values())).size
        return most if not under_way or after <= min(self.asked, self.share) else 0

    @property
    def owed(self) -> int:
        """Messages that its reader is to get and that are not on their way, whatever room it has."""
        return len(self._again) + len(self._letters)

    @property
    def behind(self) -> bool:
        """Whether losses are not told."""
        return bool(self._untold)

    @property
    def oldest(self) -> float | None:
        """When the oldest message came that is kept; None without one."""
        first = [
            (self._letters if each.has_reader else self._orphaned)[part.waiting[0]]
            for each in self.interests
            for part in each.parts.values()
            if part.waiting
        ]
        sent = self._under_way.oldest
        return min([each.at for each in (*first, *([sent] if sent else []))], default=None)

    # --- what the reader wants -----------------------------------------------------------------------

    def want(self, number: int, topic: str, policy: Policy, keys: Collection[str] | None = None) -> Kept:
        """Have what is put from now on, and what was kept of it for nobody; errors as `Kept`."""
        like = topic, thin(keys)
        if like in self._orphans:
            found = self._orphans[like][0]
            self._claim(found)
            found.adopt(number, policy)
            self._join(found)
            self._tell_anew(found)
            self._measured = False
            return found
        found = Kept(number, topic, policy, keys)
        self._begin(found)
        self._asked = max(self._asked, found.max_bytes)
        orphans = [each for several in self._orphans.values() for each in several]
        kept = {
            (letter.topic, letter.number): letter
            for order in sorted([order for orphan in orphans for order in orphan.orders])
            if found.wants(letter := self._orphaned[order])
        }
        for letter in kept.values():
            self._wait(letter.copy((found,)))
            self.divide(letter.message)
        return found

    def begins(self, interest: Kept, lasts: Mapping[str, int]) -> dict[str, int]:
        """The numbers behind which an interest goes on, where ``lasts`` are those of its topics now."""
        found = {**lasts}
        for letter in self.letters(interest):
            found[letter.topic] = min(found.get(letter.topic, letter.number), letter.number - 1)
        return found

    def _claim(self, orphan: Kept) -> None:
        like = orphan.topic, orphan.keys
        self._orphans[like].remove(orphan)
        if not self._orphans[like]:
            del self._orphans[like]

    def forget(self, interest: Kept) -> None:
        """Nobody wants it any more."""
        self._cease(interest)
        for part in list(interest.parts.values()):
            while part.waiting:
                self._let_go(interest, part)
        if not interest.has_reader:
            self._claim(interest)
        for topic in interest.sums:
            self._untold.pop((interest, topic), None)
        self._measured = False

    def forget_others(self) -> int:
        """What has no reader by now is not wanted any more; how many messages that leaves to nobody."""
        orphaned = {(letter.topic, letter.key) for letter in self._orphaned.values()}
        wanted = {each for each in orphaned if any(one.has_reader for one in self.matching(*each))}
        unwanted = {
            (letter.topic, letter.number)
            for letter in self._orphaned.values()
            if (letter.topic, letter.key) not in wanted
        }
        for interest in [each for several in self._orphans.values() for each in several]:
            self.forget(interest)
        return len(unwanted)

    @property
    def has_orphans(self) -> bool:
        """Whether something is kept for nobody."""
        return bool(self._orphans)

    @property
    def asked(self) -> int:
        """The largest bound in bytes."""
        if not self._measured:
            self._asked = max([each.max_bytes for each in self.interests], default=0)
            self._measured = True
        return self._asked

    def _has_room(self, size: int) -> bool:
        """Whether so many bytes more may be kept."""
        return self.bytes + size <= min(self.asked, self.share)

    # --- what is published ---------------------------------------------------------------------------

    def full(self, claims: Iterable[Kept], key: str, size: int) -> list[Kept]:
        """Those for which whoever publishes so many bytes has to wait."""
        blocking = [each for each in claims if each.policy.when_full == "block"]
        if blocking and self.bytes > 0 and not self._has_room(size):
            return blocking
        return [each for each in blocking if each.is_full(key)]

    def put(
        self, message: M, topic: str, key: str, number: int, size: int, claims: tuple[Kept, ...], now: float
    ) -> None:
        """Keep a message, newer than all before it; arguments as `SendQueue.put`, monotonic seconds."""
        if not claims:
            return
        for interest in claims:
            part = interest.parts.get(key if interest.apart else "")
            if part is not None:
                while len(part.waiting) + part.held >= interest.bound and part.waiting:
                    self._evict(interest, part)
        after = self.bytes + size
        if after > self._asked or after > self.share or self.waiting >= MOST or not self._measured:
            while self.waiting and (self.waiting >= MOST or not self._has_room(size)):
                self._evict(*self._largest.of(self.index.all))
        letter = Letter(message, number, size, claims, False, 0, topic, key, now)
        self.bytes += size
        if not self._orphans:
            self._wait(letter)
            return
        reading = tuple([each for each in claims if each.has_reader])
        for group in (reading, tuple([each for each in claims if not each.has_reader])):
            if group:
                self._wait(letter.copy(group))
        self.divide(message, 0 < len(reading) < len(claims))

    def lose(self, interest: Kept, topic: str, number: int) -> None:
        """An interest does not get the message of this number."""
        interest.missed += 1
        told = interest.sums.get(topic) or interest.sums.setdefault(topic, Sum())
        told.total += 1
        told.at = max(told.at, number)
        if interest.has_reader:
            self._untold[interest, topic] = None

    def _evict(self, interest: Kept, part: Part) -> None:
        letter = self._let_go(interest, part)
        self.lose(interest, letter.topic, letter.number)
        self.evicted += not letter.left

    def abandon(self) -> None:
        """What waits is lost."""
        for interest in self.interests:
            for part in list(interest.parts.values()):
                while part.waiting:
                    self._evict(interest, part)

    # --- what goes -----------------------------------------------------------------------------------

    def take(self, messages: int, size: int, blocks: bool = False) -> list[Letter[M]]:
        """See `ClaimQueue.take`."""
        taken: list[Letter[M]] = []
        again, letters = self._again, self._letters
        while again and len(taken) < messages:
            size -= OVERHEAD + again[0].size
            if size < 0 and taken:
                return taken
            taken.append(again.popleft())
        orders: list[int] = []
        most = min(self.asked, self.share)
        for order, letter in islice(letters.items(), min(messages - len(taken), self._open())):
            size -= OVERHEAD + letter.size
            sent = self._sent_bytes + letter.size
            if (size < 0 and (taken or orders)) or (orders and sent > most):
                break
            orders.append(order)
            self._sent_bytes = sent
        for order in orders:
            letters[order].leave_out(order)
        fresh = [letters.pop(order) for order in orders]
        for several, parts in alike(fresh):
            for _, part in parts:
                part.held += len(several)
                for _ in several:
                    part.waiting.popleft()
        self._under_way.sent(fresh)
        self.waiting -= len(fresh)
        if not letters:
            letters.clear()  # what went leaves holes, which would be passed each time
            self._largest.clear()
        return taken + fresh

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

    def done(self, received: int, upto: int, others: Iterable[int] = ()) -> list[Letter[M]]:
        """See `ClaimQueue.done`."""
        done = self._done(received, upto, others)
        for several, parts in alike(done):
            size = sum([letter.size for letter in several])
            self.bytes -= sum([each.size for each in several if self.is_last(each)]) if self.parts else size
            self._sent_bytes -= size
            for interest, part in parts:
                interest.delivered += len(several)
                part.held -= len(several)
                part.bytes -= size
                interest.tidy(several[0].key, part)
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
        for order, letter in self._letters.items():
            other = self._orphaned.setdefault(order, letter)
            if other is not letter:
                other.left += letter.left
                self.waiting -= 1
                self.is_last(letter)
        for letter in reversed(self._under_way.all()):
            self._put_in_front(letter)
        self._sent_bytes, self._sorted = 0, True
        for interest in self.interests:
            if interest.has_reader:
                self._orphans.setdefault((interest.topic, interest.keys), []).append(interest)
                interest.leave()
            for told in interest.sums.values():
                told.total -= told.settled
                told.settled = 0
        self._letters, self._again, self._under_way = {}, deque(), UnderWay()
        self._untold, self._tellings, self.room = {}, deque(), 0
        self._largest.clear()
