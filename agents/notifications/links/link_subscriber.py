"""Link subscriber: the publisher's end of a link that is suspended, and loses all, when its reader is silent.

::

    state      event                              next
    open       transport attached               open: what is ready is sent, and again what was not received
    open       transport lost                     open, alone: some waits or is lost by policy
    open       4 s of silence, or alone for 4 s   suspended: nothing is kept, everything counted; leases end,
                                                  blocks that the reader may see are never written again
    suspended  transport attached                     open: what was lost is told
    suspended  `link_keep` seconds, or another    ended
               link needs the place
    any        unlink, end of the process         ended
    open       ``on_timeout`` of an interest      open: that interest has ended

An interest in all topics is one for each topic, with the same number.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from ....delivery.claims import Claim, Entry, Interest, summary
from ....delivery.meters import Meter
from ....delivery.send_queue import SendQueue
from ....protocol.message import Identity
from ....shm.ring import Ring
from ..filters import ANY
from ..metering import Sampled
from .packing import Batch, Packing
from .published import Published
from .subscriber import Subscriber
from .topics import Wanted
from .transports import Transport

_body_of = attrgetter("body")


class LinkSubscriber(Subscriber):
    """See `Subscriber`.

    Attributes:
        lossy: how many of them have no window.
        everything: those that are in all topics.
        is_late: a wait for it was in vain, so that it is waited for again once it has acknowledged something.
    """

    queue: SendQueue[Published]

    def __init__(
        self, link: str, owner: Identity, lock: threading.RLock, ring: Ring, now: float,
    ) -> None:  # fmt: skip
        queue: SendQueue[Published] = SendQueue(self._flows)
        super().__init__(link, owner, lock, ring, now, queue, Packing(queue, ring))
        self.queue = queue
        self.everything: dict[int, Wanted] = {}
        self.lossy = 0
        self._done_after = Sampled()
        self._meter = Meter()
        self.is_late = False

    # --- interests: with the lock --------------------------------------------------------------------

    def follow(
        self, wanted: Wanted, lasts: dict[str, int], window: Callable[[Wanted, str], int | None]
    ) -> tuple[dict[str, int], int]:
        """See `Subscriber.follow`."""
        self.cease(wanted.number)
        windows = {topic: window(wanted, topic) for topic in lasts}
        claims = [self.begin(wanted, topic, windows[topic]) for topic in lasts]
        if wanted.topic == ANY:
            self.everything[wanted.number] = wanted
        self._keep(wanted, wanted if wanted.topic == ANY else claims[0])
        bound = wanted.policy.bound
        return lasts, min([each or bound for each in windows.values()], default=bound)

    def begin(self, wanted: Wanted, topic: str, window: int | None) -> Interest:
        """The claim of an interest in a topic from now on; ``window`` as that of `Interest`."""
        policy = wanted.policy
        interest = self.queue.want(wanted.number, topic, policy, window, wanted.keys)
        self.queue.name(interest, wanted.who, wanted.type)
        self.lossy += interest.lossy
        return interest

    def _forget(self, wanted: Wanted | Claim) -> None:
        if isinstance(wanted, Interest):
            claims = [wanted] if self.queue.has(wanted) else []
        else:
            self.everything.pop(wanted.number, None)
            claims = [each for each in self.queue.interests if each.number == wanted.number]
        for interest in claims:
            self.lossy -= interest.lossy
            self.queue.forget(interest)
        self._let_go()

    def resize(self, topic: str, window: int) -> None:
        """The windows in a topic are at most this from now on."""
        for interest in self.claims(topic):
            if not interest.lossy:
                interest.window = min(interest.policy.bound, window)

    def claims(self, topic: str) -> list[Interest]:
        """Those in a topic."""
        return self.queue.index.of(topic)

    def waits(self, topic: str) -> bool:
        """See `Subscriber.waits`."""
        return not self.queue.suspended and any(not each.lossy for each in self.claims(topic))

    def attach(self, transport: Transport, received: int) -> None:
        """See `Subscriber.attach`."""
        super().attach(transport, received)
        self.queue.runs_ahead = transport.kind == "unix"
        self.pull()

    def lose_transport(self, transport: Transport, now: float) -> None:
        """See `Subscriber.lose_transport`."""
        super().lose_transport(transport, now)
        self.queue.runs_ahead = self.queue.runs_ahead and self.transport is not None

    def suspend(self, now: float) -> Transport | None:
        """Keep nothing until the reader comes back; returns the transport, to be closed without the lock."""
        transport = self.transport
        if transport is not None:
            self.lose_transport(transport, now)
        self._empty()
        self.takes_blocks = False
        return transport

    def _empty(self) -> None:
        self.is_late = False
        for entry in self.queue.suspend():
            self._free(entry, visible=entry.position > 0)
        self._let_go()
        self.packing.begin()
        self._ring.gone(self.link)  # what the reader may see is never written again

    def end(self, reason: str) -> Transport | None:
        """See `Subscriber.end`."""
        transport = super().end(reason)
        self._empty()
        return transport

    # --- messages: with the lock ---------------------------------------------------------------------

    def post(self, published: Published, claims: tuple[Interest, ...]) -> bool:
        """Place a message that has its number, for its claims; False when nobody there gets it."""
        if not claims:
            return False
        queue, leased = self.queue, published.slot is not None and self.takes_blocks
        takes = queue.put(published, published.number, len(published.body), leased, claims)
        if queue.gone:
            self._let_go()
        return takes

    def _flows(self) -> bool:
        transport = self.transport
        return transport is not None and transport.ready

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
        """See `Subscriber.give_up`."""
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
            self.is_late = False
            self._done_after.add_ms(done[-1].message.sent_ms)
            self.pull()
        return bool(done)

    def _goes(self, batch: Batch) -> Batch:
        """Count what goes."""
        contents = batch[2]
        if contents:
            self._meter.add(time.monotonic(), len(contents), sum(map(len, map(_body_of, contents))))
        return batch

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
                topic: {"last": lasts.get(topic, 0), **summary(self.claims(topic))}
                for topic in self.queue.index.topics
            },
        }  # fmt: skip
