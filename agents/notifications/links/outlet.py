"""Outlet: the publisher's end of a link, for one process that reads.

::

    state      event                              next
    open       way attached                       open: what waits is sent, and again what was not received
    open       way lost                           open, alone: what goes waits, lossy topics keep and drop
    open       unlink, end of the process,        ended: leases end, blocks that the reader may see are
               4 s of silence, ``on_timeout``     never written again

A message that surely goes is *queued*; a lossy topic *keeps* what the way cannot take now. Queued messages
are numbered when they are sent and stay until the reader is done with them. All state belongs to the lock of
`Outlets`; sending is done without it, by one thread at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ....delivery.flows import Flow, Verdict
from ....delivery.liveness import Liveness
from ....delivery.meters import Meter
from ....delivery.policies import Policy
from ....protocol import limits
from ....protocol.bundle import MAX_ITEMS, Bundle, Last
from ....shm.ring import Ring
from ..metering import Sampled, told
from .published import LEASES, Leg, Posted, Published
from .queues import LENT, Batch, Queue
from .topics import Wanted
from .ways import Way

MAX_AHEAD = 10_000
"""Lossy messages that a reader is not done with; what comes then is kept or dropped by policy."""

MAX_BYTES_AHEAD = 64 << 20
"""Bytes of lossy contents outside of blocks that a reader is not done with; as above."""

MAX_BYTES_KEPT = 64 << 20
"""Bytes that the lossy topics of a link keep; beyond them the oldest is dropped, of ``drop`` the newest."""

GATHERED = 256
"""Messages of a burst that wait for one another, at most half of the smallest window of those waited for."""

_SEND, _WAIT, _DROP = Verdict.SEND, Verdict.WAIT, Verdict.DROP


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
        legs: its topics.
        wants: policies of the reader's subscriptions, by topic as it was subscribed to.
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
        self.legs: dict[str, Leg] = {}
        self.wants: dict[str, Wanted] = {}
        self.liveness = Liveness(now)
        self.ended = ""
        self.takes_blocks = False
        self.is_local = False
        self.queue = Queue(ring)
        self._lock = lock
        self._ring = ring
        self.sending = threading.Lock()
        self._alone_since = now
        self._meter, self._done_after = Meter(), Sampled()
        self._waits_since, self._gathers = 0.0, GATHERED
        self._ahead = self._bytes_ahead = self._leases_ahead = self._bytes_kept = 0

    def __repr__(self) -> str:
        return f"<Outlet {self.link[:8]} to agent {self.owner.agent[:8]}: {self.ended or self.kind}>"

    @property
    def kind(self) -> str:
        """``unix``, ``tcp`` or ``inproc``; ``none`` while it has no way."""
        return "none" if self.way is None else self.way.kind

    @property
    def waiting(self) -> int:
        """Messages that surely go and are not sent yet."""
        return len(self.queue)

    # --- topics: with the lock -----------------------------------------------------------------------

    def begin(self, topic: str, policy: Policy, window: int | None, last: int) -> None:
        """Begin the flow of a topic after its number ``last``, or change the one that there is."""
        half = GATHERED if policy.lossy else max(1, (window or policy.bound) // 2)
        self._gathers, leg = min(self._gathers, half), self.legs.get(topic)
        if leg is None:
            self.legs[topic] = Leg(self, topic, Flow(policy, window), last, last, last)
        else:
            self._let_go(leg.flow.change(policy, window))
            self._pull(leg)

    def cease(self, topic: str) -> None:
        """Nobody there wants a topic any longer; what is under way stays so."""
        leg = self.legs.pop(topic)
        self._discard(leg)

    def attach(self, way: Way, received: int) -> None:
        """Send over this way from now on, and again what came after number ``received``.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        self.queue.again(received)
        self.way, self.takes_blocks, self.is_local = way, way.blocks, way.kind == "inproc"
        self.pull()

    def lose_way(self, way: Way, now: float) -> None:
        """The way is no more; the reader may come back by another."""
        if self.way is way:
            self.way, self._alone_since = None, now

    def is_forsaken(self, now: float) -> bool:
        """True when the reader has not come back in time."""
        return self.way is None and now - self._alone_since > limits.current.silence

    def end(self, reason: str) -> Way | None:
        """Nothing more is sent and nobody waits for it; returns the way, to be closed without the lock."""
        self.ended = reason
        way, self.way = self.way, None
        self.give_up()
        for posted in self.queue.clear():
            self._not_waited(posted.published)
        self._ring.gone(self.link)
        return way

    # --- messages: with the lock ---------------------------------------------------------------------

    def blocked(self, leg: Leg) -> bool:
        """Whether the publisher has to wait for this reader."""
        return leg.flow.verdict(True) is _WAIT

    def pass_over(self, leg: Leg, number: int) -> None:
        """Drop a message for this reader, whose time to make place is over."""
        leg.last = number
        leg.flow.drop()

    def post(self, leg: Leg, published: Published, *, reserved: bool) -> bool:
        """Queue a message, or keep or drop it by policy; False when it is dropped.

        ``reserved``: its place in the window was taken before.
        """
        leg.last = published.number
        slot = published.slot
        posted = Posted(leg, published, slot.block if slot is not None and self.takes_blocks else 0)
        if reserved:
            self._enqueue(posted)
            return True
        verdict = leg.flow.verdict(leg.blocks or self._takes(posted))
        if verdict is _SEND:
            leg.flow.send()
            self._enqueue(posted)
        elif verdict is _WAIT or verdict is _DROP or not self._has_room_for(posted):
            leg.flow.drop()
            return False
        else:
            self._keep(posted)
        return True

    def _takes(self, posted: Posted) -> bool:
        """Whether a lossy message can go now."""
        may_wait = self.kind == "unix" and not posted.block and posted.leg.flow.policy.name == "drop"
        if self.way is None or self.queue.is_repeating or not (self.way.ready or may_wait):
            return False
        full = self._ahead >= MAX_AHEAD or self._bytes_ahead >= MAX_BYTES_AHEAD
        return not (full or (posted.block and self._leases_ahead >= LEASES))

    def _enqueue(self, posted: Posted) -> None:
        leg = posted.leg
        if leg.flow.dropped:
            posted.lost = leg.flow.lost()
        leg.told = posted.published.number
        if not leg.blocks:
            posted.ahead = 0 if posted.block else len(posted.published.body)
            self._ahead += 1
            self._bytes_ahead += posted.ahead
            self._leases_ahead += posted.block > 0
        self.queue.put(posted)

    def _has_room_for(self, posted: Posted) -> bool:
        """Whether one more can be kept, after older ones gave way."""
        flow, size = posted.leg.flow, len(posted.published.body)
        if posted.leg.blocks:
            return True
        while self._bytes_kept and self._bytes_kept + size > MAX_BYTES_KEPT:
            oldest = next(iter(flow.kept()), None)
            if oldest is None or flow.policy.name != "latest":
                return False
            self._drop_kept(oldest)
        return True

    def _keep(self, posted: Posted) -> None:
        self._bytes_kept += len(posted.published.body)
        self._let_go(posted.leg.flow.keep(posted))

    def _drop_kept(self, posted: Posted) -> None:
        posted.leg.flow.discard(posted)
        self._let_go([posted])

    def _let_go(self, dropped: Iterable[Posted]) -> None:
        for posted in dropped:
            self._bytes_kept -= len(posted.published.body)
            self._not_waited(posted.published)
            self._end_lease(posted)

    def _discard(self, leg: Leg) -> None:
        for posted in leg.flow.kept():
            self._drop_kept(posted)

    def _not_waited(self, published: Published) -> None:
        if published.waited is not None:
            published.waited.discard(self)

    def _end_lease(self, posted: Posted) -> None:
        if posted.block:
            self._ring.end(posted.block, self.link)

    def give_up(self) -> None:
        """Drop what is kept."""
        for leg in self.legs.values():
            self._discard(leg)

    def give_block(self) -> bool:
        """Drop the oldest kept message that lies in a block; False when there is none."""
        kept = (posted for leg in self.legs.values() if not leg.blocks for posted in leg.flow.kept())
        oldest = min((p for p in kept if p.block), key=lambda p: p.published.sent_ms, default=None)
        if oldest is not None:
            self._drop_kept(oldest)
        return oldest is not None

    def pull(self) -> None:
        """Queue what was kept, as far as it can go now."""
        for leg in self.legs.values():
            if leg.flow.pending:
                self._pull(leg)

    def _pull(self, leg: Leg) -> None:
        while (posted := leg.flow.peek()) is not None and (leg.blocks or self._takes(posted)):
            leg.flow.take()
            self._bytes_kept -= len(posted.published.body)
            self._enqueue(posted)

    def acknowledged(self, received: int, upto: int, others: Iterable[int]) -> bool:
        """The reader tells what it has and what it is done with; True when that is news.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        done = self.queue.acknowledged(received, upto, others)
        flow, count = None, 0
        for posted in done:
            if posted.leg.flow is flow:
                count += 1
            else:
                if flow is not None:
                    flow.acknowledge(count)
                flow, count = posted.leg.flow, 1
            if posted.ahead >= 0:
                self._ahead -= 1
                self._bytes_ahead -= posted.ahead
                self._leases_ahead -= posted.block > 0
            if posted.published.waited is not None:
                self._not_waited(posted.published)
            if posted.block:
                self._end_lease(posted)
        if flow is not None:
            flow.acknowledge(count)
        if done:
            self._done_after.add_ms(done[-1].published.sent_ms)
            self.pull()
        return bool(done)

    # --- sending: without the lock -------------------------------------------------------------------

    def is_due(self, now: float, pause: float) -> bool:
        """True when what waits should not wait for more: always, but on a way where each sending costs.

        To be asked after each message of a burst.
        """
        waiting = len(self.queue)
        if waiting >= self._gathers or self.queue.lent >= LENT or self.kind != "unix":
            return True
        if waiting <= 1:
            self._waits_since = now
        return now - self._waits_since >= pause

    def post_alone(self, leg: Leg, published: Published, way: Way, now: float) -> Bundle:
        """As `post` of one whose place is reserved and that lies in no block, to be sent at once.

        ``sending`` is held, too, the way is ready, and nothing waits.
        """
        leg.last = leg.told = published.number
        self.liveness.spoke(now)
        self._meter.add(now, 1, len(published.body))
        lost = leg.flow.lost() if leg.flow.dropped else 0
        return self.queue.alone(Posted(leg, published, 0, -1, lost), way)

    def flush(self) -> None:
        """Send what waits, as far as the way takes it; any thread."""
        while self.waiting and self.way is not None and self.way.ready:
            if not self.sending.acquire(blocking=False):
                return  # whoever sends now looks again when it has let go
            try:
                sent = self._send(self.queue.next)
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
        bundle, fd, contents = made
        try:
            return way.send(bundle, fd, contents)
        finally:
            now = time.monotonic()
            if contents:
                self._meter.add(now, len(contents), sum([len(each.body) for each in contents]))
            if fd >= 0:
                os.close(fd)

    def _sign(self, way: Way) -> Batch:
        """An empty bundle, or whatever there is; with the lock."""
        return self.queue.next(way) or self.queue.sign(way, list(self._lasts()))

    def _lasts(self) -> Iterator[Last]:
        """What was dropped at the end of topics, behind everything that still goes."""
        for leg in list(self.legs.values())[:MAX_ITEMS]:
            if leg.last != leg.told and not leg.flow.pending:
                leg.told = leg.last
                yield Last(leg.topic, leg.last, leg.flow.lost())

    # --- for people ----------------------------------------------------------------------------------

    def statistics(self, now: float) -> dict[str, Any]:
        """What it is, what waits and what was dropped; with the lock."""
        return {
            "link": self.link, "agent": self.owner.agent, "transport": self.kind,
            "state": self.liveness.state(now), "waiting": self.waiting,
            "unacknowledged": self.queue.unacknowledged, "sent": self._meter.messages,
            **told(self._meter, self._done_after.ages, now),
            "topics": {
                leg.topic: {
                    "policy": leg.flow.policy.name, "bound": leg.flow.policy.bound, "last": leg.last,
                    "delivered": leg.delivered, "outstanding": leg.flow.outstanding,
                    "kept": leg.flow.pending, "dropped": leg.flow.dropped,
                }
                for leg in self.legs.values()
            },
        }  # fmt: skip
