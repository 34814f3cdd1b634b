"""Subscriber: the publisher's end of a link, for one process that reads.

What goes, waits and is lost is the affair of its queue: a `SendQueue`, or a `KeepQueue` for a mailbox. All
state belongs to the lock of `Subscribers`; sending is done without it, by one thread at a time.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ....delivery.claim_queue import ClaimQueue
from ....delivery.claims import Claim
from ....delivery.liveness import Liveness
from ....protocol.errors import TypeMismatch
from ....protocol.link_messages import Applied, Ended
from ....protocol.message import Identity
from ....shm.ring import Ring
from ..declared import Declared
from ..filters import ANY
from .packing import Batch, Packing
from .topics import Wanted
from .transports import Transport


class Subscriber(ABC):
    """One link at its publisher; what is said to need the lock is called with it held.

    Args:
        link: its id.
        owner: who opened it.
        lock: of all subscribers.
        ring: blocks of the publisher.
        now: monotonic seconds.
        queue: what goes, waits and is lost.
        packing: makes messages of that.

    Attributes:
        transport: over which it sends; None while the reader has to come back.
        was_reached: it had a transport.
        wants: its interests, by the numbers that the reader gave them: their claims, but of one in all topics
            of which each has a claim.
        applied: the answer to the last batch of commands.
        ended: why it is over; empty while it is not.
        sending: whoever sends holds it, and takes it before the lock of all links.
    """

    def __init__(
        self, link: str, owner: Identity, lock: threading.RLock, ring: Ring, now: float,
        queue: ClaimQueue[Any, Any], packing: Packing,
    ) -> None:  # fmt: skip
        self.link = link
        self.owner = owner
        self.transport: Transport | None = None
        self.was_reached = False
        self.wants: dict[int, Wanted | Claim] = {}
        self.applied = Applied(0)
        self._readers: dict[str, Counter[str]] = {}
        self.liveness = Liveness(now)
        self.ended = ""
        self.takes_blocks = False
        self.is_local = False
        self.queue = queue
        self.packing = packing
        self._lock = lock
        self._ring = ring
        self.sending = threading.Lock()
        self._alone_since = now

    def __repr__(self) -> str:
        return f"<Subscriber {self.link[:8]} to agent {self.owner.short}: {self.ended or self.kind}>"

    @property
    def kind(self) -> str:
        """``unix``, ``tcp`` or ``inproc``; ``none`` while it has no transport."""
        return "none" if self.transport is None else self.transport.kind

    @property
    def waiting(self) -> int:
        """Messages that are ready and not sent yet."""
        return len(self.queue)

    # --- interests: with the lock --------------------------------------------------------------------

    def _keep(self, wanted: Wanted, held: Wanted | Claim) -> None:
        """Remember an interest, as its claim where it has one."""
        self.wants[wanted.number] = held
        self._readers.setdefault(wanted.topic, Counter())[wanted.who or self.owner.agent] += 1

    @abstractmethod
    def follow(
        self, wanted: Wanted, lasts: dict[str, int], window: Callable[[Wanted, str], int | None]
    ) -> tuple[dict[str, int], int]:
        """Have an interest from now on, in the place of what had its number before.

        Args:
            wanted: what.
            lasts: the last number of each of its topics until now.
            window: that of an interest in a topic, as of `Interest`.

        Returns:
            The numbers behind which it begins, and the smallest window.
        """

    def cease(self, number: int) -> None:
        """Nobody there has an interest any longer; what is under way stays so."""
        wanted = self.wants.pop(number, None)
        if wanted is None:
            return
        self.packing.ended.pop(number, None)
        readers, who = self._readers[wanted.topic], wanted.who or self.owner.agent
        readers[who] -= 1
        if not readers[who]:
            del readers[who]
        if not readers:
            del self._readers[wanted.topic]
        self._forget(wanted)

    @abstractmethod
    def _forget(self, wanted: Wanted | Claim) -> None:
        """Nothing is for it any more; again does nothing."""

    def end_interest(self, number: int, reason: str, code: str = "") -> None:
        """Give an interest nothing more, and tell its reader why; ``code``: as that of `Ended`."""
        self._forget(self.wants[number])
        self.packing.end(Ended(number, reason, code=code))

    def gets(self, topic: str) -> bool:
        """Whether any message of a topic is for it."""
        return self.queue.index.knows(topic)

    def declare(self, topic: str, declared: Declared) -> None:
        """Something was said of a topic: the reader is told, and who wants another type gets nothing more."""
        if self.gets(topic):
            self.packing.declare(topic, declared.names.get(topic, ""))
        for wanted in self._exact(topic):
            try:
                declared.judge(topic, wanted.type)
            except TypeMismatch as exc:
                self.end_interest(wanted.number, str(exc), type(exc).__name__)

    def withdraw(self, topic: str, reason: str) -> None:
        """Tell the reader that a topic that it wants by its name is not offered any more."""
        for wanted in self._exact(topic):
            self.packing.end(Ended(wanted.number, reason, stays=True))

    def offer(self, topic: str) -> None:
        """A topic that was withdrawn is published again."""
        for wanted in self._exact(topic):
            self.packing.ended.pop(wanted.number, None)

    def _exact(self, topic: str) -> list[Wanted | Claim]:
        return [wanted for wanted in self.wants.values() if wanted.topic == topic]

    @abstractmethod
    def waits(self, topic: str) -> bool:
        """Whether whoever publishes in a topic may have to wait for it."""

    def readers(self, topic: str) -> set[str]:
        """The agents that have an interest in a topic, as in their marks; none while it is suspended."""
        if self.queue.suspended:
            return set()
        return {who for name in (topic, ANY) for who in self._readers.get(name, ())}

    def attach(self, transport: Transport, received: int) -> None:
        """Send over this transport from now on, and again what came after number ``received``.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self.queue.resume(received)
        self.packing.begin()
        self.transport, self.takes_blocks, self.is_local = (
            transport,
            transport.blocks,
            transport.kind == "inproc",
        )
        self.was_reached = True

    def heard(self, now: float) -> None:
        """Its reader gave a sign of life."""
        self.liveness.heard(now)

    def excuse(self, seconds: float, now: float) -> None:
        """The publisher stood still for so long, until now: its reader was not silent then."""
        self._alone_since = min(self._alone_since + seconds, now)

    def lose_transport(self, transport: Transport, now: float) -> None:
        """The transport is no more; the reader may come back by another."""
        if self.transport is transport:
            self.transport, self._alone_since = None, now

    def alone(self, now: float) -> float:
        """Seconds for which the reader has not come back."""
        return now - self._alone_since if self.transport is None else 0.0

    def end(self, reason: str) -> Transport | None:
        """Nothing more is sent, nobody waits for it; returns the transport, to be closed without the lock."""
        self.ended = reason
        transport, self.transport = self.transport, None
        return transport

    @abstractmethod
    def give_up(self) -> None:
        """What did not go yet is lost, of which its reader can be told."""

    @abstractmethod
    def pull(self) -> None:
        """What waits is ready as far as it can go now."""

    @abstractmethod
    def acknowledged(self, received: int, upto: int, others: Iterable[int]) -> bool:
        """The reader tells what it has and what it is done with; True when that is news.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """

    # --- sending: without the lock -------------------------------------------------------------------

    def flush(self) -> None:
        """Send what waits, as far as the transport takes it; any thread."""
        while self.sending.acquire(blocking=False):  # else whoever sends now looks again when it has let go
            try:
                more = self._send(self.packing.next)
            finally:
                self.sending.release()
            with self._lock:
                if not len(self.queue) or not (self._takes() if more is None else more):
                    return

    def beat(self, now: float) -> None:
        """Send a sign of life when one is due and the transport takes it; any thread."""
        if self.sending.acquire(blocking=False):
            try:
                self._send(lambda transport: self._sign(transport) if self.liveness.beat_due(now) else None)
            finally:
                self.sending.release()
            self.flush()  # whoever came meanwhile relies on it

    def _takes(self) -> Transport | None:
        """The transport when it would take a message; with the lock."""
        transport = self.transport
        return None if transport is None or not transport.ready or self.ended else transport

    def _send(self, make: Callable[[Transport], Batch | None]) -> bool | None:
        """Send what is made; whether it may be looked for more, None while the transport takes nothing."""
        with self._lock:
            transport = self._takes()
            if transport is None:
                return None
            made = make(transport)
            if made is None:
                return not len(self.queue)  # else it may not go now
            self.liveness.spoke(time.monotonic())
        notify, fd, contents = self._goes(made)
        try:
            return transport.send(notify, fd, contents)
        finally:
            if fd >= 0:
                os.close(fd)

    @abstractmethod
    def _goes(self, batch: Batch) -> Batch:
        """What is about to go, as it is to go."""

    def _sign(self, transport: Transport) -> Batch:
        """An empty message, or whatever there is; with the lock."""
        return self.packing.next(transport) or self.packing.sign()
