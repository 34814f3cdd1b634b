"""Mailboxes: all mailboxes of one publisher, who reads them, and what each of them is interested in.

A mailbox is found by its durable name, or by the process whose own it is. Requests, by position::

    mailbox             request of              position    then
    none                anybody                 None        opened, with a new tenure
                                                any         Refusal: unknown subscriber
    of process A        A                       its own     served
                        A                       None        served: joined
                        A                       another     Refusal: unknown subscriber
    durable, of A       B, never here           None        B takes over: a new tenure, A is told
                        B, taken over from      None        Refusal: taken over
                        B                       any         Refusal: taken over
    of anybody          with another key        None        its own one is opened

Openings count in the order in which they are served: one of a process that has ended meanwhile counts, too.

Command batches, by number; ``last`` is that of the last one applied to this tenure::

    number > last       applied; those of one batch in order, the last word on an entity holds; one
                        that finds no room is refused by itself
    number = last       nothing; the same answer
    number < last       nothing; Outdated

Polls, of which each mailbox holds one at most::

    held      event                              the held poll              the new one
    no        poll, something to tell            -                          Batch
    no        poll, nothing to tell              -                          held
    yes       poll                               empty Batch                as above
    yes       publish                            Batch                      -
    yes       its time or T is over              empty Batch                -
    yes       taken over, removed                Refusal                    -

Liveness, from the last poll or the opening; T is the policy's ``keep``, 300 s unless it says otherwise::

    at            a held poll             the mailbox
    T - 1         held                    as it was
    T             empty Batch             as it was
    T + ``mail_grace``  -                       removed with everything in it, `Gone` once

Should this process be late to look, a subscriber whose poll was held gets its ``mail_grace`` from then on;
the caller serves the requests that have come before it calls `tick`.

`events` tells what is not returned at once: answers of held polls, room for who waits, dead subscribers.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from ..protocol import limits
from .boxes import Box, Key, Statistics, key_of
from .interests import Interests
from .mail import (
    BATCH_BYTES,
    Answered,
    Applied,
    Batch,
    Caller,
    CommandRequest,
    Gone,
    Message,
    Outdated,
    PollRequest,
    Position,
    Reason,
    Refusal,
    Room,
    check_commands,
)
from .policies import KEEP, Policy, mailbox

P = TypeVar("P")
W = TypeVar("W")

LARGEST = mailbox(max_messages=1_000_000, max_bytes=4 << 30, keep=7 * 86_400.0)
SPARE_ALARMS = 64
"""Alarms of removed mailboxes and of polls that were answered in time, before they are swept out."""


class Mailboxes(Generic[P, W]):
    """The book of a publisher; see the tables in the module's docstring. Its length counts the mailboxes.

    Not thread-safe: the publisher's lock protects it. Times are seconds of one monotonic clock. ``P`` is a
    payload, ``W`` a ticket: whatever is needed to answer a poll that was held.

    Args:
        epoch: of the publisher, another one after each start.
        max_subscriptions: most subscriptions of one mailbox; each command for one more is refused;
            default `Limits.mail_subscriptions`.
        largest: a mailbox with the largest bounds that a subscriber may ask for.

    Attributes:
        epoch: of the publisher.
        interests: who gets what.
    """

    def __init__(
        self,
        epoch: int,
        *,
        max_subscriptions: int | None = None,
        largest: Policy = LARGEST,
    ) -> None:
        self.epoch = epoch
        self.interests: Interests[Box[P, W]] = Interests()
        self._max_subscriptions = (
            limits.current.mail_subscriptions if max_subscriptions is None else max_subscriptions
        )
        self._largest = largest
        self._boxes: dict[Key, Box[P, W]] = {}
        self._tenures = 0
        self._blocking = self._raw = 0
        self._ready: list[Box[P, W]] = []
        self._events: list[Answered[P, W] | Room | Gone] = []
        self._alarms: list[tuple[float, int, Key]] = []
        self._alarm = 0

    def __len__(self) -> int:
        return len(self._boxes)

    # Publishing

    @property
    def may_block(self) -> bool:
        """Whether any mailbox blocks when it is full."""
        return self._blocking > 0

    @property
    def any_raw(self) -> bool:
        """Whether the messages of any mailbox go with their own frames."""
        return self._raw > 0

    def would_block(self, topic: str, key: str | None, size: int, beside: int = 0) -> tuple[str, ...]:
        """The readers that have no room for a message; nobody else's room matters to it.

        `Room` is told once for each of them, as soon as it has. Arguments as `publish`.
        """
        if not self._blocking:
            return ()
        return self._without_room(self.interests.matching(topic, key), topic, key, size, beside)

    def publish(
        self, topic: str, key: str | None, sequence: int, size: int, payload: P, now: float, beside: int = 0
    ) -> tuple[str, ...]:
        """Put a message into each mailbox that is interested.

        Args:
            topic: its topic.
            key: of the thing it is about; None for no key.
            sequence: its number within the topic, higher than the one before.
            size: bytes that it counts for.
            payload: shared by all mailboxes.
            now: monotonic seconds.
            beside: bytes that its frames count for where they go with it.

        Returns:
            Nothing when it was done; else the readers that have no room, as `would_block`, and nothing was
            published.
        """
        boxes = self.interests.matching(topic, key)
        if not boxes:
            return ()
        if self._blocking and (full := self._without_room(boxes, topic, key, size, beside)):
            return full
        message, charged = None, -1
        for box in boxes:
            charge = size + beside if box.raw else size
            if message is None or charge != charged:
                message, charged = Message(topic, key, sequence, charge, payload, now), charge
            box.mailbox.put(message)
            if box.held is not None and not box.ready:
                box.ready = True
                self._ready.append(box)
        return ()

    # Requests

    def command(self, caller: Caller, request: CommandRequest, now: float) -> Applied | Outdated | Refusal:
        """Apply a batch of commands; see the table in the module's docstring.

        Raises:
            RemoteProtocolError: for a batch that cannot be; nothing was changed.
            PolicyRefused: for a policy with larger bounds than this publisher allows; nothing was changed.
        """
        batch = request.batch
        check_commands(batch, self._largest)
        box = self._find(caller, request.position, now)
        if isinstance(box, Refusal):
            return box
        done = box.answer
        if done is not None and batch.number <= done.number:
            return done if batch.number == done.number else Outdated(box.position, done.number)
        self._adopt(box, batch.policy)
        answer = box.apply(batch, self.interests, self._max_subscriptions)
        self._look_for_room(box)
        return answer

    def poll(
        self,
        caller: Caller,
        request: PollRequest,
        ticket: W,
        now: float,
        max_bytes: int = BATCH_BYTES,
    ) -> Batch[P] | Refusal | None:
        """Answer a poll, or hold it; see the table in the module's docstring.

        Args:
            caller: who asks.
            request: what for.
            ticket: comes back from `events` with the answer, once, when the poll is held.
            now: monotonic seconds.
            max_bytes: most bytes of a batch of more than one message.

        Returns:
            The answer; None when the poll is held.
        """
        box = self._find(caller, request.position, now)
        if isinstance(box, Refusal):
            return box
        mailbox = box.mailbox
        after = mailbox.acknowledged if request.after is None else request.after
        if not 0 <= request.acknowledged <= mailbox.sent or not 0 <= after <= mailbox.sent:
            return self._refusal("beyond")
        box.polled_at = max(box.polled_at, now)
        self._raw += request.raw - box.raw
        box.raw = request.raw
        self._flush(box)
        mailbox.acknowledge(request.acknowledged)
        mailbox.arrived(after)
        if box.wanted:
            self._look_for_room(box)
        batch = box.batch(request, max_bytes)
        if batch is None:
            until = now + min(request.hold if request.hold > 0 else 0.0, box.keep, KEEP)
            box.held = (ticket, request, until)
            self._set_alarm(box)
        return batch

    def close(self, caller: Caller, position: Position | None) -> bool:
        """Remove a mailbox in good order, whatever it holds; False when it is not the caller's.

        The process's own one needs no position: its reader may end before it was told of it.
        """
        box = self._boxes.get(key_of(caller))
        if box is not None and caller.name is None:
            position = position or box.position
        if box is None or position is None or not box.owned_by(caller, position):
            return False
        self._remove(box)
        return True

    # Time

    @property
    def eventful(self) -> bool:
        """Whether `events` may have something."""
        return bool(self._ready or self._events)

    def events(self, max_bytes: int = BATCH_BYTES) -> list[Answered[P, W] | Room | Gone]:
        """What happened since the last call, to be acted upon; each thing once.

        Args:
            max_bytes: as that of `poll`.
        """
        for box in self._ready:
            box.ready = False
            if box.held is not None and (batch := box.batch(box.held[1], max_bytes)) is not None:
                self._answer(box, batch)
        self._ready.clear()
        events, self._events = self._events, []
        return events

    def tick(self, now: float) -> None:
        """Flush polls whose time is over, and remove the mailboxes of subscribers that are silent."""
        while self._alarms and self._alarms[0][0] <= now:
            _, alarm, key = heapq.heappop(self._alarms)
            box = self._boxes.get(key)
            if box is None or box.alarm != alarm:
                continue
            box.wake = float("inf")
            if box.held is not None and box.deadline <= now:
                self._flush(box)
                box.flushed_at = now
            if box.deadline <= now:
                kept = box.mailbox
                self._events.append(Gone(box.reader, box.process, len(kept), kept.bytes))
                self._remove(box)
            else:
                self._set_alarm(box)

    def next_deadline(self) -> float | None:
        """When `tick` may have something to do, perhaps too early; None without a mailbox."""
        return self._alarms[0][0] if self._alarms else None

    def statistics(self, now: float) -> list[Statistics]:
        """What each mailbox holds and has done, oldest mailbox first."""
        return [box.statistics(now) for box in self._boxes.values()]

    # Who asks

    def _find(self, caller: Caller, position: Position | None, now: float) -> Box[P, W] | Refusal:
        box = self._boxes.get(key_of(caller))
        if box is None:
            return self._open(caller, now) if position is None else self._refusal("unknown subscriber")
        if box.owned_by(caller, position or box.position):
            return box
        if box.process == caller.process or (position is not None and position.epoch != self.epoch):
            return self._refusal("unknown subscriber")
        if position is not None or caller.process in box.former:
            return self._refusal("taken over")
        self._take_over(box, caller, now)
        return box

    def _open(self, caller: Caller, now: float) -> Box[P, W] | Refusal:
        of_key = sum(each.identity == caller.identity for each in self._boxes.values())
        if len(self._boxes) >= limits.current.mailboxes or of_key >= limits.current.mailboxes_per_key:
            return self._refusal("no room")
        box: Box[P, W] = Box(caller, self._new_position(), now)
        self._boxes[key_of(caller)] = box
        self._set_alarm(box)
        return box

    def _take_over(self, box: Box[P, W], caller: Caller, now: float) -> None:
        if box.held is not None:
            self._answer(box, self._refusal("taken over"))
        box.hand_over(caller, self._new_position(), now)

    def _new_position(self) -> Position:
        self._tenures += 1
        return Position(self.epoch, self._tenures)

    def _refusal(self, reason: Reason) -> Refusal:
        return Refusal(reason, self.epoch)

    # One mailbox

    def _adopt(self, box: Box[P, W], policy: Policy) -> None:
        self._blocking -= box.blocks
        box.mailbox.change(policy)
        self._blocking += box.blocks
        self._set_alarm(box)

    def _flush(self, box: Box[P, W]) -> None:
        if box.held is not None:
            self._answer(box, box.nothing(box.held[1]))

    def _answer(self, box: Box[P, W], answer: Batch[P] | Refusal) -> None:
        if box.held is not None:
            self._events.append(Answered(box.held[0], answer, box.held[1].raw))
            box.held = None

    def _without_room(
        self, boxes: tuple[Box[P, W], ...], topic: str, key: str | None, size: int, beside: int
    ) -> tuple[str, ...]:
        full = list[str]()
        for box in boxes:
            wanted = size + beside * box.raw
            if box.blocks and not box.mailbox.fits(wanted, topic, key):
                box.wanted[topic, key] = min(wanted, box.wanted.get((topic, key), wanted))
                full.append(box.reader)
        return tuple(full)

    def _look_for_room(self, box: Box[P, W]) -> None:
        """Whoever waits for this reader shall look again."""
        wanted = box.wanted.items()
        if wanted and (not box.blocks or any(box.mailbox.fits(size, *about) for about, size in wanted)):
            box.wanted.clear()
            self._events.append(Room(box.reader))

    def _remove(self, box: Box[P, W]) -> None:
        self._answer(box, self._refusal("unknown subscriber"))
        del self._boxes[box.key]
        for topic, key in list(box.subscriptions):
            self.interests.discard(topic, key, box)
        self._blocking -= box.blocks
        self._raw -= box.raw
        if box.wanted:
            self._events.append(Room(box.reader))

    def _set_alarm(self, box: Box[P, W]) -> None:
        """One alarm stands for each mailbox, never later than its deadline."""
        if box.deadline >= box.wake:
            return
        self._alarm += 1
        box.alarm, box.wake = self._alarm, box.deadline
        heapq.heappush(self._alarms, (box.wake, box.alarm, box.key))
        if len(self._alarms) > 2 * len(self._boxes) + SPARE_ALARMS:
            self._alarms = [(each.wake, each.alarm, each.key) for each in self._boxes.values()]
            heapq.heapify(self._alarms)
