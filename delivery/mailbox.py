"""Mailbox: the messages of one reliable subscriber, kept until acknowledged.

Numbers are 1, 2, 3, … for each mailbox. ``acknowledged <= received <= sent``, all of them numbers::

    message    event                                  next
    -          put                                    waiting
    waiting    take                                   sent
    sent       take (again, after a lower number)     sent
    waiting,   evict: no room for a new one           evicted, counted; recorded as lost
    sent       acknowledge (its number or a higher)   delivered, freed
    evicted    take                                   told, again and again, until
               acknowledge                            forgotten

    full       drop_oldest                            block
    put        evicts the oldest                      LocalProtocolError: ask `fits` first

The bound in messages is that of each subscription: a flood of one key costs another one nothing. A message
counts for the widest subscription that has it, so those of single keys share the bound of one of all keys.
The bound in bytes is that of all: the subscription with most of them makes room.

An eviction leaves a hole in the numbers. Any reader is told precisely what it misses: a run of one topic in
one record, and what was never sent in one record for each topic and subscription of each hole.
A process that has received a message cannot lose it, so a mailbox without a name records no eviction
of what was received; a durable one does, for the next process.

An empty mailbox takes one message of any size. Always: delivered + evicted + kept = put.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple, TypeVar, cast

from ..protocol.errors import LocalProtocolError, PolicyRefused
from .interests import Subscriptions
from .mail import BATCH_BYTES, Lost, Message
from .policies import Policy
from .runs import Run

P = TypeVar("P")

MOST_PLACES = 1_000_000
"""Messages and holes of a mailbox; beyond that its oldest message makes room, whosever it is."""


class _Hole(NamedTuple):
    """Where a message was evicted: what is to be told of it, if it never went.

    Attributes:
        topic: of the message.
        keys: of the subscriptions that are told.
        sequence: of the message in its topic.
    """

    topic: str
    keys: tuple[str, ...]
    sequence: int


class _Part:
    """What is kept for one subscription: numbers of the mailbox, oldest first, and bytes."""

    __slots__ = ("bytes", "numbers")

    def __init__(self) -> None:
        self.numbers: deque[int] = deque()
        self.bytes = 0


class Mailbox(Generic[P]):
    """One queue; see the tables in the module's docstring. Its length counts what is kept.

    Not thread-safe: the publisher's lock protects it.

    Args:
        policy: a `mailbox`; its name and retention are no concern of the queue.
        durable: whether another process may go on where this one ends.
        subscriptions: of its reader; `regroup` is to be called when they have changed. Default: none.

    Attributes:
        policy: in force.
        first: number of the oldest message kept, or of the next one.
        next: number of the next message.
        bytes: size of what is kept.
        acknowledged: number up to which the subscriber is done.
        received: number up to which it surely has, or was told of, everything.
        sent: highest number that ever went.
        evicted: messages removed unacknowledged.
        delivered: messages acknowledged.

    Raises:
        PolicyRefused: for another policy.
    """

    __slots__ = (
        "_durable", "_fresh", "_kept", "_lost", "_max_bytes", "_max_messages", "_messages", "_parts",
        "_single", "_subscriptions", "acknowledged", "bytes", "delivered", "evicted", "first", "next",
        "policy", "received", "sent",
    )  # fmt: skip

    def __init__(
        self, policy: Policy, durable: bool = False, subscriptions: Subscriptions | None = None
    ) -> None:
        self._durable = durable
        self._subscriptions = Subscriptions() if subscriptions is None else subscriptions
        self.first = self.next = 1
        self.bytes = self.acknowledged = self.received = self.sent = self.evicted = self.delivered = 0
        self._messages: Run[Message[P] | _Hole] = Run()
        self._kept = 0
        self._parts: dict[tuple[str, str | None], _Part] = {}  # by subscription; none is empty
        self._lost: deque[Lost] = deque()  # by number
        # Evicted in front and never told: first, last, and how many, by topic and key of the subscription.
        self._fresh: dict[tuple[str, str], tuple[int, int, int]] = {}
        self._single: tuple[str, str | None] | None = self._subscriptions.single()
        self._adopt(policy)

    def __len__(self) -> int:
        return self._kept

    @property
    def floor(self) -> int:
        """Everything above this number is kept, or a hole that is told of."""
        return min(self.first - 1, self.acknowledged if self._durable else self.received)

    @property
    def oldest(self) -> float | None:
        """When the oldest kept message was published; None when none is kept."""
        first = self._messages.first if self._messages else None
        return first.at if isinstance(first, Message) else None

    @property
    def unacknowledged(self) -> int:
        """How many of those that are kept were sent."""
        return sum(each.__class__ is Message for each in self._messages.part(0, self._place(self.sent + 1)))

    def fits(self, size: int, topic: str, key: str | None = None) -> bool:
        """Whether a message of so many bytes can be put without evicting another."""
        part = self._parts.get(self._entity(topic, key))
        return not self._kept or (
            (part is None or len(part.numbers) < self._max_messages) and self.bytes + size <= self._max_bytes
        )

    def put(self, message: Message[P]) -> None:
        """Keep a new message under the next number.

        Raises:
            LocalProtocolError: when it does not fit and the mailbox blocks.
        """
        entity = self._single or self._entity(message.topic, message.key)
        part = self._parts.get(entity)
        if self._kept and (
            (part is not None and len(part.numbers) >= self._max_messages)
            or self.bytes + message.size > self._max_bytes
            or self.next - self.first >= MOST_PLACES
        ):
            if self.policy.when_full == "block":
                raise LocalProtocolError(
                    f"a mailbox that blocks has {self._kept} messages of {self.bytes} bytes and no room; "
                    "ask fits first"
                )
            self._make_room(entity, message.size)
            part = self._parts.get(entity)
        if part is None:
            part = self._parts[entity] = _Part()
        part.numbers.append(self.next)
        self.next += 1
        part.bytes += message.size
        self.bytes += message.size
        self._kept += 1
        self._messages.append(message)

    def _entity(self, topic: str, key: str | None) -> tuple[str, str | None]:
        """For whom a message counts."""
        return self._single or self._subscriptions.widest(topic, key)

    def regroup(self) -> None:
        """The reader's subscriptions have changed."""
        self._single = self._subscriptions.single()
        self._parts.clear()
        if self._kept:
            for number, message in enumerate(self._messages.part(0, len(self._messages)), self.first):
                if isinstance(message, Message):
                    entity = self._entity(message.topic, message.key)
                    part = self._parts.setdefault(entity, _Part())
                    part.numbers.append(number)
                    part.bytes += message.size

    def arrived(self, number: int) -> None:
        """The subscriber has, or was told of, everything up to a number that was sent."""
        if number > self.received:
            self.received = number
            if not self._durable:
                self._forget(number)

    def acknowledge(self, number: int) -> None:
        """The subscriber is done with all up to a number that was sent; a lower one changes nothing."""
        if number <= self.acknowledged:
            return
        count = self._place(number + 1)
        if count > 0:
            self._free([each for each in self._messages.part(0, count) if isinstance(each, Message)])
            self._advance(count)
        self.acknowledged = number
        self.received = max(self.received, number)
        self._forget(number)

    def _free(self, messages: list[Message[P]]) -> None:
        self.delivered += len(messages)
        self._kept -= len(messages)
        if not self._kept:
            self._parts.clear()
            self.bytes = 0
        elif len(self._parts) == 1:
            [part] = self._parts.values()
            for _ in messages:
                part.numbers.popleft()
            self.bytes = part.bytes = part.bytes - sum([message.size for message in messages])
        else:
            self._free_each(messages)

    def _free_each(self, messages: list[Message[P]]) -> None:
        for message in messages:
            self._leave(self._entity(message.topic, message.key), message.size)

    def _leave(self, entity: tuple[str, str | None], size: int) -> None:
        """The oldest message of a subscription is not kept any more."""
        part = self._parts[entity]
        part.numbers.popleft()
        part.bytes -= size
        self.bytes -= size
        if not part.numbers:
            del self._parts[entity]

    def _advance(self, count: int) -> None:
        """Forget so many places in front, and the holes behind them; what is to be told of these is kept."""
        messages = self._messages
        while count < len(messages) and isinstance(hole := messages.at(count), _Hole):
            if self.first + count > self.sent:
                self._pass(hole)
            count += 1
        messages.drop(count)
        self.first += count

    def _place(self, number: int) -> int:
        """Where a number is kept, at most behind the last one."""
        return min(max(number - self.first, 0), len(self._messages))

    def take(
        self, after: int, limit: int, max_bytes: int = BATCH_BYTES
    ) -> tuple[int, int, list[Message[P]], tuple[Lost, ...]] | None:
        """What goes to a subscriber that has everything up to ``after``; it stays until acknowledged.

        Args:
            after: a number up to ``sent``.
            limit: most messages.
            max_bytes: most bytes, unless the first message alone is larger.

        Returns:
            ``(after, first, messages, lost)`` as in a `Batch`; None when there is nothing to tell now. While
            as many records are kept as messages and subscriptions may be, nothing that was never told goes:
            an acknowledgement has to come first.
        """
        messages = self._messages
        after = max(after, self.floor)
        start = self._place(after + 1)
        while start < len(messages) and isinstance(messages.at(start), _Hole):
            start += 1
        stop = min(start + limit, len(messages))
        end = self.first + start - 1  # of what is told as lost
        if len(self._lost) >= self._max_messages + len(self._subscriptions):
            stop = min(stop, self._place(self.sent + 1))
            end = min(end, self.sent)
        if limit < 1 or (start >= stop and after >= end):
            return None
        chosen = self._chosen(start, stop, max_bytes)
        if end > max(after, self.sent):
            self._tell(end)
        lost = tuple(
            part
            for each in self._lost
            if each.first_number <= end and (part := each.beyond(after)) is not None
        )
        self.sent = max(self.sent, end + len(chosen))
        return after, end + 1, chosen, lost

    def hand_over(self) -> None:
        """Another process takes over: it has received only what is acknowledged."""
        self.received = self.acknowledged

    def change(self, policy: Policy) -> None:
        """Go on with other bounds; ``drop_oldest`` evicts what no longer fits, ``block`` keeps it.

        Raises:
            PolicyRefused: for a policy that is no mailbox; nothing was changed.
        """
        if policy == self.policy:
            return
        self._adopt(policy)
        if policy.when_full != "block":
            for entity, part in list(self._parts.items()):
                for _ in range(len(part.numbers) - self._max_messages):
                    self._evict(entity)
            while self._kept > 1 and self.bytes > self._max_bytes:
                self._evict(self._largest())

    def _adopt(self, policy: Policy) -> None:
        if policy.name != "mailbox":
            raise PolicyRefused(f"a mailbox cannot have the policy {policy.name}; use mailbox()")
        self.policy = policy
        self._max_messages = policy.bound
        self._max_bytes = BATCH_BYTES if policy.max_bytes is None else policy.max_bytes

    def _make_room(self, entity: tuple[str, str | None], size: int) -> None:
        """Evict until a message of a subscription fits."""
        while (part := self._parts.get(entity)) is not None and len(part.numbers) >= self._max_messages:
            self._evict(entity)
        while self._kept and self.bytes + size > self._max_bytes:
            fair = part is not None and part.bytes * len(self._parts) >= self.bytes
            self._evict(entity if fair else self._largest())
            part = self._parts.get(entity)
        while self._kept and len(self._messages) >= MOST_PLACES:
            first = self._messages.at(0)
            self._evict(self._entity(first.topic, first.key) if isinstance(first, Message) else entity)

    def _largest(self) -> tuple[str, str | None]:
        return max(self._parts, key=lambda entity: self._parts[entity].bytes)

    def _evict(self, entity: tuple[str, str | None]) -> None:
        """Evict the oldest message of a subscription."""
        number = self._parts[entity].numbers[0]
        place = number - self.first
        message = self._messages.at(place)
        assert isinstance(message, Message)
        self._leave(entity, message.size)
        self._kept -= 1
        self.evicted += 1
        keys = self._subscriptions.concerned(message.topic, message.key)
        hole = _Hole(message.topic, keys, message.sequence)
        if number <= self.sent and (self._durable or number > self.received):
            for key in keys:
                self._record_sent(number, key, message)
        if place:
            self._messages.replace(place, hole)
            return
        if number > self.sent:
            self._pass(hole)
        self._advance(1)

    def _pass(self, hole: _Hole) -> None:
        """Nobody can have what was there: it need not be told apart from others of its topic before it."""
        topic, keys, sequence = hole
        for key in keys:
            first, _, count = self._fresh.get((topic, key), (sequence, sequence, 0))
            self._fresh[topic, key] = (first, sequence, count + 1)

    def _record_sent(self, number: int, key: str, message: Message[P]) -> None:
        """The subscriber may have it: its number must be told."""
        topic, sequence, lost = message.topic, message.sequence, self._lost
        at = len(lost)
        while at and lost[at - 1].first_number > number:
            at -= 1
        if at:
            before = lost[at - 1]
            follows = (before.topic, before.key, before.last, before.last_number + 1)
            if follows == (topic, key, sequence - 1, number) and before.solid:
                lost[at - 1] = before._replace(last_number=number, last=sequence, evicted=before.evicted + 1)
                return
        lost.insert(at, Lost(number, number, topic, sequence, sequence, 1, key))

    def _tell(self, last: int) -> None:
        """What was evicted unsent up to a number is told now, in one piece, and never grows again."""
        for hole in self._messages.part(self._place(self.sent + 1), self._place(last + 1)):
            self._pass(cast("_Hole", hole))
        for (topic, key), (first, newest, count) in self._fresh.items():
            self._lost.append(Lost(self.sent + 1, last, topic, first, newest, count, key))
        self._fresh = {}

    def _forget(self, number: int) -> None:
        lost = self._lost
        while lost and lost[0].last_number <= number:
            lost.popleft()
        if lost:
            rest = lost[0].beyond(number)
            if rest is not None:
                lost[0] = rest

    def _chosen(self, start: int, stop: int, max_bytes: int) -> list[Message[P]]:
        """Those before the first hole, as far as they fit, one at least."""
        chosen, found = list[Message[P]](), self._messages.part(start, stop)
        if self._kept == len(self._messages) and self.bytes <= max_bytes:
            return cast("list[Message[P]]", found)
        for message in found:
            if isinstance(message, _Hole):
                break
            max_bytes -= message.size
            if max_bytes < 0 and chosen:
                break
            chosen.append(message)
        return chosen
