"""Intake: verified messages become arrivals, and arrivals reach the subscriptions that want them.

A content up to `DECODE_LATER` bytes is decoded in the thread that receives, and so are arrays of any size of
a flow with a window; a larger one by whoever takes it first. One that cannot be decoded is counted, and a gap
for its subscriptions.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice

from ....delivery.cursor import Gap
from ....protocol import buffers, serializers
from ....protocol.contents import error_of
from ....protocol.errors import ProtocolError, RemoteProtocolError, SerializerRefused
from ....protocol.link_messages import Body, Ended, Loss, Notify, Row, Run
from ....protocol.serializers import FRAMES
from ....protocol.shown import printable
from ....shm.views import INTRODUCED, Mapped
from ....transport.counters import Counters
from ....transport.descriptors import Starved
from ....transport.endpoints import DECODE_LATER
from ....transport.peer import Peer
from ....transport.wire import Protocol
from ...notification import Notification
from ..callbacks import start, start_here
from ..shares import hand_on, room
from ..subscription import Subscription
from .arrivals import LAGS, Arrival, HeldArrivals, Make
from .reader_transports import Received
from .reception import Call, Errand
from .roster import LinkShare, Roster, Wanting
from .together import LeftOut, Together

logger = logging.getLogger("pzc.links")

OnNews = Callable[["Intake", bool], object]

Decoded = dict[int, tuple[Notification | None, Make | None]]

_UNKNOWN: tuple[None, None] = (None, None)

Handed = tuple[tuple[LinkShare, ...], Together | LeftOut | Loss]
"""What came, and who wants it."""


class Intake:
    """What has arrived from one publisher since it numbers from 1.

    Args:
        protocol: decodes.
        peer: the publisher.
        counters: where everything is counted.
        on_news: as that of `HeldArrivals`, with this intake before it.
        call: has some thread call a function soon; may be called by finalizers.
        roster: the subscriptions.

    Attributes:
        peer: the publisher; its handshake may be renewed.
        arrivals: what is not done.
    """

    def __init__(
        self,
        protocol: Protocol,
        peer: Peer,
        counters: Counters,
        on_news: OnNews,
        call: Callable[[Callable[[], object]], object],
        roster: Roster,
    ) -> None:
        self.peer = peer
        self._roster = roster
        self.arrivals = HeldArrivals(partial(on_news, self), lambda: call(self.arrivals.settle))
        self._protocol = protocol
        self._counters = counters
        self._counted = counters.tally()  # by one thread at a time
        self._mapped = Mapped()
        self._complained: set[str] = set()
        self._accepted: set[str] = set()
        self._trusted = protocol.codec.trusted

    def map_anew(self) -> None:
        """Another connection: descriptors come anew, views of before stay true."""
        self._mapped.close()
        self._mapped = Mapped()

    def close(self) -> None:
        """Drop the mappings; views stay true."""
        self._mapped.close()
        self._counters.fold(self._counted)

    def flow(self) -> None:
        """Subscriptions came or went: hand on what had to wait for that."""

    def take(self, received: Received) -> tuple[Call | None, list[Errand]]:
        """Enter a message's notifications; what is to be called, and how others are handed on then.

        Raises:
            RemoteProtocolError: when notifications are missing before it.
            Starved: when no descriptor is left for a block.
        """
        notify, receipts, roster = received.notify, self.arrivals.receipts, self._roster
        if received.fd >= 0:
            self._map(notify.lent, received.fd)
        first, runs, before = notify.first, notify.runs, receipts.received
        if notify.hurry:
            self.arrivals.hurry = first + sum([len(run.rows) for run in runs]) - 1
        ready: list[Subscription] = []
        errands: list[Errand] = []
        if notify.about:
            self.peer.learn(notify.about)
        entered = _told(notify.losses, roster) if notify.losses else []
        poured = self._gathered(notify, received.key_id) if roster.sinks else None
        shared: defaultdict[str, Decoded] = defaultdict(dict)  # what several runs of one topic have alike
        for run in runs:
            if poured is None:
                wanting = roster.known.get(tuple(run.interests)) or roster.wanting(run.interests)
                known = shared[run.topic] if len(runs) > 1 else None
                self._enter(first, run, received.key_id, wanting, entered, known)
            first += len(run.rows)
        new = receipts.received - before
        self._counted["notifications"] += new
        if first - notify.first > new:
            self._counters.add("notifications_repeated", first - notify.first - new)
        for wanted, come in entered:
            if errands or (isinstance(come, Together) and 1 < len(come.arrivals) > room(wanted)):
                errands.extend(partial(_hand_on, *part) for part in _parts(wanted, come))
            else:
                ready += hand_on(wanted, come)
        if self.arrivals.weight >= LAGS:
            self.arrivals.lighten()
        if poured is not None:
            errands.append(poured)
        if notify.ended:
            errands.append(partial(self.end, notify.ended))
        if notify.dropped and len(self._mapped) > INTRODUCED:  # those that are to be dropped hold up others
            self._drop(self._mapped, notify.dropped)
        elif notify.dropped:  # at last, because to unmap a large one takes milliseconds
            errands.append(partial(partial, self._drop, self._mapped, notify.dropped))
        return partial(start_here, ready) if ready else None, errands

    @staticmethod
    def _drop(mapped: Mapped, blocks: list[int]) -> None:
        for block in blocks:
            mapped.drop(block)

    def _map(self, block: int, fd: int) -> None:
        try:
            self._mapped.add(block, fd)
        except (ValueError, OSError) as exc:
            self._counters.add("blocks_refused")
            text = f"a block of {self.peer.endpoint} cannot be mapped here: {exc}"
            if isinstance(exc, OSError) and exc.errno in (errno.EMFILE, errno.ENFILE):
                raise Starved(text) from exc  # a way without blocks will do
            logger.warning("%s", text)  # its contents are lost here, and counted when they come

    def _gathered(self, notify: Notify, key_id: str) -> Errand | None:
        """Enter what all goes to one sink, and how it gets there; None when it goes to inboxes."""

    def _enter(
        self,
        first: int,
        run: Run,
        key_id: str,
        wanting: Wanting,
        entered: list[Handed],
        decoded: Decoded | None,
    ) -> None:
        """Enter notifications: those in succession together, losses apart, and who wants them.

        ``decoded``: what other runs of the message have alike; all, when it was published in this process.
        """
        arrivals, now = self.arrivals, time.time()
        wanted, flow, topic, rows = wanting.shares, wanting.flow, run.topic, run.rows
        repeated = arrivals.entered(first, len(rows), flow)
        together, epoch, readers = None, self.peer.epoch, len(wanted)
        for number, row in enumerate(rows[repeated:] if repeated else rows, first + repeated):
            block = row.block > 0
            made, make = decoded.get(row.number, _UNKNOWN) if decoded else _UNKNOWN
            try:
                if made is make:
                    body = row.body
                    if block and (flow.half is not None or arrivals.lend(number)):
                        body = self._body(number, topic, row)
                    elif block:
                        block, body = False, self._copy(number, topic, row)
                    if len(body) <= DECODE_LATER or (
                        flow.half is not None and row.serializer in FRAMES and buffers.is_light(body)
                    ):
                        made = self._make(topic, row, body, key_id, now)
                    else:
                        make = partial(self._make, topic, row, body, key_id, now)
                    if decoded is not None and not block:
                        make = None if make is None else _once(make)
                        decoded[row.number] = made, make
            except ProtocolError:  # counted there, and a loss here
                pass
            arrival = Arrival(
                arrivals, number, topic, row.key, epoch, row.number, block, made, readers, make,
                None, threading.Lock() if block else None, row.size or len(row.body), row.sent_ms,
            )  # fmt: skip
            if made is None and make is None:
                entered.append((wanted, LeftOut(topic, row.number, 1)))
                together = None
                arrivals.unwanted(arrival)
            elif not wanted:
                arrivals.unwanted(arrival)
            elif together is None:
                together = Together(topic, [arrival], arrival.size)
                entered.append((wanted, together))
            else:
                together.arrivals.append(arrival)
                together.size += arrival.size
        if together is not None and flow.half is None:
            arrivals.weight += together.size

    def take_local(self, notify: Notify, notifications: Sequence[Notification]) -> Call:
        """Enter what was published in this process; how it is handed on.

        Raises:
            RemoteProtocolError: when notifications are missing before it.
        """
        entered, first, following = _told(notify.losses, self._roster), notify.first, iter(notifications)
        for run in notify.runs:
            known: Decoded = {each.sequence: (each, None) for each in islice(following, len(run.rows))}
            self._enter(first, run, "", self._roster.wanting(run.interests), entered, known)
            first += len(run.rows)
        if self.arrivals.weight >= LAGS:
            self.arrivals.lighten()
        return partial(start, [each for come in entered for each in hand_on(*come)])

    def end(self, ended: Iterable[Ended]) -> Call:
        """Interests get nothing more; what is to be called then."""
        found = [(each, share) for each in ended for share in self._roster.wanting([each.interest]).shares]
        return partial(_end, found)

    def _body(self, number: int, topic: str, row: Row) -> Body:
        self.arrivals.lease(number)
        ended = partial(self.arrivals.view_ended, number)
        try:
            return self._mapped.view(row.block, row.size, ended)
        except ValueError as exc:
            ended()
            raise self._complain(topic, RemoteProtocolError(str(exc))) from None

    def _copy(self, number: int, topic: str, row: Row) -> Body:
        """The content of a row, copied out of its block."""
        try:
            body = bytes(self._mapped.view(row.block, row.size, bool))
        except ValueError as exc:
            raise self._complain(topic, RemoteProtocolError(str(exc))) from None
        self.arrivals.copied(number)
        return body

    def _make(
        self,
        topic: str,
        row: Row,
        body: Body,
        key_id: str,
        received_at: float,
        trusts: bool = False,
        initial: bool = False,
    ) -> Notification:
        name, size, peer = row.serializer, len(body), self.peer
        try:
            if name not in self._accepted and not self._accepts(name):
                raise SerializerRefused(f"serializer {name[:40]!r} is not accepted here")
            raw = bytes(body) if size <= DECODE_LATER else body
            content = serializers.decode(name, raw, trusted=trusts or key_id in self._trusted)
        except ProtocolError as exc:
            self._complain(topic, exc)
            raise
        return Notification(
            peer.agent_id, peer.name, topic, row.key, row.number, peer.epoch, row.sent_ms / 1000, received_at,
            content, key_id, (), initial, size, None, peer.types.get(topic, ""), peer.partition,
        )  # fmt: skip

    def retained(self, run: Run, trusts: bool) -> list[Notification | Gap]:
        """What the publisher retains of a topic; a gap for each that cannot be read here.

        Args:
            run: that, without positions.
            trusts: it is by this process.
        """
        key_id, now = self.peer.publishing, time.time()
        found: list[Notification | Gap] = []
        for row in run.rows:
            try:
                found.append(self._make(run.topic, row, row.body, key_id, now, trusts, initial=True))
            except ProtocolError:
                found.append(Gap(self.peer.epoch, row.number, row.number))
        return found

    def _accepts(self, name: str) -> bool:
        accepted = self._protocol.codec.accept_serializers
        known = name in accepted or serializers.family(name) in accepted
        if known:  # others come in any number
            self._accepted.add(name)
        return known

    def _complain(self, topic: str, error: ProtocolError) -> ProtocolError:
        self._counters.add("notifications_refused")
        self._counters.add(f"refused_{type(error).__name__}")
        if topic not in self._complained:
            self._complained.add(topic)
            logger.warning("%s of %s is lost here: %s", printable(topic), self.peer.endpoint, error)
        return error


def _once(make: Make) -> Make:
    """Makes one thing for several."""
    lock, known = threading.Lock(), cache(make)

    def made() -> Notification:
        with lock:
            return known()

    return made


def _told(losses: list[Loss], roster: Roster) -> list[Handed]:
    """The sums of losses, and whose they are."""
    return [(share, loss) for loss in losses if (share := roster.wanting([loss.interest]).shares)]


def _parts(wanted: tuple[LinkShare, ...], come: Together | LeftOut | Loss) -> Iterator[Handed]:
    """Arrivals in parts that every inbox takes, so that quick callbacks get all of them."""
    if not isinstance(come, Together):
        yield wanted, come
        return
    arrivals, most = come.arrivals, room(wanted)
    for first in range(0, len(arrivals), most):
        part = arrivals[first : first + most]
        yield wanted, Together(come.topic, part, sum([each.size for each in part]))


def _hand_on(wanted: tuple[LinkShare, ...], part: Together | LeftOut | Loss) -> Call:
    return partial(start_here, hand_on(wanted, part))


def _end(found: Iterable[tuple[Ended, LinkShare]]) -> None:
    for ended, share in found:
        if ended.code:
            share.refuse(error_of(ended.code, ended.reason))
        else:
            share.subscription.report_lost(ended.reason, ends=not ended.stays)
