"""Link: the reader's end of a link, for all subscriptions of this process to one publisher.

::

    state      event                                          next
    new        the publisher confirmed                        open
    open       the transport is lost, or silent for 4 s       broken
    broken     the same publisher confirmed, however reached  open; nothing lost, nothing twice
    broken     the same publisher had closed the link         open; what was missed is a gap
    broken     another one confirmed, at its endpoint         open; one restart gap per subscription
    broken     silent for 4 s                                 broken; told as lost, once; tried further
    broken     its mailbox is read by another process         ended; its subscriptions are lost
    any        the last subscription left                     ended; what a mailbox keeps goes with it
    any        the last one ended with its agent, and the     ended; what is done with is told; the mailbox
               mailbox has a name                             stays for the next process

The receiver takes what comes, hands it on, and sends signs of life; its helpers open what is broken.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from ....delivery.liveness import Liveness
from ....protocol import limits
from ....protocol.errors import CallTimeout, PzcError, Refused, SubscriptionClosed
from ....protocol.link_messages import Close, LinkMessage, Notify, Open, Opened, Report
from ....transport.peer import Peer
from ....transport.threads import Future, waited
from ....transport.timers import until_next
from ....transport.wire import Protocol
from ...notification import Notification
from .. import receiver
from ..subscription import Subscription
from .carriers import ATTEMPT, UNLINK_TIMEOUT, Carriers
from .inside import Inside
from .intake import Intake
from .interest_requests import RETRY, Asked, InterestRequests
from .mailbox import MailboxIntake
from .reader_transports import LinkOver, ReaderTransport, Received, expected
from .reception import Reception
from .reports import AcknowledgementScheduler, Reports
from .roster import LinkShare, MailboxShare, Roster

logger = logging.getLogger("pzc.links")


class Link:
    """One link at its reader; safe from any thread. BindError: no thread is left to receive with.

    Args:
        protocol: formats, checks and decodes.
        peer: the publisher.
        on_end: called once with the link when it has ended.
        mailbox: name of the mailbox that it reads, empty for the process's own; None for no mailbox.

    Attributes:
        mailbox: as given.
        wanted: transport by which it was opened first: ``inproc``, ``unix`` or ``tcp``.
    """

    def __init__(
        self, protocol: Protocol, peer: Peer, on_end: Callable[[Link], object],
        mailbox: str | None = None,
    ) -> None:  # fmt: skip
        self.wanted = ""
        self.mailbox = mailbox
        self._on_end = on_end
        self._protocol = protocol
        self._receiver = receiver.acquire()
        self._loop = self._receiver.loop
        try:
            take = self._take_local if mailbox is None else None
            self._carriers = Carriers(protocol, peer, take, self._poll, self._loop)
        except BaseException:
            receiver.release(self._receiver)
            raise
        self._mutex, self._attempting = threading.Lock(), threading.Lock()
        self._shares = Roster()
        make = LinkShare if mailbox is None else MailboxShare
        self._requests = InterestRequests(self._shares, self._receiver.helpers.submit, make)
        self._tenure, self._parked = 0, False
        self._over, self._finished = threading.Event(), threading.Event()
        self._last_word: Future[LinkMessage] | None = None
        self._transport: ReaderTransport | None = None
        self._watched, self._lost, self._liveness = False, False, Liveness(monotonic())
        self._acknowledgements = AcknowledgementScheduler(self._loop, self._tell)
        self._came: deque[Received | None] = deque()
        self._reception = Reception(self._loop, self._receive)
        self._begin_anew(peer)

    def __repr__(self) -> str:
        return f"<Link of {self.peer.endpoint}: {self.kind}>"

    @property
    def ended(self) -> bool:
        """True from the moment on when its last subscription left."""
        return self._over.is_set()

    @property
    def peer(self) -> Peer:
        """The publisher as it was met last."""
        return self._intake.peer

    @property
    def kind(self) -> str:
        """``inproc``, ``unix`` or ``tcp``; ``none`` while it is broken."""
        return "none" if (transport := self._transport) is None else transport.kind

    def _begin_anew(self, peer: Peer) -> None:
        self._link = secrets.token_hex(16)
        self._requests.anew()
        made = self._protocol, peer, self._carriers.counters, self._on_news, self._loop.call, self._shares
        mail = self.mailbox is not None
        self._intake = MailboxIntake(*made) if mail else Intake(*made)
        self._reports = Reports(self._link, self._intake.arrivals, self._shares, self.mailbox)
        if self._parked:
            self._reports.park()

    def start(self, transport: str, deadline: float) -> None:
        """Open the link; errors as `open_links.subscribe`."""
        try:
            self._attach(self._carriers.transport(self.peer, transport, deadline), deadline)
        except BaseException:
            self._over.set()
            self._finish()
            raise
        self.wanted = self.kind

    def add(self, subscription: Subscription, deadline: float) -> None:
        """One subscription more; errors as `start`, and as `Roster.add`.

        Raises:
            SubscriptionClosed: when the link has ended meanwhile; another one is needed.
        """
        confirmed = Future[None]()
        try:
            with self._mutex:
                if self._over.is_set():
                    raise SubscriptionClosed("the link has ended")
                bound = self._shares.bound
                self._requests.want(subscription, confirmed)
            if self.mailbox is not None and self._shares.bound > bound:
                self._acknowledgements.say(always=True)  # the poll that waits allows for less
            self._requests.say()
            confirmed.result(max(0.0, deadline - monotonic()))
        except TimeoutError as exc:
            self.remove(subscription)
            if isinstance(exc, CallTimeout):
                raise
            raise CallTimeout(f"{self.peer.endpoint} did not confirm the subscription in time") from None
        except BaseException:
            self.remove(subscription)
            raise
        finally:
            del confirmed  # it holds the error, whose traceback holds this frame

    def remove(self, subscription: Subscription) -> None:
        """One subscription less, which it may never have had; never waits for the publisher's answer."""
        with self._mutex:
            if self._over.is_set():
                return
            had = self._requests.forget(subscription)
            if last := not self._shares:
                self._over.set()
        if last:
            self._hang_up()
        elif had and not self._parked:
            self._requests.say()
            self._intake.flow()

    def park(self, subscriptions: set[Subscription]) -> None:
        """These end with their agent; when no others are left, nothing more is done with, and it stays."""
        with self._mutex:
            if not self._parked and subscriptions.issuperset(self.subscriptions()):
                self._parked = True
                self._reports.park()

    def move(self, endpoint: str) -> None:
        """Its publisher is at another endpoint from now on; any thread."""
        moved, transport = self._carriers.move(self.peer.endpoint, endpoint), self._transport
        if moved and transport is not None:  # else a helper goes there with its next attempt
            transport.close()

    def subscriptions(self) -> list[Subscription]:
        """All of the link."""
        return [share.subscription for share in self._shares]

    def _poll(self, again: bool) -> Report:
        return self._reports.poll(again)

    def _attach(self, transport: ReaderTransport, deadline: float) -> None:
        """Open the link over a transport, with what has arrived over others."""
        intake = self._intake
        carrier: Any = transport.kind
        try:
            asked = Open(self._link, intake.arrivals.receipts.received, carrier, self.mailbox, self._tenure)
            answer = expected(self.peer, transport.open(asked, deadline), Opened)
        except BaseException:
            transport.close()
            raise
        intake.map_anew()
        intake.arrivals.repeat()
        self._liveness = Liveness(monotonic())
        self._transport, self._lost, self._tenure = transport, False, answer.tenure
        self._watch()
        read = partial(intake.retained, trusts=transport.kind == "inproc")
        self._requests.attach(Asked(transport, self.peer, self._link, answer.epoch, read, intake.flow))
        self._acknowledgements.say()
        transport.listen(self._reception)
        self._requests.say()

    def _broke(self, transport: ReaderTransport, reason: BaseException) -> None:
        transport.close()
        with self._mutex:
            current = self._transport
            self._transport = None if transport is current else current
        self._requests.lose(transport)
        if current is not transport or self._over.is_set():
            return
        logger.info("%r was lost: %s", self, reason)
        self._carriers.lost(reason)
        self._watch()
        pause = 0.0
        if transport.kind == "inproc":  # where nobody has to be heard, and an end is that of the agent
            self._liveness, pause = Liveness(monotonic()), RETRY
        self._receiver.helpers.submit(self._try_again, after=pause)

    def _try_again(self) -> None:
        deadline = monotonic() + ATTEMPT
        again = partial(self._receiver.helpers.submit, self._try_again, again=True)
        with self._attempting:
            try:
                if not self._over.is_set() and self._transport is None:
                    self._meet_again(deadline)
            except LinkOver as exc:
                logger.info("%r was closed there: %s", self, exc)
                self._on_closed_there()
                again()
            except Exception as exc:  # of the system, too: the next attempt may succeed
                logger.debug("%r cannot be opened again: %s", self, exc)
                if self.mailbox is None or not isinstance(exc, Refused) or self._carriers.goes_elsewhere:
                    again(after=RETRY)
                    return
                for share in self._shares:  # it is another process's by now
                    share.refuse(exc)

    def _meet_again(self, deadline: float) -> None:
        peer = self._carriers.meet(self.peer.endpoint, deadline)
        if peer.agent_id == self.peer.agent_id:
            self._intake.peer = peer
        else:
            self._intake.close()
            self._tenure = 0
            self._begin_anew(peer)
            self._shares.restart(peer.agent_id)
        self._attach(self._carriers.transport_again(peer, self.wanted, deadline), deadline)

    def _on_closed_there(self) -> None:
        """The publisher, which lives, has closed the link."""
        self._intake.close()
        self._begin_anew(self.peer)
        for share in self._shares:
            share.forget()

    def _on_news(self, intake: Intake, urgent: bool) -> None:
        transport = self._transport
        if intake is not self._intake or transport is None:
            return  # of a publisher that was replaced, or not to be reached
        if transport.kind == "tcp" and self._loop.leads():
            return  # its next poll tells it
        self._acknowledgements.news(urgent)

    def _tell(self, always: bool) -> bool:
        transport = self._transport
        if transport is None or self._over.is_set():  # the last word was said
            return True
        try:
            return transport.tell(partial(self._news, self._reports, always))
        except PzcError as exc:  # whoever receives finds out
            logger.debug("%r cannot acknowledge: %s", self, exc)
            return True

    def _news(self, reports: Reports, always: bool) -> Report | None:
        news = reports.next(always=always)
        if news is not None:
            self._liveness.spoke(monotonic())
        return news

    def _take_local(self, transport: Inside, notify: Notify, notifications: Sequence[Notification]) -> None:
        """Notifications of a publisher in this process, in whose thread nobody is called."""
        if transport is self._transport or self._transport is None:
            self._intake.take_local(notify, notifications)()
            if notify.ended:
                self._receiver.helpers.submit(self._intake.end(notify.ended))

    def _receive(self) -> bool:
        transport = self._transport
        if transport is None:
            return False
        try:
            if not self._came:
                self._came.extend(transport.ready())
                if not self._came:
                    return False
                self._liveness.heard(monotonic())
            received = self._came.popleft()
            if received is not None:  # what is to be done for one comes before the next is entered
                if received.notify.runs:
                    self._reception.step_aside()  # their contents are decoded
                self._reception.call, errands = self._intake.take(received)
                if errands:
                    self._reception.errands += errands
        except Exception as exc:
            if not isinstance(exc, PzcError):
                logger.exception("%r failed", self)
            self._came.clear()
            self._broke(transport, exc)
            return True
        return bool(self._came) or transport.more

    def _watch(self) -> None:
        """Look after the link from now on, unless its end inside the process tells itself; any thread."""
        with self._mutex:
            if not (self._watched or self._over.is_set() or self.kind == "inproc"):
                self._watched = True
                self._loop.call_later(until_next(limits.current.link_look), self._tick)

    def _tick(self) -> bool:
        self._watched = False
        self._watch()
        if self._over.is_set():
            return True
        now, transport = monotonic(), self._transport
        state = self._liveness.look(now)
        if transport is not None and transport.kind == "unix":
            if state == "lost":
                transport.close()
            elif self._liveness.beat_due(now + limits.current.link_look / 4):  # not a whole look late
                self._acknowledgements.say(always=True)
        if state == "lost" and not self._lost and self.kind != "inproc":
            self._lost = True
            reason = f"{self.peer.endpoint} has been unreachable for {self._liveness.silence(now):.0f} s"
            for share in self._shares:
                share.subscription.report_lost(reason)
        return True

    def statistics(self) -> dict[str, Any]:
        """What it is, and what it saw."""
        return {
            "publisher": self.peer.agent_id, "endpoint": self.peer.endpoint, "transport": self.kind,
            "link": self._link, "mailbox": self.mailbox, "state": self._liveness.state(monotonic()),
            "undone": len(self._intake.arrivals), "subscriptions": len(self._shares),
            "counts": self._carriers.counters.as_dict(),
        }  # fmt: skip

    def _hang_up(self) -> None:
        transport = self._transport
        if transport is not None:
            self._requests.lose(transport)
            try:
                self._last_word = transport.ask(self._reports.last() or Close(self._link))
            except PzcError as exc:
                logger.debug("%r: %s", self, exc)
        self._carriers.hang_up()
        self._receiver.helpers.submit(self._finish)

    def _finish(self) -> None:
        """Give back everything; a helper, or the thread that could not open it."""
        with self._attempting:
            if self._last_word is not None:
                try:
                    self._last_word.exception(UNLINK_TIMEOUT)
                except TimeoutError:
                    logger.debug("%r: its end was not confirmed", self)
            if self._transport is not None:
                self._transport.close()
            self._intake.close()
            self._carriers.close()
            receiver.release(self._receiver)
        self._on_end(self)
        self._finished.set()

    def join(self, timeout: float) -> bool:
        """Wait until an ended link has given back everything; False after ``timeout`` seconds."""
        return waited(self._finished.wait, 0.0 if self._loop.leads() else timeout)
