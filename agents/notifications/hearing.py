"""Hearing: what comes out of the SUB socket, judged, and put into the inboxes of its subscriptions.

What comes together is taken together, in bursts of at most `BURST` messages. A notification of a known
series, whose first one was judged the general way, is judged as every other, in the same order and by the
same memory: signature, freshness, replay window; only then it is decoded. Those of one topic that are
numbered without a hole are entered as one run::

    message                                      what happens
    next of the run                              decoded, added to the run
    of a known series, but not next              the run is entered, a new one begins
    anything else, or whatever is unusual        the run is entered; the general way, which says what is wrong
    run as long as its smallest inbox            the run is entered, callbacks are called
    nothing left, or `BURST`                     the run is entered, callbacks are called

Callbacks that are quick are called here, aside of the loop. When one was slow after all, another thread
receives by then, and for `APART` seconds none is called here.

After `hearing_doubts` notifications of known series in succession, messages are received in a quicker way,
which may take several that have too few parts for one. What is behind them is not lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import zmq

from ...delivery.cursor import Gap
from ...protocol import limits, serializers
from ...protocol.batch import Batch, Opened
from ...protocol.codec import FRESH_MS, Message
from ...protocol.errors import ProtocolError, ReplayedMessage, SignatureError, StaleMessage
from ...protocol.frames import PZC01, Kind
from ...protocol.peer import Peer
from ...protocol.shown import printable
from ...protocol.window import ReplayWindow, SeenSignatures, SenderKey
from ...transport.counters import Counters
from ...transport.loop import Loop
from ...transport.receiving import PARTS, message_behind, receive_message
from ...transport.wire import Protocol
from .beats import BEAT_TOPIC, lasts_of
from .callbacks import runners
from .declared import withdrawn
from .filters import ANY, MARK_TOPIC
from .sources import Source
from .subscription import Notification, Subscription

logger = logging.getLogger("pzc.subscriber")

BURST = 256
"""Most messages that are taken before the loop looks at other sockets."""

APART = 1.0
"""Seconds without a callback in the receiver's thread after one has held it up."""


@dataclass(slots=True, eq=False)
class _Heard:
    """A series: one topic of one epoch of a publisher, in one serializer.

    Attributes:
        source: the publisher.
        topic: of the notifications.
        epoch: of the publisher.
        known_as: by the replay window; None when nothing is signed.
        wanted: who gets it.
        most: notifications in one run.
    """

    source: Source
    topic: str
    epoch: int
    known_as: SenderKey | None
    wanted: list[Subscription]
    most: int


class Hearing:
    """Judges and hands on; the receiver's thread.

    Args:
        loop: to step aside of.
        protocol: checks and decodes.
        counters: where everything is counted.
        sources: the publishers, by agent id.
        ask: called with the REP endpoint of a publisher whose clock seems to have jumped.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        counters: Counters,
        sources: Mapping[str, Source],
        ask: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._counters = counters
        self._sources = sources
        self._ask = ask
        self._window = ReplayWindow()
        self._seen = SeenSignatures()
        self._known = Batch()
        self._heard: _Heard | None = None
        self._run: list[Notification] = []
        self._next = self._size = 0
        self._ready: list[Subscription] = []
        self._doubts = limits.current.hearing_doubts
        self._apart_until = 0.0

    def forget(self) -> None:
        """Publishers, or what is wanted of them, have changed."""
        self._known = Batch()

    def on_readable(self, socket: zmq.Socket[bytes]) -> bool:
        """Take what has come; True when the socket was seen to have nothing more."""
        left = BURST
        while left > 0:
            taken = self._burst(socket, left)
            if not self._call():
                return False  # another thread receives
            if taken < 0:
                return True
            left -= taken
        return False

    def take(self, socket: zmq.Socket[bytes]) -> None:
        """Take one message, if there is one."""
        self._burst(socket, 1)
        for each in runners(self._ready):
            each.start()
        self._ready = []

    def _burst(self, socket: zmq.Socket[bytes], most: int) -> int:
        """Take messages until callbacks are to be called; how many, or -1 when nothing is left."""
        for taken in range(most):
            try:
                frames = receive_message(socket) if not self._doubts else socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                self._enter_run()
                return -1
            if not self._hear(frames):
                self._enter_run()
                if self._doubts:
                    self._refuse_or(self._accept, frames)
                else:
                    self._judge(frames)
                self._doubts = limits.current.hearing_doubts
                continue
            self._doubts = self._doubts and self._doubts - 1
            if self._heard is not None and len(self._run) >= self._heard.most:
                self._enter_run()
                return taken + 1
        self._enter_run()
        return most

    def _call(self) -> bool:
        """Call for what has come; False when another thread is the receiver's by then."""
        ready, self._ready = self._ready, []
        if not ready:
            return True
        if time.monotonic() < self._apart_until or not any(each.is_quick for each in ready):
            for each in runners(ready):
                each.start()
            return True
        self._loop.step_aside()
        try:
            for each in runners(ready):
                each.start_here()
        finally:
            leads = self._loop.step_back()
            if not leads:
                self._apart_until = time.monotonic() + APART
        return leads

    # --- known series --------------------------------------------------------------------------------

    def _hear(self, frames: list[bytes]) -> bool:
        """Take a notification of a known series; False when it is to be judged, and nothing was done."""
        opened = self._known.open(*frames) if len(frames) == PARTS else None
        if opened is None:
            return False
        series, number, key, _, stamp, body = opened
        heard, now = cast(_Heard, series.about), time.time()
        peer, known_as = heard.source.peer, heard.known_as
        if not number:
            return False
        if known_as is not None:
            if not -FRESH_MS <= int(now * 1000) + peer.offset_ms - stamp.ms <= FRESH_MS:
                return False
            try:
                self._window.admit_of(known_as, stamp.ms, stamp.counter)
            except ReplayedMessage:
                return False
        envelope = series.envelope
        try:
            content = serializers.decode(envelope.serializer, body, trusted=envelope.trusted)
        except ProtocolError:
            self._enter_run()
            self._refuse_or(self._enter, heard.source, _enveloped(opened), frames, now)
            return True
        if heard is not self._heard or number != self._next:
            self._enter_run()
            self._heard = heard
        self._run.append(
            Notification(
                envelope.sender, peer.name, heard.topic, key, number, heard.epoch, stamp.ms / 1000, now,
                content, peer.publishing, (), False, len(body), None,
                peer.types.get(heard.topic, ""), peer.partition,
            )
        )  # fmt: skip
        self._next = number + 1
        self._size += len(body)
        return True

    def _enter_run(self) -> None:
        """Put what was heard into the inboxes of those for whom it is new."""
        run, heard, size = self._run, self._heard, self._size
        if not run or heard is None:
            return
        self._run, self._heard, self._size = [], None, 0
        self._counters.add("notifications", len(run))
        fresh = self._follow(heard.wanted, heard.topic, heard.epoch, run[0].sequence, upto=run[-1].sequence)
        for subscription in fresh:
            if subscription.held:
                for notification in run:
                    subscription.deliver(notification)
            else:
                self._admit(subscription, run, size)
        if len(fresh) < len(heard.wanted):
            self._enter_each(run, heard, [each for each in heard.wanted if each not in fresh], bool(fresh))

    def _enter_each(
        self, run: list[Notification], heard: _Heard, wanted: list[Subscription], got: bool
    ) -> None:
        """As `_enter_run`, one by one; ``got`` when somebody else has got them."""
        for notification in run:
            fresh = self._follow(wanted, heard.topic, heard.epoch, notification.sequence)
            if not (fresh or got):
                self._counters.add("notifications_repeated")
            for subscription in fresh:
                subscription.deliver(notification)

    def _admit(self, subscription: Subscription, run: list[Notification], size: int) -> None:
        ready = subscription.admit(run, size)
        if ready is not None:
            self._ready.append(ready)

    def _learn(
        self, source: Source, envelope: Message, frames: list[bytes], wanted: list[Subscription]
    ) -> None:
        if envelope.dialect != PZC01 or not envelope.sequence or any(each.raw for each in wanted):
            return
        signer = envelope.signer
        known_as = None if signer is None else (signer.key_id, envelope.sender, envelope.epoch)
        bounds = [each.policy.bound for each in wanted if each.policy.lossy]
        heard = _Heard(source, envelope.topic, envelope.epoch, known_as, wanted, min(bounds, default=BURST))
        self._known.learn(frames, envelope, heard)

    # --- the general way -----------------------------------------------------------------------------

    def _judge(self, parts: list[bytes]) -> None:
        """Take what `receive_message` gave."""
        last = message_behind(parts)
        if last:
            self._refuse_or(self._accept, parts[:-PARTS])
            if self._hear(last):
                return
        self._refuse_or(self._accept, last or parts)

    def _refuse_or(self, accept: Callable[..., None], *arguments: Any) -> None:
        try:
            accept(*arguments)
        except ProtocolError as exc:
            self._counters.add("notifications_refused")
            self._counters.add(f"refused_{type(exc).__name__}")
            logger.debug("notification refused: %s", exc)

    def _accept(self, frames: list[bytes]) -> None:
        received_at = time.time()
        try:
            sender = frames[0].split(b"+", 2)[1].decode()
        except (IndexError, UnicodeDecodeError):
            sender = ""
        source = self._sources.get(sender)
        try:
            envelope = self._protocol.open(
                frames,
                Kind.NOTIFICATION,
                offset_ms=source.peer.offset_ms if source else 0,
                window=self._window,
                seen=self._seen,
            )
        except StaleMessage:
            if source is not None:
                self._counters.add("clock_jumps")
                self._ask(source.peer.endpoint)
            raise
        if source is not None and envelope.dialect == PZC01 and envelope.key_id != source.peer.publishing:
            raise SignatureError("signed with another key than this publisher's handshake")
        if source is None or envelope.topic in (MARK_TOPIC, ANY):
            self._counters.add("notifications_unrouted")
            return
        if envelope.topic == BEAT_TOPIC:
            for last in lasts_of(self._protocol.content(envelope)):
                self._follow(source.wanting(last.topic), last.topic, envelope.epoch, last.number, told=True)
                for subscription in source.subscriptions.get(last.topic, ()) if last.withdrawn else ():
                    subscription.report_lost(withdrawn(last.topic))
            return
        self._enter(source, envelope, frames, received_at)

    def _enter(self, source: Source, envelope: Message, frames: list[bytes], received_at: float) -> None:
        self._counters.add("notifications")
        wanted = source.wanting(envelope.topic)
        fresh = self._follow(wanted, envelope.topic, envelope.epoch, envelope.sequence)
        if wanted and not fresh:
            self._counters.add("notifications_repeated")
        if fresh:
            self._deliver(source, envelope, frames, fresh, received_at)
            self._learn(source, envelope, frames, wanted)

    def _follow(
        self,
        wanted: list[Subscription],
        topic: str,
        epoch: int,
        number: int,
        told: bool = False,
        upto: int = 0,
    ) -> list[Subscription]:
        """The subscriptions for which a message is new; what it shows as lost is told to them."""
        fresh: list[Subscription] = []
        lost = 0
        for subscription in wanted:
            new, gap = subscription.observe(topic, epoch, number, told, upto)
            if new:
                fresh.append(subscription)
            lost = max(lost, gap.count if gap else 0)
        if lost:
            self._counters.add("notifications_lost", lost)
        return fresh

    def _deliver(
        self,
        source: Source,
        envelope: Message,
        frames: list[bytes],
        fresh: list[Subscription],
        received_at: float,
    ) -> None:
        raw = [s for s in fresh if s.raw]
        if raw:
            notification = _notification(source.peer, envelope, None, received_at, tuple(frames))
            for subscription in raw:
                subscription.deliver(notification)
        plain = [s for s in fresh if not s.raw]
        if not plain:
            return
        try:
            content = self._protocol.content(envelope)
        except ProtocolError as exc:
            _complain(source, envelope, exc)
            for subscription in plain:
                subscription.report_gap(Gap(envelope.epoch, envelope.sequence, envelope.sequence))
            raise
        notification = _notification(source.peer, envelope, content, received_at)
        for subscription in plain:
            subscription.deliver(notification)


def _complain(source: Source, envelope: Message, error: ProtocolError) -> None:
    if envelope.topic not in source.complained:
        source.complained.add(envelope.topic)
        logger.warning("%s of %s is lost here: %s", printable(envelope.topic), source.peer.endpoint, error)


def _enveloped(opened: Opened) -> Message:
    return replace(
        opened.series.envelope, sequence=opened.sequence, key=opened.key, msgid=opened.msgid,
        stamp=opened.stamp, content=opened.content,
    )  # fmt: skip


def _notification(
    peer: Peer, envelope: Message, content: Any, received_at: float, frames: tuple[bytes, ...] = ()
) -> Notification:
    sent_at = envelope.sent_ms / 1000 if envelope.sent_ms is not None else received_at
    return Notification(
        envelope.sender, peer.name, envelope.topic, envelope.key, envelope.sequence, envelope.epoch,
        sent_at, received_at, content, envelope.key_id, frames, size=len(envelope.content),
        type=peer.types.get(envelope.topic, ""), partition=peer.partition,
    )  # fmt: skip
