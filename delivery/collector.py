"""Collector: fetches everything out of one mailbox of one publisher, in order and once.

::

    state      event                                                 next       told
    opening    Batch, Applied                                        reading    Declined, for what was refused
    reading    Refusal: unknown subscriber, another epoch            opening    Restarted
               Refusal: unknown subscriber, the same epoch           opening    Forgotten
    opening,   another Refusal                                       ended      Ended
    reading    silence >= lost                                       as before  Silent, once until heard
    ended      any                                                   ended      -

    number     event                             next                told
    expected   Batch                             held                Arrived, or Missed when it was evicted
    received   Batch (again)                     as before           -
    held       done                              done                -
    done       all below it are done             acknowledged        with the next poll

Opening says anew, in batches, everything that is wanted. Of the commands that wait for the batch in flight,
the last one on a topic and key wins. Requests without an answer are repeated with growing pauses, the batch
with its number, the poll with what was received; an answer is good whenever it comes, and however often.
A poll is replaced by a new one when there is something to acknowledge, or room again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..protocol.errors import ConfigError
from .mail import (
    BATCH_MESSAGES,
    Applied,
    Batch,
    CommandRequest,
    Declined,
    Lost,
    Message,
    Outdated,
    PollRequest,
    Position,
    Reason,
    Refusal,
)
from .orders import Orders
from .pauses import Pauses
from .policies import Policy
from .receipts import Receipts

P = TypeVar("P")
R = TypeVar("R")

LATE = 0.5
"""Seconds behind its time after which `Collector.tick` takes a silence for its own, once."""


@dataclass(frozen=True, slots=True)
class Arrived(Generic[P]):
    """New messages, in order; ``messages[i]`` has the number ``first + i``, for `Collector.done`."""

    position: Position
    first: int
    messages: list[Message[P]]


@dataclass(frozen=True, slots=True)
class Missed:
    """The mailbox was full: messages of a topic were evicted before they came here."""

    epoch: int
    lost: Lost


@dataclass(frozen=True, slots=True)
class Restarted:
    """The publisher was restarted: a gap of unknown size; its sequences begin anew."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The publisher removed the mailbox after a long silence: a gap of unknown size."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The publisher offers a topic no more; told more than once."""

    topic: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing was heard of the publisher for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The mailbox is not, or no longer, for this process."""

    reason: Reason


Event = Arrived[P] | Missed | Declined | Restarted | Forgotten | Withdrawn | Silent | Ended


@dataclass(slots=True)
class _Sent(Generic[R]):
    """A request that waits for its answer."""

    request: R
    until: float


class Collector(Generic[P]):
    """One mailbox as its reader sees it; see the tables in the module's docstring.

    Not thread-safe: the link's lock protects it. Times are seconds of one monotonic clock. After each call
    the caller sends what `requests` gives, and comes back at `next_deadline` at the latest.

    Args:
        policy: of the mailbox.
        now: the time.
        hold: longest time that the publisher may hold a poll.
        patience: how much longer an answer may take, before the request is repeated.
        lost: silence after which the publisher is taken for lost; it is asked on nevertheless.
        pause: seconds before the first repetition.
        longest_pause: seconds before later ones, at most.
        delay: longest time that acknowledgements wait for others to go with.
        window: most messages that came and are not done with; None for the policy's bound.

    Attributes:
        position: of the numbering; None while it is opened.
        ended: whether the mailbox is no longer for this process.
        paused: ask for no messages, only to be known as alive.

    Raises:
        ConfigError: when the numbers cannot go together.
    """

    def __init__(
        self,
        policy: Policy,
        now: float,
        *,
        hold: float = 1.0,
        patience: float = 2.0,
        lost: float = 4.0,
        pause: float = 0.1,
        longest_pause: float = 5.0,
        delay: float = 0.02,
        window: int | None = None,
    ) -> None:
        if not (0 < hold <= lost and patience > 0 and 0 < pause <= longest_pause and delay >= 0):
            raise ConfigError(
                f"a collector cannot have hold={hold}, patience={patience}, lost={lost}, pause={pause}, "
                f"longest_pause={longest_pause} and delay={delay}: expected 0 < hold <= lost, 0 < patience, "
                "0 < pause <= longest_pause and 0 <= delay"
            )
        if window is not None and window < 1:
            raise ConfigError(f"a collector needs a window of at least 1 message, not {window}")
        self.policy = policy
        self.position: Position | None = None
        self.ended = self.paused = False
        self._hold = hold
        self._patience = patience
        self._lost = lost
        self._delay = delay
        self._window = policy.bound if window is None else window
        self._orders = Orders()
        self._receipts: Receipts | None = None
        self._epoch: int | None = None
        self._serial = 0
        self._opened = 0  # answers to earlier requests do not open the mailbox
        self._poll: _Sent[PollRequest] | None = None
        self._batch: _Sent[CommandRequest] | None = None
        self._poll_pauses = Pauses(pause, longest_pause)
        self._batch_pauses = Pauses(pause, longest_pause)
        self._told = 0  # acknowledged, as the publisher surely knows
        self._news_at: float | None = None  # since when a new poll would tell something
        self._heard = now
        self._silent = self._excused = False

    @property
    def active(self) -> bool:
        """Whether anything is wanted, waits to be done with, or is to be told."""
        if self.ended:
            return False
        receipts = self._receipts
        unfinished = receipts is not None and (len(receipts) > 0 or receipts.upto() > self._told)
        orders = self._orders
        untold = not orders.settled and (self.position is not None or orders.flying is not None)
        return len(orders) > 0 or unfinished or untold

    @property
    def settled(self) -> bool:
        """Whether the publisher has confirmed everything that was subscribed and unsubscribed."""
        return self._orders.settled

    @property
    def pending(self) -> int:
        """Messages that came and are not done with."""
        return 0 if self._receipts is None else len(self._receipts)

    def subscribe(self, topic: str, key: str | None = None, *others: str | None) -> None:
        """Want keys of a topic, all keys (None), or all topics (`mail.ALL`)."""
        self._orders.order(topic, (key, *others), True)

    def unsubscribe(self, topic: str, key: str | None = None, *others: str | None) -> None:
        """Want them no longer; the last word holds."""
        self._orders.order(topic, (key, *others), False)

    def done(self, position: Position, numbers: Iterable[int], now: float) -> None:
        """The process is done with messages, in any order; those that are not held change nothing."""
        if self._receipts is not None and position == self.position:
            self._receipts.done_all(numbers)
            self._note_news(now)

    def heard(self, now: float) -> None:
        """The publisher gave a sign of life, an answer or any other one."""
        self._heard = max(self._heard, now)
        self._silent = self._excused = False

    # What to send

    def requests(self, now: float) -> list[CommandRequest | PollRequest]:
        """What to send now, each to be followed by `answered` or `failed`, or by nothing."""
        if not self.active:
            self._heard = max(self._heard, now)
            return []
        out: list[CommandRequest | PollRequest] = []
        for sent in (self._batch, self._poll):
            if sent is not None and sent.until <= now:
                self.failed(sent.request, now)
        if self._batch is None and self._batch_pauses.until <= now:
            batch = self._orders.next(self.policy)
            if batch is not None:
                request = CommandRequest(self._next_serial(), self.position, batch)
                self._batch = _Sent(request, now + self._patience)
                out.append(request)
        if self._poll_due(now):
            poll = self._next_poll()
            self._poll = _Sent(poll, now + self._hold + self._patience)
            self._news_at = None
            out.append(poll)
        return out

    def failed(self, request: CommandRequest | PollRequest, now: float) -> None:
        """A request could not be sent, or is not answered; it is repeated after a pause."""
        if self._batch is not None and self._batch.request is request:
            self._batch = None
            self._batch_pauses.failed(now)
        if self._poll is not None and self._poll.request is request:
            self._poll = None
            self._poll_pauses.failed(now)

    def next_deadline(self) -> float | None:
        """When `requests` or `tick` may have something to do; None while nothing is wanted."""
        if not self.active:
            return None
        times = [self._heard + self._lost] if not self._silent else []
        if self._batch is not None:
            times.append(self._batch.until)
        elif not self._orders.settled:
            times.append(self._batch_pauses.until)
        times.append(self._poll_pauses.until if self._poll is None else self._poll.until)
        if self._news_at is not None:
            times.append(self._news_at + self._delay)
        return min(times)

    # What came

    def answered(
        self,
        request: CommandRequest | PollRequest,
        answer: Applied | Outdated | Batch[P] | Refusal,
        now: float,
    ) -> list[Event[P]]:
        """An answer came, late, early, again, or in its time; returns what it means."""
        if self.ended:
            return []
        self.heard(now)
        if self._batch is not None and self._batch.request is request:
            self._batch = None
            self._batch_pauses.answered()
        if self._poll is not None and self._poll.request is request:
            self._poll = None
            self._poll_pauses.answered()
        if isinstance(answer, Refusal):
            return self._refused(request, answer)
        events: list[Event[P]] = []
        if not self._accepts(request, answer.position, events):
            return events
        if isinstance(answer, Applied):
            events += self._orders.applied(answer.number, answer.refused)
        elif isinstance(answer, Outdated):
            self._orders.outdated(answer.last)
        else:
            if isinstance(request, PollRequest):
                self._told = max(self._told, request.acknowledged)
            self._collect(answer, events)
            events += [Withdrawn(topic) for topic in answer.withdrawn]
        return events

    def tick(self, now: float) -> list[Event[P]]:
        """Says once that the publisher is silent for too long, until it is heard again."""
        silence = now - self._heard
        if self._silent or not self.active or silence < self._lost:
            return []
        if silence >= self._lost + LATE and not self._excused:
            self._heard, self._excused = now, True  # this process stood still, and answers may wait here
            return []
        self._silent = True
        return [Silent(silence)]

    def _accepts(
        self, request: CommandRequest | PollRequest, position: Position, events: list[Event[P]]
    ) -> bool:
        """Whether an answer speaks of our numbering; the first one after opening decides which that is."""
        if self.position is None and request.serial > self._opened:
            if self._epoch is not None and self._epoch != position.epoch:
                events.append(Restarted(position.epoch))
            self.position, self._epoch = position, position.epoch
        return position == self.position

    def _refused(self, request: CommandRequest | PollRequest, refusal: Refusal) -> list[Event[P]]:
        if request.position != self.position or request.serial <= self._opened:
            return []
        if refusal.reason != "unknown subscriber":
            self.ended = True
            return [Ended(refusal.reason)]
        restarted = refusal.epoch != self._epoch
        self.position, self._epoch, self._opened = None, refusal.epoch, self._serial
        self._receipts, self._told, self._news_at = None, 0, None
        self._poll = self._batch = None
        self._orders.forget()
        return [Restarted(refusal.epoch) if restarted else Forgotten(refusal.epoch)]

    def _collect(self, batch: Batch[P], events: list[Event[P]]) -> None:
        if self._receipts is None:
            self._receipts = Receipts(batch.after, singly=False)
            self._told = batch.after
        receipts = self._receipts
        received = receipts.received
        if batch.after > received or batch.upto <= received:
            return
        events += [
            Missed(batch.position.epoch, rest)
            for each in batch.lost
            if (rest := each.beyond(received)) is not None
        ]
        first = max(batch.first, received + 1)
        start, room = first - batch.first, self._window - self.pending
        messages = batch.messages[start : start + room]  # what an answer has too much of comes again
        receipts.skip(first - 1)
        receipts.arrived(first, len(messages))
        if messages:
            events.append(Arrived(batch.position, first, messages))

    def _note_news(self, now: float) -> None:
        if self._news_at is None and self._poll is not None:
            receipts, asked = self._receipts, self._poll.request
            if receipts is not None and (receipts.upto() > asked.acknowledged or asked.limit == 0):
                self._news_at = now

    def _poll_due(self, now: float) -> bool:
        if self._poll is None:
            return self._poll_pauses.until <= now
        return self._news_at is not None and self._news_at + self._delay <= now

    def _next_poll(self) -> PollRequest:
        receipts = self._receipts
        room = 0 if self.paused else self._window - self.pending
        return PollRequest(
            serial=self._next_serial(),
            position=self.position,
            after=None if receipts is None else receipts.received,
            acknowledged=0 if receipts is None else receipts.upto(),
            limit=max(0, min(room, BATCH_MESSAGES)),
            hold=self._hold,
        )

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial
