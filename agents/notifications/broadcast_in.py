"""What comes out of the SUB socket: judged, and handed on to the shares of its publisher.

What comes together is taken together, in bursts of at most `BURST` messages. A notification of a known
series, whose first one was judged the general way, is judged as every other, in the same order and by the
same memory: signature, freshness, replay window; only then it is decoded. Those of one topic that are
numbered without a hole are handed on together::

    message                                      what happens
    of a known series                            decoded, and added to what was before it
    anything else, or whatever is unusual        the general way, which says what is wrong
    as many of one topic as its smallest inbox   handed on, callbacks are called
    takes
    nothing left, or `BURST`                     handed on, callbacks are called

Callbacks that are quick are called here, aside of the loop.

After `hearing_doubts` notifications of known series in succession, messages are received in a quicker way,
which may take several that have too few parts for one. What is behind them is not lost.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import zmq

from ...protocol import limits
from ...protocol.codec import FRESH_MS, Message
from ...protocol.errors import ProtocolError, ReplayedMessage, SignatureError, StaleMessage
from ...protocol.frames import PZC01, Kind
from ...protocol.message import Facts
from ...protocol.notification import Notification
from ...protocol.peer import Peer
from ...protocol.shown import printable
from ...protocol.window import ReplayWindow, SeenSignatures, SenderKey
from ...transport.counters import Counters
from ...transport.loop import Loop
from ...transport.receiving import PARTS, message_behind, receive_message
from ...transport.wire import Protocol
from .callbacks import start, start_here
from .declared import withdrawn
from .filters import ANY, MARK_TOPIC
from .heartbeat import BEAT_TOPIC, lasts_of
from .links.arrivals import LeftOut, Together, alone, arrival_of
from .shares import Heard, hand_on, room
from .subscription import Subscription

logger = logging.getLogger("pzc.subscriber")

BURST = 256
"""Most messages that are taken before the loop looks at other sockets."""


@dataclass
class Source:
    """One publisher agent as this process hears it."""

    peer: Peer
    shares: dict[str, list[Heard]] = field(default_factory=lambda: defaultdict(list))
    complained: set[str] = field(default_factory=set)

    def everyone(self) -> list[Heard]:
        """All its shares."""
        return [share for shares in self.shares.values() for share in shares]

    def wanting(self, topic: str) -> list[Heard]:
        """Those that get a topic."""
        return [*self.shares.get(topic, ()), *self.shares.get(ANY, ())]


class _Series(NamedTuple):
    """One topic of one publisher, in one serializer.

    Attributes:
        facts: that the codec has of it, always the same ones while they are kept here.
        source: the publisher.
        known_as: by the replay window; None when nothing is signed.
        plain: who gets its contents decoded.
        raw: who gets its frames.
        most: how many their inboxes take at once.
        epoch: of the publisher.
    """

    facts: Facts
    source: Source
    known_as: SenderKey | None
    plain: list[Heard]
    raw: list[Heard]
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
        self._known: dict[int, _Series] = {}  # by the id of their facts
        self._doubts = limits.current.hearing_doubts
        self._entered: list[tuple[list[Heard], Together | LeftOut]] = []
        self._run: tuple[list[Heard], Together] | None = None  # the last of them, when it may go on
        self._next: int = 0  # number that goes on with it
        self._heard = 0
        self._full = False
        self._ready: list[Subscription] = []

    def forget(self) -> None:
        """Publishers, or what is wanted of them, have changed."""
        self._known = {}

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
                frames = socket.recv_multipart(zmq.NOBLOCK) if self._doubts else receive_message(socket)
            except zmq.Again:
                taken = 0
                break
            taken += 1
            if self._hear(frames):
                self._doubts = max(0, self._doubts - 1)
            else:
                self._judge(frames)
                self._doubts = limits.current.hearing_doubts
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

    def _add(self, wanted: list[Heard], notification: Notification, most: int) -> None:
        arrival, run = arrival_of(notification), self._run
        if run is None or run[0] is not wanted or arrival.sequence != self._next:
            run = self._run = wanted, alone(arrival)
            self._entered.append(run)
        else:
            run[1].add(arrival)
        self._next = arrival.sequence + 1
        self._full = len(run[1].arrivals) >= most

    def _hand_on(self) -> None:
        entered, self._entered, self._run, self._full = self._entered, [], None, False
        if self._heard:
            self._counters.add("notifications", self._heard)
            self._heard = 0
        for wanted, come in entered:
            self._ready += hand_on(wanted, come)
            self._count_lost(wanted)
            if old := min([share.old for share in wanted]):
                self._counters.add("notifications_repeated", old)

    def _count_lost(self, wanted: list[Heard]) -> None:
        if lost := max([share.lost for share in wanted], default=0):
            self._counters.add("notifications_lost", lost)

    # --- known series --------------------------------------------------------------------------------

    def _hear(self, frames: list[bytes]) -> bool:
        """Take a notification of a known series; False when it is to be judged, and nothing was done."""
        if len(frames) != PARTS or not self._known or not frames[0].startswith(b"PZC01"):
            return False
        try:
            message = self._codec.open(frames, kind=Kind.NOTIFICATION)
        except ProtocolError:
            return False
        series, stamp, now = self._known.get(id(message.facts)), message.stamp, time.time()
        if series is None or stamp is None or stamp.epoch != series.epoch or not message.sequence:
            return False
        if series.known_as is not None:
            if not -FRESH_MS <= int(now * 1000) + series.source.peer.offset_ms - stamp.ms <= FRESH_MS:
                return False
            try:
                self._window.admit_of(series.known_as, stamp.ms, stamp.counter)
            except ReplayedMessage:
                return False
        try:
            self._take(series, message, frames, now)
        except ProtocolError as exc:
            self._refused(exc)
        return True

    def _series_of(self, source: Source, envelope: Message) -> _Series:
        """Who gets a notification; known from now on, if it can be one of many."""
        wanted = source.wanting(envelope.topic)
        plain = [share for share in wanted if not share.subscription.raw]
        raw = [share for share in wanted if share.subscription.raw]
        facts, signer = envelope.facts, envelope.signer
        known_as = None if signer is None else (signer.key_id, envelope.sender, envelope.epoch)
        series = _Series(facts, source, known_as, plain, raw, room(wanted), envelope.epoch)
        if envelope.dialect == PZC01 and envelope.sequence:
            if len(self._known) >= limits.current.known_series:
                self._known.clear()
            self._known[id(facts)] = series
        return series

    def _take(self, series: _Series, message: Message, frames: list[bytes], received_at: float) -> None:
        source, plain, raw = series.source, series.plain, series.raw
        self._heard += 1
        if raw:
            notification = _notification(source.peer, message, None, received_at, tuple(frames))
            self._add(raw, notification, series.most)
        if plain:
            try:
                content = message.decode()
            except ProtocolError as exc:
                self._leave_out(source, plain, message.topic, message.sequence, exc)
                raise
            self._add(plain, _notification(source.peer, message, content, received_at), series.most)

    # --- the general way -----------------------------------------------------------------------------

    def _judge(self, parts: list[bytes]) -> None:
        """Take what `receive_message` gave."""
        last = message_behind(parts) if not self._doubts else []
        if last:
            self._accept(parts[:-PARTS])
            if self._hear(last):
                return
        self._accept(last or parts)

    def _accept(self, frames: list[bytes]) -> None:
        try:
            self._open(frames)
        except ProtocolError as exc:
            self._refused(exc)

    def _refused(self, error: ProtocolError) -> None:
        self._counters.add("notifications_refused")
        self._counters.add(f"refused_{type(error).__name__}")
        logger.debug("notification refused: %s", error)

    def _open(self, frames: list[bytes]) -> None:
        received_at = time.time()
        try:
            sender = frames[0].split(b"+", 2)[1].decode()
        except (IndexError, UnicodeDecodeError):
            sender = ""
        source = self._sources.get(sender)
        try:
            envelope = self._protocol.open(
                frames, Kind.NOTIFICATION, offset_ms=source.peer.offset_ms if source else 0,
                window=self._window, seen=self._seen,
            )  # fmt: skip
        except StaleMessage:
            if source is not None:
                self._counters.add("clock_jumps")
                self._ask(source.peer.endpoint)
            raise
        if source is not None and envelope.dialect == PZC01 and envelope.key_id != source.peer.publishing:
            raise SignatureError("signed with another key than this publisher's handshake")
        if source is None or envelope.topic in (MARK_TOPIC, ANY):
            self._counters.add("notifications_unrouted")
        elif envelope.topic == BEAT_TOPIC:
            self._beat(source, envelope)
        else:
            self._take(self._series_of(source, envelope), envelope, frames, received_at)

    def _beat(self, source: Source, envelope: Message) -> None:
        """The publisher tells how far its topics are: behind all that came before."""
        lasts = lasts_of(envelope.decode())
        self._hand_on()
        for last in lasts:
            wanted = source.wanting(last.topic)
            for share in wanted:
                share.tail(last.topic, envelope.epoch, last.number)
            self._count_lost(wanted)
            for share in source.shares.get(last.topic, ()) if last.withdrawn else ():
                share.subscription.report_lost(withdrawn(last.topic))

    def _leave_out(
        self, source: Source, wanted: list[Heard], topic: str, number: int, error: ProtocolError
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
