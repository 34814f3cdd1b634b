"""Boxes: one mailbox with its reader, its subscriptions, its held poll and its deadlines.

::

    subscriptions   batch that begins    batch        batch that ends
    not stale       all of them stale    as it says   as it says
    stale           all of them stale    as it says   then those that were not subscribed again are gone

So a process that says anew what it wants, in as many batches as that takes, misses nothing meanwhile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..protocol import limits
from .interests import Interests, Subscriptions
from .mail import BATCH_MESSAGES, Applied, Batch, Caller, Commands, PollRequest, Position
from .mailbox import Mailbox
from .policies import KEEP
from .policies import mailbox as mailbox_policy

P = TypeVar("P")
W = TypeVar("W")

TELLINGS = 3
"""Answers that tell that a topic was withdrawn."""

REMEMBERED = 16
"""Processes from which a durable mailbox was taken over that are turned away by their id."""

Key = tuple[bool, str, str]
"""Whether it has a durable name; that, or the id of the process; and the key whose it is."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a mailbox holds and has done.

    Attributes:
        reader: durable name, or id of the process.
        waiting: messages that are kept, sent or not.
        bytes: their size.
        unacknowledged: those of them that were sent.
        evicted: removed unacknowledged, because there was no room.
        delivered: acknowledged.
        age: seconds since the oldest kept one was published; 0 when none is kept.
        subscriptions: topics and keys.
    """

    reader: str
    waiting: int
    bytes: int
    unacknowledged: int
    evicted: int
    delivered: int
    age: float
    subscriptions: int


class Box(Generic[P, W]):
    """A mailbox and its reader; see the table in the module's docstring. Compared by identity.

    Attributes:
        key: finds it.
        process: id of the process that reads it.
        identity: proven name of the key of every process that reads it.
        position: of the numbering, for the present process.
        mailbox: the queue.
        subscriptions: of the reader.
        answer: to the last batch of commands of the present process.
        held: the poll that waits: its ticket, what it asks, and when it is flushed.
        ready: whether the held poll is to be looked at.
        wanted: topic and key of what found no room, each with its smallest size; empty when nobody waits.
        raw: whether its messages go with their own frames.
        polled_at: when it was polled, or opened.
        flushed_at: when a held poll's time was over.
        wake: when its alarm rings; ``alarm`` numbers it.
    """

    __slots__ = (
        "_withdrawn",
        "alarm",
        "answer",
        "flushed_at",
        "former",
        "held",
        "identity",
        "key",
        "mailbox",
        "polled_at",
        "position",
        "process",
        "raw",
        "ready",
        "stale",
        "subscriptions",
        "wake",
        "wanted",
    )

    def __init__(self, caller: Caller, position: Position, now: float) -> None:
        self.key = key_of(caller)
        self.process = caller.process
        self.identity = caller.identity
        self.position = position
        self.subscriptions = Subscriptions()
        self.mailbox: Mailbox[P] = Mailbox(mailbox_policy(), caller.name is not None, self.subscriptions)
        self.former: deque[str] = deque(maxlen=REMEMBERED)
        self.answer: Applied | None = None
        self._withdrawn: dict[str, int] = {}  # how often it is still to be told, because answers may be lost
        self.stale: dict[tuple[str, str | None], None] | None = None
        self.held: tuple[W, PollRequest, float] | None = None
        self.ready = self.raw = False
        self.wanted: dict[tuple[str, str | None], int] = {}
        self.polled_at = self.flushed_at = now
        self.wake = float("inf")
        self.alarm = 0

    @property
    def reader(self) -> str:
        """Durable name, or id of the process, for people."""
        return self.key[1]

    @property
    def blocks(self) -> bool:
        """Whether a publication waits for room here."""
        return self.mailbox.policy.when_full == "block"

    @property
    def keep(self) -> float:
        """Seconds of silence after which a held poll is flushed."""
        return KEEP if self.mailbox.policy.keep is None else self.mailbox.policy.keep

    @property
    def deadline(self) -> float:
        """When the poll is flushed or, without one, the mailbox removed."""
        if self.held is not None:
            return self.held[2]
        return max(self.polled_at + self.keep, self.flushed_at) + limits.current.mail_grace

    def owned_by(self, caller: Caller, position: Position) -> bool:
        """Whether the caller is the reader, and speaks of the numbering in force."""
        return (self.process, self.identity, self.position) == (caller.process, caller.identity, position)

    def apply(self, batch: Commands, interests: Interests[Box[P, W]], most: int) -> Applied:
        """Do what a batch of commands says; one that asks for more than ``most`` entities is refused."""
        if batch.begins:
            self.stale = dict.fromkeys(self.subscriptions)
        stale, before, refused = self.stale, self.subscriptions.changes, list[tuple[int, str]]()
        for place, (topic, key, subscribe, who) in enumerate(batch.commands):
            if stale is not None:
                stale.pop((topic, key), None)
            if not subscribe:
                self._unsubscribe(topic, key, interests)
            elif len(self.subscriptions) >= most and not self.subscriptions.has(topic, key):
                refused.append((place, "no room"))
            elif self.subscriptions.add(topic, key, who):
                interests.add(topic, key, self)
        if batch.ends and stale is not None:
            for topic, key in stale:
                self._unsubscribe(topic, key, interests)
            self.stale = None
        if self.subscriptions.changes != before:
            self.mailbox.regroup()
        self.answer = Applied(self.position, batch.number, tuple(refused))
        return self.answer

    def batch(self, request: PollRequest, max_bytes: int) -> Batch[P] | None:
        """The answer to a poll; None when there is nothing to tell now."""
        after = self.mailbox.acknowledged if request.after is None else request.after
        taken = self.mailbox.take(after, min(request.limit, BATCH_MESSAGES), max_bytes)
        if taken is None:
            return None
        after, first, messages, lost = taken
        return Batch(self.position, after, first, messages, lost, self._tell_withdrawn())

    def nothing(self, request: PollRequest) -> Batch[P]:
        """The answer to a poll that was held in vain."""
        after = max(request.after or 0, self.mailbox.acknowledged)
        return Batch(self.position, after, after + 1, [], (), self._tell_withdrawn())

    def withdraw(self, topic: str) -> None:
        """The reader is to be told with the next answers that a topic is offered no more."""
        if any(each == topic for each, _ in self.subscriptions):
            self._withdrawn[topic] = TELLINGS

    def _tell_withdrawn(self) -> tuple[str, ...]:
        if not self._withdrawn:
            return ()
        told = tuple(self._withdrawn)
        self._withdrawn = {topic: left - 1 for topic, left in self._withdrawn.items() if left > 1}
        return told

    def hand_over(self, caller: Caller, position: Position, now: float) -> None:
        """Another process reads it from now on."""
        self.former.append(self.process)
        self.process = caller.process
        self.position = position
        self.answer = self.stale = None
        self.polled_at = max(self.polled_at, now)
        self.mailbox.hand_over()

    def statistics(self, now: float) -> Statistics:
        """What it holds and has done."""
        kept, oldest = self.mailbox, self.mailbox.oldest
        return Statistics(
            reader=self.reader,
            waiting=len(kept),
            bytes=kept.bytes,
            unacknowledged=kept.unacknowledged,
            evicted=kept.evicted,
            delivered=kept.delivered,
            age=0.0 if oldest is None else max(0.0, now - oldest),
            subscriptions=len(self.subscriptions),
        )

    def _unsubscribe(self, topic: str, key: str | None, interests: Interests[Box[P, W]]) -> None:
        if self.subscriptions.discard(topic, key):
            interests.discard(topic, key, self)


def key_of(caller: Caller) -> Key:
    """What finds the mailbox of a caller."""
    return caller.name is not None, caller.process if caller.name is None else caller.name, caller.identity
