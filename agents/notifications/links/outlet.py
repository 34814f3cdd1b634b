"""Outlet: the publisher's end of a link, for one process that reads.

::

    state      event                              next
    open       way attached                       open: what is ready is sent, and again what was not received
    open       way lost                           open, alone: some waits or is lost by policy
    open       4 s of silence, or alone for 4 s   suspended: nothing is kept, everything counted; leases end,
                                                  blocks that the reader may see are never written again
    suspended  way attached                       open: what was lost is told
    suspended  `link_keep` seconds, or another    ended
               link needs the place
    any        unlink, end of the process         ended
    open       ``on_timeout`` of an interest      open: that interest has ended

What goes, waits and is lost is the affair of its `SendQueue`. An interest in all topics is one there for each
topic, with the same number. All state belongs to the lock of `Outlets`; sending is done without it, by one
thread at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ....delivery.claims import Entry, Interest, summary
from ....delivery.liveness import Liveness
from ....delivery.meters import Meter
from ....delivery.send_queue import SendQueue
from ....protocol.errors import TypeMismatch
from ....protocol.link_messages import Applied, Ended
from ....shm.ring import Ring
from ..declared import Declared
from ..filters import ANY
from ..metering import Sampled
from .packing import Batch, Packing
from .published import Published
from .topics import Wanted
from .ways import Way

GATHERED = 256
"""Messages of a burst that wait for one another, at most half of the smallest window of those waited for."""

LENT = 4 << 20
"""Bytes in blocks that wait for others of their burst: with more under way, a block has left the processor's
cache before it is written again."""


class Owner(NamedTuple):
    """Who opened a link: an agent, and the key that signed its request, empty without keys."""

    agent: str
    key_id: str


class Outlet:
    """One link at its publisher; what is said to need the lock is called with it held.

    Args:
        link: its id.
        owner: who opened it.
        arrays: its reader reads ``buffers``.
        lock: of all outlets.
        ring: blocks of the publisher.
        now: monotonic seconds.

    Attributes:
        way: over which it sends; None while the reader has to come back.
        was_reached: it had a way.
        interests: by topic, and by the number that the reader gave them.
        wants: what these are, by number.
        everything: those of them that are in all topics.
        applied: the answer to the last batch of commands.
        ended: why it is over; empty while it is not.
        sending: whoever sends holds it, and takes it before the lock of all links.
    """

    def __init__(
        self, link: str, owner: Owner, arrays: bool, lock: threading.RLock, ring: Ring, now: float,
    ) -> None:  # fmt: skip
        self.link = link
        self.owner = owner
        self.arrays = arrays
        self.way: Way | None = None
        self.was_reached = False
        self.interests: dict[str, dict[int, Interest]] = {}
        self.wants: dict[int, Wanted] = {}
        self.everything: dict[int, Wanted] = {}
        self.applied = Applied(0)
        self._readers: dict[str, Counter[str]] = {}
        self._windows: Counter[str] = Counter()
        self._keys = 0
        self.liveness = Liveness(now)
        self.ended = ""
        self.takes_blocks = False
        self.is_local = False
        self.queue: SendQueue[Published] = SendQueue(self._flows)
        self.packing = Packing(self.queue, ring)
        self._lock = lock
        self._ring = ring
        self.sending = threading.Lock()
        self._alone_since = now
        self._meter, self._done_after = Meter(), Sampled()
        self._waits_since, self._gathers = 0.0, GATHERED

    def __repr__(self) -> str:
        return f"<Outlet {self.link[:8]} to agent {self.owner.agent[:8]}: {self.ended or self.kind}>"

    @property
    def kind(self) -> str:
        """``unix``, ``tcp`` or ``inproc``; ``none`` while it has no way."""
        return "none" if self.way is None else self.way.kind

    @property
    def waiting(self) -> int:
        """Messages that are ready and not sent yet."""
        return len(self.queue)

    # --- interests: with the lock --------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Interests and keys."""
        return len(self.wants) + self._keys

    def want(self, wanted: Wanted) -> None:
        """Have an interest, in the place of what had its number before."""
        self.cease(wanted.interest)
        self.wants[wanted.interest] = wanted
        self._keys += len(wanted.keys or ())
        self._readers.setdefault(wanted.topic, Counter())[wanted.who or self.owner.agent] += 1

    def begin(self, wanted: Wanted, topic: str, window: int | None) -> None:
        """An interest has a topic from now on; ``window`` as that of `Interest`."""
        policy = wanted.policy
        half = GATHERED if policy.lossy else max(1, (window or policy.bound) // 2)
        self._gathers = min(self._gathers, half)
        interest = self.queue.want(wanted.interest, topic, policy, window, wanted.keys)
        self.interests.setdefault(topic, {})[wanted.interest] = interest
        self._windows[topic] += not interest.lossy

    def cease(self, number: int) -> None:
        """Nobody there has an interest any longer; what is under way stays so."""
        wanted = self.wants.pop(number, None)
        if wanted is None:
            return
        self.everything.pop(number, None)
        self.packing.ended.pop(number, None)
        self._keys -= len(wanted.keys or ())
        readers = self._readers[wanted.topic]
        readers[wanted.who or self.owner.agent] -= 1
        self._readers[wanted.topic] = +readers
        self._forget(number, [*self.interests] if wanted.topic == ANY else [wanted.topic])

    def _forget(self, number: int, topics: list[str]) -> None:
        for topic in topics:
            interest = self.interests.get(topic, {}).pop(number, None)
            if interest is not None:
                self._windows[topic] -= not interest.lossy
                self.queue.forget(interest)
                if not self.interests[topic]:
                    del self.interests[topic], self._windows[topic]
        self._let_go()

    def end_interest(self, number: int, reason: str, code: str = "") -> None:
        """Give an interest nothing more, and tell its reader why; ``code``: as that of `Ended`."""
        self._forget(number, [*self.interests])
        self.everything.pop(number, None)
        self.packing.end(Ended(number, reason, code=code))

    def declare(self, topic: str, declared: Declared) -> None:
        """Something was said of a topic: the reader is told, and who wants another type gets nothing more."""
        if topic in self.interests:
            self.packing.declare(topic, declared.names.get(topic, ""))
        for wanted in self._exact(topic):
            try:
                declared.judge(topic, wanted.type)
            except TypeMismatch as exc:
                self.end_interest(wanted.interest, str(exc), type(exc).__name__)

    def withdraw(self, topic: str, reason: str) -> None:
        """Tell the reader that a topic that it wants by its name is not offered any more."""
        for wanted in self._exact(topic):
            self.packing.end(Ended(wanted.interest, reason, stays=True))

    def offer(self, topic: str) -> None:
        """A topic that was withdrawn is published again."""
        for wanted in self._exact(topic):
            self.packing.ended.pop(wanted.interest, None)

    def _exact(self, topic: str) -> list[Wanted]:
        return [wanted for wanted in self.wants.values() if wanted.topic == topic]

    def waits(self, topic: str) -> bool:
        """Whether an interest in a topic has a window, and somebody to be waited for."""
        return self._windows[topic] > 0 and not self.queue.suspended

    def readers(self, topic: str) -> set[str]:
        """The agents that have an interest in a topic, as in their marks; none while it is suspended."""
        if self.queue.suspended:
            return set()
        return {who for name in (topic, ANY) for who in self._readers.get(name, ())}

    def attach(self, way: Way, received: int) -> None:
        """Send over this way from now on, and again what came after number ``received``.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self.queue.resume(received)
        self.packing.begin()
        self.way, self.takes_blocks, self.is_local = way, way.blocks, way.kind == "inproc"
        self.was_reached, self.queue.runs_ahead = True, way.kind == "unix"
        self.pull()

    def lose_way(self, way: Way, now: float) -> None:
        """The way is no more; the reader may come back by another."""
        if self.way is way:
            self.way, self._alone_since = None, now
            self.queue.runs_ahead = False

    def alone(self, now: float) -> float:
        """Seconds for which the reader has not come back."""
        return now - self._alone_since if self.way is None else 0.0

    def suspend(self, now: float) -> Way | None:
        """Keep nothing until the reader comes back; returns the way, to be closed without the lock."""
        way = self.way
        if way is not None:
            self.lose_way(way, now)
        self._empty()
        self.takes_blocks = False
        return way

    def _empty(self) -> None:
        for entry in self.queue.suspend():
            self._free(entry, visible=entry.position > 0)
        self._let_go()
        self.packing.begin()
        self._ring.gone(self.link)  # what the reader may see is never written again

    def end(self, reason: str) -> Way | None:
        """Nothing more is sent and nobody waits for it; returns the way, to be closed without the lock."""
        self.ended = reason
        way, self.way = self.way, None
        self._empty()
        return way

    # --- messages: with the lock ---------------------------------------------------------------------

    def post(self, published: Published, claims: tuple[Interest, ...], passed: Collection[Interest]) -> bool:
        """Place a message that has its number, for its claims; False when nobody there gets it.

        ``passed``: those whose time to make place is over.
        """
        queue, number = self.queue, published.number
        if passed:
            for interest in claims:
                if interest in passed:
                    queue.lose(interest, number)
            claims = tuple(interest for interest in claims if interest not in passed)
        if not claims:
            return False
        leased = published.slot is not None and self.takes_blocks
        takes = queue.put(published, number, len(published.body), leased, claims)
        if queue.gone:
            self._let_go()
        return takes

    def _flows(self) -> bool:
        way = self.way
        return way is not None and way.ready

    def _let_go(self) -> None:
        """Free what nothing waits for any more."""
        gone = self.queue.gone
        while gone:
            self._free(gone.pop())

    def _free(self, entry: Entry[Published], visible: bool = False) -> None:
        published = entry.message
        if published.waited is not None:
            published.waited.discard(self)
        if entry.leased and not visible and published.slot is not None:
            self._ring.end(published.slot.block, self.link)

    def give_up(self) -> None:
        """Drop what did not go yet."""
        self.queue.abandon()
        self._let_go()

    def give_block(self) -> bool:
        """Drop a message that waits and lies in a block; False when there is none."""
        given = self.queue.give_block()
        self._let_go()
        return given

    def pull(self) -> None:
        """What waits is ready as far as it can go now."""
        self.queue.refill()
        self._let_go()

    def acknowledged(self, received: int, upto: int, others: Iterable[int]) -> bool:
        """The reader tells what it has and what it is done with; True when that is news.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        done = self.queue.done(received, upto, others)
        for entry in done:
            if entry.leased or entry.message.waited is not None:
                self._free(entry)
        if done:
            self._done_after.add_ms(done[-1].message.sent_ms)
            self.pull()
        return bool(done)

    # --- sending: without the lock -------------------------------------------------------------------

    def is_due(self, now: float, pause: float) -> bool:
        """True when what waits should not wait for more: always, but on a way where each sending costs.

        To be asked after each message of a burst.
        """
        waiting = len(self.queue)
        if waiting >= self._gathers or self.queue.lent >= LENT or not self.queue.runs_ahead:
            return True
        if waiting <= 1:
            self._waits_since = now
        return now - self._waits_since >= pause

    def flush(self) -> None:
        """Send what waits, as far as the way takes it; any thread."""
        while len(self.queue):
            if not self.sending.acquire(blocking=False):
                return  # whoever sends now looks again when it has let go
            try:
                sent = self._send(self.packing.next)
            finally:
                self.sending.release()
            if not sent:
                return

    def beat(self, now: float) -> None:
        """Send a sign of life when one is due and the way takes it; any thread."""
        if self.sending.acquire(blocking=False):
            try:
                self._send(lambda way: self._sign(way) if self.liveness.beat_due(now) else None)
            finally:
                self.sending.release()

    def _send(self, make: Callable[[Way], Batch | None]) -> bool:
        with self._lock:
            way = self.way
            if way is None or not way.ready or self.ended:
                return False
            made = make(way)
            if made is None:
                return False
            self.liveness.spoke(time.monotonic())
        notify, fd, contents = made
        try:
            return way.send(notify, fd, contents)
        finally:
            if contents:
                self._meter.add(time.monotonic(), len(contents), sum([len(each.body) for each in contents]))
            if fd >= 0:
                os.close(fd)

    def _sign(self, way: Way) -> Batch:
        """An empty message, or whatever there is; with the lock."""
        return self.packing.next(way) or self.packing.sign(way)

    # --- for people ----------------------------------------------------------------------------------

    def statistics(self, now: float, lasts: Mapping[str, int]) -> dict[str, Any]:
        """What it is, what waits and what was dropped; with the lock."""
        return {
            "link": self.link, "agent": self.owner.agent, "transport": self.kind,
            "state": "suspended" if self.queue.suspended else self.liveness.state(now),
            "waiting": self.waiting,
            "unacknowledged": self.queue.unacknowledged, "sent": self._meter.messages,
            **self._done_after.told(self._meter, now),
            "topics": {
                topic: {"last": lasts.get(topic, 0), **summary(interests.values())}
                for topic, interests in self.interests.items()
            },
        }  # fmt: skip
