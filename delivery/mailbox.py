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

What is kept is one run of numbers, ``first`` to ``next - 1``; evicted is a prefix of it, recorded so that any
reader is told precisely what it misses: a run of one topic in one record, and what was never sent in one
record for each topic. A process that has received a message cannot lose it, so a mailbox without a name
records no eviction of what was received; a durable one does, for the next process.

An empty mailbox takes one message of any size. Always: delivered + evicted + kept = put.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from ..protocol.errors import LocalProtocolError, PolicyRefused
from .mail import BATCH_BYTES, Lost, Message
from .policies import Policy
from .runs import Run

P = TypeVar("P")


class Mailbox(Generic[P]):
    """One queue; see the tables in the module's docstring. Its length counts what is kept.

    Not thread-safe: the publisher's lock protects it.

    Args:
        policy: a `mailbox`; its name and retention are no concern of the queue.
        durable: whether another process may go on where this one ends.

    Attributes:
        policy: in force.
        first: number of the oldest message kept, or of the next one.
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
        "_durable",
        "_fresh",
        "_fresh_first",
        "_lost",
        "_max_bytes",
        "_max_messages",
        "_messages",
        "acknowledged",
        "bytes",
        "delivered",
        "evicted",
        "first",
        "policy",
        "received",
        "sent",
    )

    def __init__(self, policy: Policy, durable: bool = False) -> None:
        self._durable = durable
        self.first = 1
        self.bytes = self.acknowledged = self.received = self.sent = self.evicted = self.delivered = 0
        self._messages: Run[Message[P]] = Run()
        self._lost: deque[Lost] = deque()
        self._fresh: dict[
            str, tuple[int, int, int]
        ] = {}  # evicted and never told: first, last, count by topic
        self._fresh_first = 0
        self._adopt(policy)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def next(self) -> int:
        """Number of the next message."""
        return self.first + len(self._messages)

    @property
    def floor(self) -> int:
        """Everything above this number is kept, or recorded as lost."""
        if self._lost:
            return self._lost[0].first_number - 1
        return (self._fresh_first if self._fresh else self.first) - 1

    @property
    def oldest(self) -> float | None:
        """When the oldest kept message was published; None when none is kept."""
        return self._messages.first.at if self._messages else None

    def fits(self, size: int) -> bool:
        """Whether a message of so many bytes can be put without evicting another."""
        kept = len(self._messages)
        return not kept or (kept < self._max_messages and self.bytes + size <= self._max_bytes)

    def put(self, message: Message[P]) -> None:
        """Keep a new message under the next number.

        Raises:
            LocalProtocolError: when it does not fit and the mailbox blocks.
        """
        messages = self._messages
        held = self.bytes + message.size
        if messages and (len(messages) >= self._max_messages or held > self._max_bytes):
            if self.policy.when_full == "block":
                raise LocalProtocolError(
                    f"a mailbox that blocks has {len(messages)} messages of {self.bytes} bytes and no room; "
                    "ask fits first"
                )
            self._evict(self._max_messages - 1, self._max_bytes - message.size)
            held = self.bytes + message.size
        messages.append(message)
        self.bytes = held

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
        messages = self._messages
        count = min(number + 1 - self.first, len(messages))
        if count > 0:
            if count == len(messages):
                self.bytes = 0
            else:
                self.bytes -= sum([message.size for message in messages.part(0, count)])
            messages.drop(count)
            self.delivered += count
            self.first += count
        self.acknowledged = number
        self.received = max(self.received, number)
        self._forget(number)

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
            as many records are kept as messages may be, nothing that was never told goes: an acknowledgement
            has to come first.
        """
        after = max(after, self.floor)
        start = max(after + 1 - self.first, 0)
        stop = min(start + limit, len(self._messages))
        end = self.first - 1  # of what is told as lost
        if len(self._lost) >= self._max_messages:
            stop = min(stop, self.sent + 1 - self.first)
            end = min(end, self._lost[-1].last_number)
        if limit < 1 or (start >= stop and after >= end):
            return None
        chosen = self._messages.part(start, stop)
        if self.bytes > max_bytes:
            chosen = chosen[: self._within(chosen, max_bytes)]
        lost: tuple[Lost, ...] = ()
        if after < end:
            if end == self.first - 1:
                self._tell()
            lost = tuple(part for each in self._lost if (part := each.beyond(after)) is not None)
        first = self.first + start if chosen else end + 1
        self.sent = max(self.sent, first + len(chosen) - 1)
        return after, first, chosen, lost

    def hand_over(self) -> None:
        """Another process takes over: it has received only what is acknowledged."""
        self.received = self.acknowledged

    def change(self, policy: Policy) -> None:
        """Go on with other bounds; ``drop_oldest`` evicts what no longer fits, ``block`` keeps it.

        Raises:
            PolicyRefused: for a policy that is no mailbox; nothing was changed.
        """
        if policy != self.policy:
            self._adopt(policy)
            if policy.when_full != "block":
                self._evict(self._max_messages, self._max_bytes, least=1)

    def _adopt(self, policy: Policy) -> None:
        if policy.name != "mailbox":
            raise PolicyRefused(f"a mailbox cannot have the policy {policy.name}; use mailbox()")
        self.policy = policy
        self._max_messages = policy.bound
        self._max_bytes = BATCH_BYTES if policy.max_bytes is None else policy.max_bytes

    def _evict(self, messages: int, size: int, least: int = 0) -> None:
        """Evict the oldest until at most so many messages and bytes are kept, or ``least`` messages."""
        kept = self._messages
        while len(kept) > least and (len(kept) > messages or self.bytes > size):
            message = kept.first
            kept.drop(1)
            number = self.first
            self.first = number + 1
            self.bytes -= message.size
            self.evicted += 1
            if number > self.sent:
                self._record_fresh(number, message)
            elif self._durable or number > self.received:
                self._record_sent(number, message)

    def _record_fresh(self, number: int, message: Message[P]) -> None:
        """Nobody can have it: it need not be told apart from others of its topic."""
        fresh, sequence = self._fresh, message.sequence
        if not fresh:
            self._fresh_first = number
        first, _, count = fresh.get(message.topic, (sequence, sequence, 0))
        fresh[message.topic] = (first, sequence, count + 1)

    def _record_sent(self, number: int, message: Message[P]) -> None:
        """The subscriber may have it: its number must be told."""
        topic, sequence = message.topic, message.sequence
        if self._lost:
            before = self._lost[-1]
            if before.topic == topic and before.last == sequence - 1 and before.solid:
                self._lost[-1] = before._replace(
                    last_number=number, last=sequence, evicted=before.evicted + 1
                )
                return
        self._lost.append(Lost(number, number, topic, sequence, sequence, 1))

    def _tell(self) -> None:
        """What was evicted unsent is told now, in one piece, and never grows again."""
        last = self.first - 1
        for topic, (first, newest, count) in self._fresh.items():
            self._lost.append(Lost(self._fresh_first, last, topic, first, newest, count))
        self._fresh = {}

    def _forget(self, number: int) -> None:
        lost = self._lost
        while lost and lost[0].last_number <= number:
            lost.popleft()
        if lost:
            rest = lost[0].beyond(number)
            if rest is not None:
                lost[0] = rest

    @staticmethod
    def _within(messages: list[Message[P]], max_bytes: int) -> int:
        """How many of the messages fit, one at least."""
        total = 0
        for count, message in enumerate(messages):
            total += message.size
            if total > max_bytes:
                return max(count, 1)
        return len(messages)
