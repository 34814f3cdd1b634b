"""Mailbox: what comes out of one: notifications, with frames or without, and columns for a sink.

::

    a subscription            is done with a message when
    of the usual kind         its callback returned, it was taken, dropped, or cannot be read
    with ``manual_ack``       it was acknowledged, dropped unseen, or cannot be read
    with a sink               `Burst.done` was called

The message is done with when all of them are. Subscriptions of the usual kind share one arrival, which is
decoded once; any other one has its own. Of a message whose rows all go to one sink no arrivals are made: it
waits until the publisher has confirmed all subscriptions, and goes there as columns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import force_setattr

from ....protocol.errors import ProtocolError
from ....protocol.frames import Kind
from ....protocol.link_messages import Body, Notify, Row, Run
from ....protocol.records import Opener
from ....protocol.signing import Suite
from ....transport.counters import Counters
from ....transport.peer import Peer
from ....transport.wire import Protocol
from ...notification import Notification, Receipt
from ..columns import Burst, Sink
from .arrivals import Arrival, HeldArrivals, Make
from .intake import Decoded, Handed, Intake, OnNews
from .reception import Call, Errand
from .roster import LinkShare, Roster, Wanting
from .together import Together

_SEALED = bytes((Suite.AES256_GCM,))


class Manual:
    """What is done with when it was acknowledged; safe from any thread.

    Args:
        arrivals: where it ends.
    """

    def __init__(self, arrivals: HeldArrivals) -> None:
        self.lock = arrivals.lock
        self._arrivals = arrivals

    def receipted(self, make: Make, number: int) -> Notification:
        """A notification with its receipt."""
        notification = make()
        force_setattr(notification, "receipt", Receipt(self, number))
        return notification

    def consumed(self, arrival: Arrival) -> None:
        """The subscription had its notification, which ends the message only when it was not opened."""
        seen = arrival.notification is not None
        arrival.forget()
        if not seen:
            self._arrivals.ended((arrival.number,))

    def acknowledge(self, receipts: Sequence[Receipt], /) -> None:
        """These are done with; those that were before change nothing."""
        with self.lock:
            fresh = list[int]()
            for receipt in receipts:
                if receipt.open:
                    receipt.open = False
                    fresh.append(receipt.number)
        if fresh:
            self._arrivals.ended(fresh)


class _Part(NamedTuple):
    """Rows of one topic that go to a sink.

    Attributes:
        shares: whose sink it is.
        topic: of the rows.
        rows: at least one.
    """

    shares: tuple[LinkShare, ...]
    topic: str
    rows: list[Row]


class MailboxIntake(Intake):
    """What has come out of one mailbox since its publisher numbers from 1.

    Args:
        protocol, peer, counters, on_news, call, roster: as those of `Intake`.
    """

    def __init__(
        self, protocol: Protocol, peer: Peer, counters: Counters, on_news: OnNews,
        call: Callable[[Callable[[], object]], object], roster: Roster,
    ) -> None:  # fmt: skip
        super().__init__(protocol, peer, counters, on_news, call, roster)
        self._opener = Opener(peer.agent_id, peer.epoch, peer.publishing)
        self._open = partial(protocol.open, kind=Kind.NOTIFICATION, judge_time=False)
        self._manual = Manual(self.arrivals)
        self._pouring = threading.Lock()
        self._poured: list[tuple[Sink, Burst, list[_Part]]] = []
        self._news = partial(on_news, self)

    def close(self) -> None:
        """See `Intake.close`; what waits for a confirmation was kept for the sink."""
        super().close()
        self._pour(early=len(self._roster) > 0)

    # --- for a sink ----------------------------------------------------------------------------------

    def flow(self) -> None:
        """See `Intake.flow`."""
        self._pour()

    def _pour(self, *, early: bool = False) -> None:
        with self._pouring:
            if not self._poured or (not early and any(share.held for share in self._roster)):
                return
            poured, self._poured = self._poured, []
            for sink, burst, parts in poured:
                for shares, topic, rows in parts:
                    for share in shares:
                        share.pass_by(topic, rows)
                sink.take(burst)
                if sink.paused:
                    self._news(True)

    def _gathered(self, notify: Notify, key_id: str) -> Errand | None:
        wanting = [self._roster.wanting(run.interests) for run in notify.runs]
        sink = wanting[0].sink if wanting else None
        if sink is None or any(each.sink is not sink for each in wanting):
            return None
        following, parts = notify.first, list[_Part]()
        for run, wanted in zip(notify.runs, wanting, strict=True):
            repeated = self.arrivals.entered(following, len(run.rows), wanted.flow)
            following += len(run.rows)
            if repeated < len(run.rows):
                parts.append(_Part(wanted.shares, run.topic, run.rows[repeated:]))
        came = sum([len(part.rows) for part in parts])
        done = partial(self.arrivals.ended, range(following - came, following))
        return partial(self._gather, sink, parts, key_id, done)

    def _gather(self, sink: Sink, parts: list[_Part], key_id: str, done: Callable[[], object]) -> Call:
        """Everything goes to one sink, as columns."""
        parts = [found for part in parts if (found := self._sift(part)).rows]
        topics, rows = _columns(parts)
        headers = list(map(self._opener.header, topics, rows))
        if rows:
            peer = self.peer
            burst = Burst(
                peer.agent_id, peer.name, peer.epoch, key_id, time.time(), topics, headers, rows, done
            )
            with self._pouring:
                self._poured.append((sink, burst, parts))
            self._pour()
        else:
            done()
        return bool

    def _sift(self, part: _Part) -> _Part:
        """Those whose frames belong to them; the others are lost here."""
        good = list[Row]()
        for row in part.rows:
            try:
                self._opener.frames(part.topic, row)
                good.append(row)
            except ProtocolError as exc:
                self._complain(part.topic, exc)
                for share in part.shares:
                    share.spoil(self.peer.epoch, part.topic, row.number)
        return part._replace(rows=good)

    # --- for callbacks and inboxes -------------------------------------------------------------------

    def _enter(
        self, first: int, run: Run, key_id: str, wanting: Wanting, entered: list[Handed],
        decoded: Decoded | None,
    ) -> None:  # fmt: skip
        special = wanting.special
        if not special:
            super()._enter(first, run, key_id, wanting, entered, decoded)
            return
        usual = tuple([share for share in wanting.shares if share not in special])
        repeated = self.arrivals.entered(first, len(run.rows), wanting.flow)
        for number in range(first + repeated, first + len(run.rows)):
            self.arrivals.divide(number, len(special) + bool(usual))
        sharing = [*((share,) for share in special), *([usual] if usual else [])]
        for shares in sharing:
            together = Together(run.topic, [])
            for number, row in enumerate(run.rows[repeated:], first + repeated):
                together.add(self._arrival(number, run.topic, row, key_id, shares))
            if together.arrivals:
                entered.append((shares, together))

    def _arrival(
        self, number: int, topic: str, row: Row, key_id: str, shares: tuple[LinkShare, ...]
    ) -> Arrival:
        subscription, now = shares[0].subscription, time.time()
        make: Make = partial(self._make, topic, row, row.body, key_id, now)
        if subscription.raw:
            make = partial(self._raw, topic, row, key_id, now)
        manual = subscription.manual_ack
        if manual:
            make = partial(self._manual.receipted, make, number)
        return Arrival(
            self._manual if manual else self.arrivals, number, topic, row.key, self.peer.epoch, row.number,
            left=len(shares), make=make, size=len(row.body), sent_ms=row.sent_ms,
        )  # fmt: skip

    def _raw(self, topic: str, row: Row, key_id: str, received_at: float) -> Notification:
        """A notification with its frames.

        Raises:
            RemoteProtocolError: for frames that do not belong to it.
        """
        try:
            header, name, body, msgid, signature = self._opener.frames(topic, row)
        except ProtocolError as exc:
            raise self._complain(topic, exc) from None
        peer = self.peer
        return Notification(
            peer.agent_id, peer.name, topic, row.key, row.number, peer.epoch, row.sent_ms / 1000, received_at,
            None, key_id, (header, name, bytes(body), msgid, signature), size=len(body),
            type=peer.types.get(topic, ""), partition=peer.partition,
        )  # fmt: skip

    def _make(
        self, topic: str, row: Row, body: Body, key_id: str, received_at: float,
        trusts: bool = False, initial: bool = False,
    ) -> Notification:  # fmt: skip
        if row.signature[:1] == _SEALED:
            try:
                body = self._open(self._opener.frames(topic, row)).content
            except ProtocolError as exc:
                raise self._complain(topic, exc) from None
        return super()._make(topic, row, body, key_id, received_at, trusts, initial)


def _columns(parts: list[_Part]) -> tuple[list[str], list[Row]]:
    return [part.topic for part in parts for _ in part.rows], [row for part in parts for row in part.rows]
