"""Posting: the mailboxes of one publisher between its publications and its readers' polls.

A publication goes in with the lock of the links, in the moment when it gets its number; the I/O thread
answers the polls that wait for it, so that what is published meanwhile goes with it. A content is encoded
once for all mailboxes, which share its bytes; it is signed when the first reader asks for its own frames, and
that once, with the message id of its time. No thread waits for a reader, but those that publish while a
mailbox with ``when_full="block"`` has no room: they wait as for a reader with the policy ``block``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ....delivery.boxes import Box
from ....delivery.mail import ALL, Answered, Applied, Batch, Caller, Gone, Outdated, Refusal, check_policy
from ....delivery.mailboxes import LARGEST, Mailboxes
from ....delivery.policies import Policy
from ....protocol import limits, serializers
from ....protocol.bundle import Body, Item, size_beside
from ....protocol.errors import (
    AgentClosed,
    CallTimeout,
    LocalProtocolError,
    PolicyRefused,
    RemoteProtocolError,
)
from ....protocol.keyring import Role
from ....protocol.records import Records
from ....protocol.session import ARRAYS
from ....protocol.shown import shown
from ....transport.counters import Counters
from ....transport.loop import Loop, Timer
from ....transport.wire import Protocol
from ...words import Replies, Request
from ..declared import Declared
from ..links.encoding import SCALARS
from ..links.outlets import Outlets
from ..links.published import Published
from ..links.turns import Turn
from .drafts import Draft
from .words import answer_word, mail_of, read_caller, read_commands, read_offer, read_poll, read_position

logger = logging.getLogger("pzc.mail")

ANSWER_BYTES = 4 << 20
"""Bytes of contents that go together as the answer to a poll; a larger one goes alone."""

SMALL = 4096
"""Bytes of a content that is sealed by whoever publishes it."""

_FRAME = 1 << 16  # bytes of an answer beside its largest content, far more than enough
_MOST_UNABLE = 10_000  # one is enough for all; the rest is to know when none is left
_LONGEST = 1.0  # nothing but a lost wake-up would ever need it

Told = Applied | Outdated | Refusal | Batch[Draft]


class Posting:
    """The mailboxes of one agent; safe from any thread.

    Args:
        outlets: whose lock, numbers and routes count; asks back while something is published.
        loop: answers the polls that are held, and looks at the time.
        protocol: of the agent.
        records: makes frames of what it publishes.
        replies: sends answers.
        counters: where everything is counted.
        on_change: called after a reader wants other topics, and before it is told that this was done.
        declared: what the agent says of its topics.

    Attributes:
        words: of readers, with what answers them.
    """

    def __init__(
        self,
        outlets: Outlets,
        loop: Loop,
        protocol: Protocol,
        records: Records,
        replies: Replies,
        counters: Counters,
        on_change: Callable[..., object],
        declared: Declared,
    ) -> None:
        self._declared = declared
        self._outlets = outlets
        self._lock = outlets.lock
        self._loop = loop
        self._protocol = protocol
        self._replies = replies
        self._counters = counters
        self._on_change = on_change
        self._boxes: Mailboxes[Draft, Request] = Mailboxes(protocol.epoch)
        self._records = records
        self._lasts: dict[Caller, tuple[int, dict[str, int]]] = {}
        self._unable: set[str] = set()  # processes that do not read ``buffers``
        self._answering = self._gathering = self._closed = False
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self.words: dict[str, Callable[[Request, dict[str, Any]], object]] = {
            "mailbox": self._on_mailbox,
            "collect": self._on_collect,
            "discard": self._on_discard,
        }

    def __bool__(self) -> bool:
        """Whether there is any mailbox."""
        return len(self._boxes) > 0

    # --- publishing ----------------------------------------------------------------------------------

    def readers_of(self, topic: str) -> tuple[Box[Draft, Request], ...]:
        """The mailboxes that get any message of a topic; with the lock."""
        if not self._boxes.interests.knows(topic) or self._outlets.routes.about(topic).scope != "all":
            return ()
        return tuple(self._boxes.interests.about(topic))

    @property
    def may_block(self) -> bool:
        """Whether a publication may have to wait for room in a mailbox."""
        return self._boxes.may_block

    def readers(self, topic: str) -> set[str]:
        """Agents that read a topic, as in their marks; a mailbox whose reader does not say them is one."""
        with self._lock:
            boxes = self._boxes.interests.about(topic)
            return set[str]().union(*(box.subscriptions.who(topic) or {box.reader} for box in boxes))

    def prepare(self, turn: Turn, readers: tuple[Box[Draft, Request], ...]) -> None:
        """Encode a content for mailboxes, unless that was done; without the lock.

        When all of these want frames, a small one is sealed by whoever publishes it: then the I/O thread,
        which has to get its turn from those, only puts records together. A larger one is sealed when somebody
        asks.

        Raises:
            SerializeError: when it cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        if turn.mail is None:
            turn.mail = self._encode(turn.published)
        turn.framed = len(turn.mail[1]) <= SMALL and False not in [box.raw for box in readers]

    def _encode(self, published: Published) -> tuple[str, Body]:
        arrays, codec = not self._unable, self._protocol.codec
        if published.serializer and (arrays or published.serializer != "buffers"):
            name, body = published.serializer, published.body
            # In the block it would keep memory that links need, for as long as it waits in a mailbox.
            return name, body if published.slot is None else bytes(body)
        if arrays and codec.serializer == "pickle":
            if type(published.content) in SCALARS:
                name, body = "pickle", serializers.encode_pickle(published.content)
            else:
                name, body = serializers.encode_arrays(published.content, None)
        else:
            name, body = codec.serializer, serializers.encode(codec.serializer, published.content)
        if len(body) > codec.max_content - _FRAME:
            raise LocalProtocolError(
                f"content has {len(body)} bytes, the limit is {codec.max_content - _FRAME}"
            )
        return name, body

    def prepare_to_wait(self, turn: Turn) -> None:
        """As `prepare`, when a mailbox may have no room for so many bytes."""
        if self._boxes.may_block and self._boxes.interests.knows(turn.published.topic):
            turn.mail = turn.mail or self._encode(turn.published)

    def is_full(self, turn: Turn) -> bool:
        """Whether a mailbox that blocks has no room; with the lock."""
        if turn.mail is None:
            return False
        topic, key = turn.published.topic, turn.published.key
        return bool(self._boxes.would_block(topic, key or None, len(turn.mail[1]), size_beside(topic, key)))

    def put(self, turn: Turn, number: int) -> None:
        """Put a notification into each mailbox that wants it, under its number; with the lock."""
        if turn.mail is None:
            return
        published, (name, body), boxes = turn.published, turn.mail, self._boxes
        topic, key = published.topic, published.key
        item = turn.item or Item(topic, number, key, published.sent_ms, name, body)
        draft = Draft(item, turn.record)
        beside = size_beside(topic, key) if boxes.any_raw else 0
        if full := boxes.publish(topic, key or None, number, len(body), draft, turn.since, beside):
            raise _full(full, topic, 0.0)
        if boxes.eventful:
            (self._answer_soon if turn.record is None else self._answer_together)()

    def wait(self, turn: Turn) -> None:
        """Wait until there is room, or the time is over; no lock may be held.

        Raises:
            CallTimeout: when it is over; nothing was published.
            AgentClosed: when the agent is stopped meanwhile.
        """
        until = turn.since + (0.0 if self._loop.in_thread() else limits.current.mail_block)
        topic, key = turn.published.topic, turn.published.key or None
        size = 0 if turn.mail is None else len(turn.mail[1])
        with self._lock:
            while full := self._boxes.would_block(topic, key, size, size_beside(topic, key or "")):
                left = until - time.monotonic()
                if self._closed:
                    raise AgentClosed("the agent was stopped while a publication waited for its readers")
                if left <= 0:
                    self._counters.add("publish_timeouts")
                    raise _full(full, topic, limits.current.mail_block)
                self._outlets.changed.wait(min(left, _LONGEST))

    # --- readers -------------------------------------------------------------------------------------

    def _on_mailbox(self, request: Request, content: dict[str, Any]) -> None:
        if "offer" in content:
            self._check(content["offer"])
            if "policy" in content:
                policy = read_offer(content)
                check_policy(policy, LARGEST)
                _check_role(request, policy)
            self._replies.reply(request, {"pzc": "mailbox", "offered": content["offer"], "raw": True})
            return
        caller, asked = read_caller(request, content), read_commands(content)
        _check_role(request, asked.batch.policy)
        topics = {command.topic for command in asked.batch.commands}
        for topic in {command.topic for command in asked.batch.commands if command.subscribe}:
            self._check(topic)
        with self._lock:
            self._check_open()
            answer = self._boxes.command(caller, asked, time.monotonic())
            lasts = self._tell_lasts(caller, answer.number, topics) if isinstance(answer, Applied) else {}
            self._note(request, answer)
            self._outlets.routes.renew()
        self._on_change(before_confirming=True)
        self._reply(request, answer, {"lasts": lasts, "types": self._declared.of(topics)})
        self._look()

    def _check(self, topic: object) -> None:
        if type(topic) is not str or not topic:
            raise RemoteProtocolError(f"a mailbox was asked for topic {shown(topic, 100)}")
        if topic != ALL:
            self._outlets.routes.about(topic).check_mailbox(topic)

    def _check_open(self) -> None:
        if self._closed:
            raise AgentClosed("the agent was stopped; it keeps no more mailboxes")

    def _tell_lasts(self, caller: Caller, number: int, topics: set[str]) -> dict[str, int]:
        """Last numbers of topics when a batch was applied; a repetition gets those of its first time."""
        known = self._lasts.get(caller)
        if known is not None and known[0] == number:
            return known[1]
        numbers = self._outlets.numbers
        lasts = dict(numbers) if ALL in topics else {topic: numbers.get(topic, 0) for topic in topics}
        if caller.name is not None:  # another process had it before
            named = caller.name, caller.identity
            self._lasts = {
                other: told for other, told in self._lasts.items() if (other.name, other.identity) != named
            }
        self._lasts[caller] = number, lasts
        return lasts

    def _note(self, request: Request, answer: Told | None) -> None:
        able = request.message.sequence & ARRAYS
        if not (able or isinstance(answer, Refusal)) and len(self._unable) < _MOST_UNABLE:
            self._unable.add(request.message.sender)

    def _on_collect(self, request: Request, content: dict[str, Any]) -> None:
        caller, asked = read_caller(request, content), read_poll(content)
        with self._lock:
            self._check_open()
            answer = self._boxes.poll(caller, asked, request, time.monotonic(), ANSWER_BYTES)
            self._note(request, answer)
        if answer is not None:
            self._reply(request, answer, {}, asked.raw)
        self._look()

    def _on_discard(self, request: Request, content: dict[str, Any]) -> None:
        caller, position = read_caller(request, content), read_position(content)
        with self._lock:
            if self._boxes.close(caller, position):
                self._forget(caller.process)
        self._replies.reply(request, {"pzc": "discard"})
        self._look()
        self._on_change()

    def _forget(self, process: str) -> None:
        self._unable.discard(process)
        self._lasts = {caller: told for caller, told in self._lasts.items() if caller.process != process}
        self._outlets.routes.renew()

    # --- answers -------------------------------------------------------------------------------------

    def _answer_soon(self) -> None:
        if not self._answering:
            self._answering = True
            self._loop.call(self._answer_held)

    def _answer_together(self) -> None:
        """As `_answer_soon`, with what follows within a moment: nobody waits for it so urgently."""
        if not self._gathering:
            self._gathering = True
            self._loop.call_later(limits.current.mail_gathering, self._answer_gathered)

    def _answer_gathered(self) -> None:
        self._gathering = False
        self._look()

    def _answer_held(self) -> None:
        self._answering = False
        self._look()

    def _look(self) -> None:
        """Act upon what has happened, and look again in time."""
        with self._lock:
            events = self._boxes.events(ANSWER_BYTES) if self._boxes.eventful else []
            gone = [event for event in events if isinstance(event, Gone)]
            for event in gone:
                self._forget(event.process)
            if len(events) > len(gone):
                self._outlets.changed.notify_all()
            deadline = self._boxes.next_deadline()
        for event in events:
            if isinstance(event, Answered):
                self._reply(event.ticket, event.answer, {}, event.raw)
        for event in gone:
            self._counters.add("mailboxes_expired")
            self._counters.add("mailbox_messages_expired", event.waiting)
            logger.warning(
                "the mailbox of %s was removed with %d messages: it was silent for too long",
                event.reader, event.waiting,
            )  # fmt: skip
        if gone:
            self._on_change()
        if deadline is not None and deadline < self._timer_at:
            self._loop.call(self._arm)

    def _arm(self) -> None:
        with self._lock:
            deadline = self._boxes.next_deadline()
        if deadline is None or self._closed or deadline >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self._loop.call(self._tick)  # behind the requests that came before

    def _tick(self) -> None:
        with self._lock:
            self._boxes.tick(time.monotonic())
        self._look()

    def _reply(self, request: Request, answer: Told, topics: dict[str, Any], raw: bool = False) -> None:
        if not isinstance(answer, Batch):
            self._replies.reply(request, answer_word(answer, topics))
            return
        try:
            mail = mail_of(answer, self._records if raw else None)
            frames = request.seal(mail, "letters" if raw else "mail")
        except Exception as exc:
            self._replies.refuse(request, exc)
            raise
        request.transmit(frames)

    # --- the end -------------------------------------------------------------------------------------

    def statistics(self) -> list[dict[str, Any]]:
        """What each mailbox holds and has done."""
        with self._lock:
            return [asdict(each) for each in self._boxes.statistics(time.monotonic())]

    def close(self) -> None:
        """Keep no more mailboxes, and end every wait of a publication."""
        with self._lock:
            self._closed = True
            self._outlets.changed.notify_all()
        timer = self._timer
        if timer is not None:
            timer.cancel()


def _check_role(request: Request, policy: Policy) -> None:
    """An observer reads, and lets nobody wait."""
    if policy.when_full == "block" and request.role is Role.OBSERVER:
        raise PolicyRefused("a mailbox that lets publish wait (when_full='block') takes the role operator")


def _full(readers: tuple[str, ...], topic: str, waited: float) -> CallTimeout:
    return CallTimeout(
        f"the mailbox of {readers[0][:40]} has no room for a message of {topic!r} after {waited:g} s; "
        "nothing was published"
    )
