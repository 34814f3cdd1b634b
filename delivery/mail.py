"""Mail: what a publisher's mailboxes and the collector of a subscriber say to each other.

::

    collector                       mailboxes answer
    CommandRequest (one in flight)  Applied, Outdated, Refusal
    PollRequest (one in flight)     Batch, empty when it was held in vain; Refusal

Every request carries the `Position` that the collector knows, or None to open a mailbox or join its own. A
mailbox numbers its messages 1, 2, 3, … whatever their topics; a batch covers every number from ``after + 1``
to ``upto``, as a `Lost` or as a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct

from ..protocol import limits
from ..protocol.errors import PolicyRefused, RemoteProtocolError
from .policies import Policy

P = TypeVar("P")
W = TypeVar("W")

ALL = "*"
"""Topic of a subscription to all topics."""

BATCH_MESSAGES = 5000
BATCH_BYTES = 512 << 20
"""Most messages and bytes of one batch; one message of any size always fits."""

MAX_WHO = 1000
"""Agents of one process that are told for one command; further ones are not counted."""

Reason = Literal["unknown subscriber", "taken over", "beyond", "no room"]


class Message(Struct, Generic[P], frozen=True, gc=False):
    """One publication, shared by all mailboxes that it is in; nothing in it refers to it.

    Attributes:
        topic: its topic.
        key: of the thing it is about; None for no key.
        sequence: number within the topic.
        size: bytes that it counts for.
        payload: whatever the publisher needs to send it.
        at: when it was published, in seconds of a monotonic clock.
    """

    topic: str
    key: str | None
    sequence: int
    size: int
    payload: P
    at: float


class Lost(NamedTuple):
    """Messages of one topic that a mailbox evicted, in a range of its numbers.

    Attributes:
        first_number: first number of the range; several topics may share one.
        last_number: last one, included.
        topic: of the evicted messages.
        first: lowest evicted number within the topic.
        last: highest evicted one, included.
        evicted: how many; fewer than ``last - first + 1`` when others in between were not for this mailbox,
            or stay; those of higher numbers of the mailbox may be counted in as well.
        key: whose subscription is told; empty for those of all keys of the topic, and of all topics.
    """

    first_number: int
    last_number: int
    topic: str
    first: int
    last: int
    evicted: int
    key: str = ""

    @property
    def solid(self) -> bool:
        """Whether each number of the range is one evicted message of the topic, so that it can be cut."""
        return self.last_number - self.first_number == self.last - self.first == self.evicted - 1

    def beyond(self, number: int) -> Lost | None:
        """What of it lies above a number of the mailbox; None when nothing does."""
        if number >= self.last_number:
            return None
        cut = number - self.first_number + 1
        if cut <= 0 or not self.solid:
            return self
        return self._replace(first_number=number + 1, first=self.first + cut, evicted=self.evicted - cut)


class Position(NamedTuple):
    """Names one numbering: of one publisher epoch, and of one tenure of one mailbox in it."""

    epoch: int
    tenure: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        process: id of the subscriber process; never used again by another one.
        name: of the durable mailbox; None for the process's own.
        identity: proven name of the key that signed the request; a durable mailbox has one for life.
    """

    process: str
    name: str | None = None
    identity: str = ""


class Command(NamedTuple):
    """Subscribe or unsubscribe: one key of a topic, all keys (None), or all topics (`ALL`, with no key).

    ``who`` are the agents of the process that it is for; empty when that is not said.
    """

    topic: str
    key: str | None = None
    subscribe: bool = True
    who: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commands:
    """One numbered batch of commands, in order.

    Attributes:
        number: higher than that of every earlier batch of the process to this mailbox.
        commands: at most `mail_commands`.
        policy: of the mailbox from now on.
        begins: what is subscribed now is to go with the batch that ``ends``, unless subscribed until then.
        ends: everything wanted has been said since ``begins``.
    """

    number: int
    commands: Sequence[Command]
    policy: Policy
    begins: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """Asks to apply a batch of commands; ``serial`` grows with each request of a collector."""

    serial: int
    position: Position | None
    batch: Commands


@dataclass(frozen=True, slots=True)
class PollRequest:
    """Asks for messages, and acknowledges.

    Attributes:
        serial: grows with each request of a collector.
        position: None to open the mailbox, or to join it.
        after: every number up to it was received; None when the collector does not know yet.
        acknowledged: every number up to it is done with, and may be forgotten.
        limit: most messages of the answer; 0 only to be known as alive.
        hold: longest time that the poll may be held, in seconds.
        raw: messages are to come with their own frames, which count for the bounds of the mailbox then.
    """

    serial: int
    position: Position | None
    after: int | None
    acknowledged: int
    limit: int = BATCH_MESSAGES
    hold: float = 1.0
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """The batch of commands of this number holds; the same answer to each repetition.

    Attributes:
        position: of the numbering.
        number: of the batch.
        refused: places in the batch, from 0, of commands that had no effect, each with its reason.
    """

    position: Position
    number: int
    refused: tuple[tuple[int, str], ...] = ()

    def obeyed(self, commands: Sequence[Command]) -> Sequence[Command]:
        """Those of the batch's commands that hold."""
        refused = {place for place, _ in self.refused}
        return [each for place, each in enumerate(commands) if place not in refused] if refused else commands


class Declined(NamedTuple):
    """The publisher refused a command, which holds no longer; the others of its batch do."""

    command: Command
    reason: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """The batch was ignored: a later one, ``last``, was applied before."""

    position: Position
    last: int


@dataclass(frozen=True, slots=True)
class Batch(Generic[P]):
    """Messages of a mailbox: ``messages[i]`` has the number ``first + i``.

    Attributes:
        position: of the numbering.
        after: the batch covers every number above it.
        first: number of the first message; those between ``after`` and it are lost.
        messages: oldest first; empty when a poll was held in vain, or replaced by a newer one.
        lost: what was evicted, oldest first.
        withdrawn: topics that the publisher offers no more.
    """

    position: Position
    after: int
    first: int
    messages: list[Message[P]]
    lost: tuple[Lost, ...] = ()
    withdrawn: tuple[str, ...] = ()

    @property
    def upto(self) -> int:
        """Last number that the batch covers."""
        return self.first + len(self.messages) - 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request had no effect.

    Attributes:
        reason: ``unknown subscriber``: no mailbox of that position, it was removed or the publisher
            restarted; ``taken over``: another process has the durable mailbox now; ``beyond``:
            acknowledged or received is what was never sent; ``no room``: for one more mailbox, of all or of
            the holders of one key.
        epoch: of the publisher.
    """

    reason: Reason
    epoch: int


@dataclass(frozen=True, slots=True)
class Answered(Generic[P, W]):
    """A held poll has its answer; ``raw`` as it was asked for."""

    ticket: W
    answer: Batch[P] | Refusal
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """A publication that would have blocked because of this reader may be tried again."""

    reader: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A subscriber was silent for too long; its mailbox is removed.

    Attributes:
        reader: durable name, or id of the process.
        process: id of the last process that read it.
        waiting: messages that were removed unacknowledged.
        bytes: their size.
    """

    reader: str
    process: str
    waiting: int
    bytes: int


def check_policy(policy: Policy, largest: Policy) -> None:
    """Judge what a mailbox is to be.

    Raises:
        RemoteProtocolError: for another policy.
        PolicyRefused: for one with larger bounds than ``largest`` has.
    """
    if policy.name != "mailbox":
        raise RemoteProtocolError(f"a mailbox was asked for with the policy {policy.name}")
    excess = [
        f"{name} {asked}, at most {most}"
        for name, asked, most in (
            ("max_messages", policy.bound, largest.bound),
            ("max_bytes", policy.max_bytes, largest.max_bytes),
            ("keep", policy.keep, largest.keep),
        )
        if asked is not None and most is not None and asked > most
    ]
    if excess:
        raise PolicyRefused(f"this publisher keeps no mailbox so large: {'; '.join(excess)}")


def check_commands(batch: Commands, largest: Policy) -> None:
    """Judge a batch of commands.

    Raises:
        RemoteProtocolError: for one that cannot be.
        PolicyRefused: as `check_policy`.
    """
    if batch.number < 1 or len(batch.commands) > limits.current.mail_commands:
        raise RemoteProtocolError(
            f"batch {batch.number} of {len(batch.commands)} commands: expected a number from 1 and at most "
            f"{limits.current.mail_commands} commands"
        )
    check_policy(batch.policy, largest)
    for topic, key, *_ in batch.commands:
        if topic == ALL and key is not None:
            raise RemoteProtocolError(f"all topics have no key {key!r} in common; subscribe to topics")
