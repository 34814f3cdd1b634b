"""Mailbox subscriber: the publisher's end of a link that keeps messages until its reader is done with them.

::

    state   event                                        next
    open    silence, or no transport                           open: it goes on keeping, and holds no block
    open    ``keep`` seconds and `mail_grace` of that    ended, with all that is in it
    open    its name is opened by another process        ended; that one's subscriber has the queue
    open    closed by its reader, end of the publisher   ended

What it keeps lies in no block, and goes in the socket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from ....delivery.claims import Claim
from ....delivery.keep_queue import KeepQueue
from ....delivery.letters import Kept
from ....delivery.policies import KEEP
from ....protocol import limits
from ....protocol.link_messages import Run
from ....protocol.message import Identity
from ....protocol.records import Record, Records
from ....protocol.shown import printable
from ....shm.ring import Ring
from .packing import Batch, MailPacking
from .subscriber import Subscriber
from .topics import Wanted

FETCHING = 0.25
"""Seconds since it was last heard for which a reader is taken to fetch on."""


_BESIDE = 224
"""Bytes of a record's frames beside content, topic and key, at most."""


class MailboxSubscriber(Subscriber):
    """See `Subscriber`.

    Args:
        link: its id.
        owner: who opened it.
        lock: of all subscribers.
        ring: blocks of the publisher, of which it has none.
        now: monotonic seconds.
        name: of the mailbox, empty for the process's own.
        tenure: of its reader.
        before: of the process from which this takes over; None without one.
        records: makes frames.

    Attributes:
        heard_at: when its reader was heard.
        said_at: when that said what it wants.
        signs: its rows have message id and signature.
    """

    queue: KeepQueue[Record]

    def __init__(
        self, link: str, owner: Identity, lock: threading.RLock, ring: Ring,
        now: float, name: str, tenure: int, before: MailboxSubscriber | None, records: Records,
    ) -> None:  # fmt: skip
        queue = KeepQueue[Record]() if before is None else before.queue
        super().__init__(link, owner, lock, ring, now, queue, MailPacking(queue, ring))
        self.queue = queue
        self.name = name
        self.tenure = tenure
        self.heard_at = self.said_at = now
        self.signs = before is not None and before.signs
        self._records = records
        if before is not None:
            queue.hand_over()
        self._blocking: set[int] = set()

    @property
    def reader(self) -> str:
        """Its name, or the agent that reads it, for people."""
        return printable(self.name) or self.owner.shown

    @property
    def keep(self) -> float:
        """Seconds for which it is kept without a sign of life."""
        return max([each.policy.keep or KEEP for each in self.queue.interests], default=KEEP)

    def is_over(self, now: float) -> bool:
        """Whether it was silent for longer than it is kept."""
        silence = now - self.heard_at - limits.current.mail_grace
        return silence > 0 and silence > self.keep

    # --- interests: with the lock --------------------------------------------------------------------

    def follow(
        self, wanted: Wanted, lasts: dict[str, int], window: Callable[[Wanted, str], int | None]
    ) -> tuple[dict[str, int], int]:
        """See `Subscriber.follow`."""
        self.cease(wanted.number)
        number, policy = wanted.number, wanted.policy
        kept = self.queue.want(number, wanted.topic, policy, wanted.keys)
        self.queue.name(kept, wanted.who, wanted.type)
        self._keep(wanted, kept)
        if policy.when_full == "block":
            self._blocking.add(number)
        self.signs = self.signs or wanted.raw
        return self.queue.begins(kept, lasts), policy.bound

    def _forget(self, wanted: Wanted | Claim) -> None:
        self._blocking.discard(wanted.number)
        if isinstance(wanted, Kept) and self.queue.has(wanted):
            self.queue.forget(wanted)

    def waits(self, topic: str) -> bool:
        """See `Subscriber.waits`."""
        return bool(self._blocking) and self.gets(topic)

    def heard(self, now: float) -> None:
        """Its reader gave a sign of life."""
        self.heard_at = max(self.heard_at, now)

    def excuse(self, seconds: float, now: float) -> None:
        """See `Subscriber.excuse`."""
        super().excuse(seconds, now)
        self.heard_at, self.said_at = (min(at + seconds, now) for at in (self.heard_at, self.said_at))

    # --- messages: with the lock ---------------------------------------------------------------------

    def post(self, record: Record, claims: tuple[Kept, ...], now: float) -> None:
        """Keep a message that has its number, for its claims."""
        topic, key, size = record.topic, record.key, len(record.body)
        if self.signs:
            size += _BESIDE + len(topic) + 3 * len(key)
        self.queue.put(record, topic, key, record.number, size, claims, now)

    def fetches(self, now: float) -> bool:
        """Whether its reader fetches, or did a moment ago."""
        return now - self.heard_at < FETCHING

    @property
    def waiting(self) -> int:
        """See `Subscriber.waiting`; and what its reader has no room for yet."""
        return self.queue.owed

    def give_up(self) -> None:
        """See `Subscriber.give_up`."""
        self.queue.abandon()

    def pull(self) -> None:
        """See `Subscriber.pull`: what waits goes when there is room."""

    def acknowledged(self, received: int, upto: int, others: Iterable[int]) -> bool:
        """See `Subscriber.acknowledged`."""
        return bool(self.queue.done(received, upto, others))

    # --- sending: without the lock -------------------------------------------------------------------

    def _goes(self, batch: Batch) -> Batch:
        """Seal what goes, where its reader wants that."""
        notify, _, runs = batch
        for topic, interests, some in runs:
            for record in some if self.signs else ():
                self._records.seal(record, self._lock)
            rows = [each.proven if self.signs else each.row for each in some]
            notify.runs.append(Run(topic, interests, rows))
        return batch

    # --- for people ----------------------------------------------------------------------------------

    def statistics(self, now: float) -> dict[str, Any]:
        """What it holds and has done; with the lock."""
        queue, oldest = self.queue, self.queue.oldest
        return {
            "reader": self.reader, "waiting": queue.waiting + queue.unacknowledged, "bytes": queue.bytes,
            "unacknowledged": queue.unacknowledged, "evicted": queue.evicted, "delivered": queue.delivered,
            "age": 0.0 if oldest is None else max(0.0, now - oldest), "subscriptions": len(queue.index),
        }  # fmt: skip
