"""What comes out of the SUB socket: judged, and handed on to the shares of its publisher.

What comes together is taken together, at most `BURST` messages, each of which is judged in the same order:
signature, freshness, replay window; only then it is decoded. What was found out of one topic of a publisher
(who gets it, with which key it has to be signed) is known for those that follow. Those of one topic that are
numbered without a hole are handed on together::

    message                                      what happens
    of a topic that somebody wants               decoded, and added to what was before it
    refused, or that cannot be read              counted; of the latter a gap
    as many of one topic as its smallest inbox   handed on, callbacks are called
    takes, or `TOGETHER` bytes of all
    nothing left, or `BURST`                     handed on, callbacks are called

Callbacks that are quick are called here, aside of the loop.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import zmq

from ...protocol.codec import FRESH_MS, Message, stale
from ...protocol.errors import ProtocolError, SignatureError
from ...protocol.frames import Kind
from ...protocol.memo import Memo
from ...protocol.message import Facts
from ...protocol.shown import printable
from ...protocol.window import ReplayWindow, SeenSignatures, SenderKey
from ...transport.counters import Counters
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.wire import Protocol
from ..notification import Notification
from .callbacks import start, start_here
from .declared import withdrawn
from .filters import ANY, MARK_TOPIC
from .heartbeat import BEAT_TOPIC, lasts_of
from .links.arrivals import arrival_of
from .links.together import LeftOut, Together, alone
from .shares import BroadcastShare, hand_on, room
from .subscription import Subscription

logger = logging.getLogger("pzc.subscriber")

BURST = 256
"""Most messages that are taken before the loop looks at other sockets."""

TOGETHER = 8 << 20
"""Bytes after which they are handed on: far fewer than an inbox takes, so that quick callbacks get all."""

_KNOWN_SERIES = 4096  # topics, each of one publisher in one serializer, that are remembered


@dataclass
class Source:
    """One publisher agent as this process hears it."""

    peer: Peer
    shares: dict[str, list[BroadcastShare]] = field(default_factory=lambda: defaultdict(list))
    complained: set[str] = field(default_factory=set)

    def everyone(self) -> list[BroadcastShare]:
        """All its shares."""
        return [share for shares in self.shares.values() for share in shares]

    def wanting(self, topic: str) -> list[BroadcastShare]:
        """Those that get a topic."""
        return [*self.shares.get(topic, ()), *self.shares.get(ANY, ())]


class _Route(NamedTuple):
    """Where one topic of one publisher goes, in one serializer.

    Attributes:
        take: the method that takes a message; called with this, it, its frames, and when it came.
        facts: that the codec has of it, always the same ones while they are kept here.
        source: the publisher; None for one that nobody has subscribed to.
        known_as: by the replay window; None when it has no stamp that is signed.
        plain: who gets its contents decoded.
        raw: who gets its frames.
        most: how many their inboxes take at once.
        epoch: of the publisher.
    """

    take: Callable[[BroadcastIn, _Route, Message, list[bytes], float], None]
    facts: Facts
    source: Source | None
    known_as: SenderKey | None
    plain: list[BroadcastShare]
    raw: list[BroadcastShare]
    most: int
    epoch: int


class BroadcastIn:
    """Judges and hands on; the receiver's thread.

    Args:
        loop: to step aside of.
        protocol: checks and decodes.
        counters: where everything is counted.
        sources: the publishers, by agent id.
        ask: called with the REP endpoint of a publisher whose clock seems to have jumped.
    """

    def __init__(
        self, loop: Loop, protocol: Protocol, counters: Counters, sources: Mapping[str, Source],
        ask: Callable[[str], object],
    ) -> None:  # fmt: skip
        self._loop = loop
        self._protocol = protocol
        self._codec = protocol.codec
        self._counters = counters
        self._sources = sources
        self._ask = ask
        self._window = ReplayWindow()
        self._seen = SeenSignatures()
        self._known: Memo[int, _Route] = Memo()  # by the id of their facts
        self._entered: list[tuple[list[BroadcastShare], Together | LeftOut]] = []
        self._run: tuple[list[BroadcastShare], Together] | None = None  # the last of them, when it may go on
        self._next: int = 0  # number that goes on with it
        self._heard = self._bytes = 0
        self._full = False
        self._ready: list[Subscription] = []

    def forget(self) -> None:
        """Publishers, or what is wanted of them, have changed."""
        self._known.clear()

    def on_readable(self, socket: zmq.Socket[bytes]) -> bool:
        """Take what has come; True when the socket was seen to have nothing more."""
        left = BURST
        while left > 0:
            taken = self._receive(socket, left)
            if not self._call():
                return False  # another thread receives
            if not taken:
                return True
            left -= taken
        return False

    def take(self, socket: zmq.Socket[bytes]) -> None:
        """Take one message, if there is one."""
        self._receive(socket, 1)
        ready, self._ready = self._ready, []
        start(ready)

    def _receive(self, socket: zmq.Socket[bytes], most: int) -> int:
        """Take messages until callbacks are to be called; how many, or 0 when nothing is left."""
        taken = 0
        while taken < most and not self._full:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                taken = 0
                break
            taken += 1
            self._accept(frames)
        self._hand_on()
        return taken

    def _call(self) -> bool:
        """Call for what has come; False when another thread is the receiver's by then."""
        ready, self._ready = self._ready, []
        if not any(each.is_quick for each in ready):
            start(ready)
            return True
        self._loop.step_aside()
        try:
            start_here(ready)
        finally:
            leads = self._loop.step_back()
        return leads

    # --- what is to be handed on ---------------------------------------------------------------------

    def _add(self, wanted: list[BroadcastShare], notification: Notification, most: int) -> None:
        arrival, run = arrival_of(notification), self._run
        if run is None or run[0] is not wanted or arrival.sequence != self._next:
            run = self._run = wanted, alone(arrival)
            self._entered.append(run)
        else:
            run[1].add(arrival)
        self._next = arrival.sequence + 1
        self._bytes += arrival.size
        self._full = len(run[1].arrivals) >= most or self._bytes >= TOGETHER

    def _hand_on(self) -> None:
        entered, self._entered, self._run, self._full = self._entered, [], None, False
        self._bytes = 0
        if self._heard:
            self._counters.add("notifications", self._heard)
            self._heard = 0
        for wanted, come in entered:
            self._ready += hand_on(wanted, come)
            self._count_lost(wanted)
            if old := min([share.old for share in wanted]):
                self._counters.add("notifications_repeated", old)

    def _count_lost(self, wanted: list[BroadcastShare]) -> None:
        if lost := max([share.lost for share in wanted], default=0):
            self._counters.add("notifications_lost", lost)

    # --- judging -------------------------------------------------------------------------------------

    def _accept(self, frames: list[bytes]) -> None:
        """Judge and take a message."""
        try:
            message, now = self._codec.open(frames, kind=Kind.NOTIFICATION, seen=self._seen), time.time()
            route, stamp = self._known.get(id(message.facts)), message.stamp
            if route is None or (stamp is not None and stamp.epoch != route.epoch):
                route = self._route_of(message)
            if route.known_as is not None and stamp is not None:
                late = int(now * 1000) + (route.source.peer.offset_ms if route.source else 0) - stamp.ms
                if not -FRESH_MS <= late <= FRESH_MS:
                    self._ask_for_time(route)
                    raise stale(late)
                self._window.admit(route.known_as, stamp.ms, stamp.counter)
            route.take(self, route, message, frames, now)
        except ProtocolError as exc:
            self._counters.add("notifications_refused")
            self._counters.add(f"refused_{type(exc).__name__}")
            logger.debug("notification refused: %s", exc)

    def _ask_for_time(self, route: _Route) -> None:
        if route.source is not None:
            self._counters.add("clock_jumps")
            self._ask(route.source.peer.endpoint)

    def _route_of(self, message: Message) -> _Route:
        """Where a message goes, and those that follow it.

        Raises:
            SignatureError: when another key signed it than that of the publisher's handshake.
        """
        facts, source, signer = message.facts, self._sources.get(message.sender), message.signer
        if source is not None and message.stamp is not None and message.key_id != source.peer.publishing:
            raise SignatureError("signed with another key than this publisher's handshake")
        wanted, take = [] if source is None else source.wanting(facts.topic), BroadcastIn._take
        if source is None or facts.topic in (MARK_TOPIC, ANY):
            take = BroadcastIn._leave
        elif facts.topic == BEAT_TOPIC:
            take = BroadcastIn._beat
        known_as = None
        if signer is not None and message.stamp is not None:
            known_as = signer.key_id, facts.sender, message.epoch
        route = _Route(
            take, facts, source, known_as,
            [share for share in wanted if not share.subscription.raw],
            [share for share in wanted if share.subscription.raw], room(wanted), message.epoch,
        )  # fmt: skip
        if source is not None and message.stamp is not None:
            self._known.keep(id(facts), route, _KNOWN_SERIES)
        return route

    def _leave(self, route: _Route, message: Message, frames: list[bytes], now: float) -> None:
        self._counters.add("notifications_unrouted")

    def _take(self, route: _Route, message: Message, frames: list[bytes], now: float) -> None:
        source, plain, raw = cast(Source, route.source), route.plain, route.raw
        self._heard += 1
        if raw:
            self._add(raw, _notification(source.peer, message, None, now, tuple(frames)), route.most)
        if plain:
            try:
                content = message.decode()
            except ProtocolError as exc:
                self._leave_out(source, plain, message.topic, message.sequence, exc)
                raise
            self._add(plain, _notification(source.peer, message, content, now), route.most)

    def _beat(self, route: _Route, message: Message, frames: list[bytes], now: float) -> None:
        """The publisher tells how far its topics are: behind all that came before."""
        source, lasts = cast(Source, route.source), lasts_of(message.decode())
        self._hand_on()
        for last in lasts:
            wanted = source.wanting(last.topic)
            for share in wanted:
                share.tail(last.topic, message.epoch, last.number)
            self._count_lost(wanted)
            for share in source.shares.get(last.topic, ()) if last.withdrawn else ():
                share.subscription.report_lost(withdrawn(last.topic))

    def _leave_out(
        self, source: Source, wanted: list[BroadcastShare], topic: str, number: int, error: ProtocolError
    ) -> None:
        """It was verified and cannot be used."""
        self._run = None
        self._entered.append((wanted, LeftOut(topic, number, 1)))
        if topic not in source.complained:
            source.complained.add(topic)
            logger.warning("%s of %s is lost here: %s", printable(topic), source.peer.endpoint, error)


def _notification(
    peer: Peer, envelope: Message, content: Any, received_at: float, frames: tuple[bytes, ...] = ()
) -> Notification:
    facts, stamp = envelope.facts, envelope.stamp  # the message's own words for them are calls
    epoch, sent_at = (0, received_at) if stamp is None else (stamp.epoch, stamp.ms / 1000)
    return Notification(
        facts.sender, peer.name, facts.topic, envelope.key, envelope.sequence, epoch, sent_at, received_at,
        content, facts.identity.key_id, frames, size=len(envelope.content),
        type=peer.types.get(facts.topic, ""), partition=peer.partition,
    )  # fmt: skip
