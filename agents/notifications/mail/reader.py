"""Reader: fetches everything out of one mailbox, for all subscriptions of this process to it.

::

    state      event                                        next
    reading    the last subscription was closed             ended: the mailbox is discarded
    reading    the last one ended with its agent, and the   ended: what was done with is acknowledged, and the
               mailbox has a name                           mailbox kept for the next process
    reading    the mailbox is somebody else's now           ended: its subscriptions are lost

What is to be sent and what answers mean is the `Collector`'s; here are the socket and the timer, both of the
I/O thread. Contents are decoded by whoever takes them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from ....delivery.collector import Arrived, Collector, Event, Forgotten, Missed, Restarted, Silent, Withdrawn
from ....delivery.mail import Applied, Command, CommandRequest, Declined, PollRequest, Position
from ....delivery.policies import strongest
from ....protocol import limits
from ....protocol.bundle import Item
from ....protocol.errors import CallTimeout, PzcError, Refused, SubscriptionClosed
from ....protocol.peer import Peer
from ....protocol.reply import Reply
from ....transport.loop import Timer
from ....transport.wire import Protocol
from ...interfaces import NewClient
from ..callbacks import start
from ..declared import withdrawn
from ..links.arrivals import Arrival, LeftOut, together
from ..subscription import Subscription
from .books import Book
from .line import Line, Offers
from .looks import Looks, Told
from .making import Making
from .place import Place
from .places import Places
from .unclaimed import Unclaimed
from .words import declined_text, read_answer, refusal_text, word_of

logger = logging.getLogger("pzc.mail")

SPACING = 0.02
"""Seconds until the publisher is told what is done, together with what follows."""

UNCLAIMED = 10.0
"""Seconds for which messages of a mailbox with a name wait here for a subscription that wants them."""

LAST_WORD = 0.5
"""Seconds that the last word to a publisher may take."""

Asked = CommandRequest | PollRequest


class Reader:
    """One mailbox at its reader; safe from any thread.

    Args:
        new_client: makes its client.
        protocol: formats, checks and decodes.
        peer: the publisher.
        name: of the mailbox; None for the process's own.
        on_end: called once when everything was given back.

    Attributes:
        name: of the mailbox.
        counters: where everything is counted.
    """

    def __init__(
        self, new_client: NewClient, protocol: Protocol, peer: Peer, name: str | None,
        on_end: Callable[[Reader], object],
    ) -> None:  # fmt: skip
        self.name = name
        self._protocol = protocol
        self._on_end = on_end
        self._line = Line(new_client, protocol, peer)
        self._loop = self._line.loop
        self.counters = self._line.counters
        self._lock = threading.RLock()
        self._places = Places()
        self._offers = Offers(self._line)
        self._looks = Looks(self._line, protocol, self.places)
        self._collector: Collector[Item] | None = None
        self._book: Book | None = None
        self._unclaimed = Unclaimed(UNCLAIMED)
        self._over, self._gave_back = threading.Event(), threading.Event()
        self._parked = self._noted = self._queued = False
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<Reader of the mailbox {self.name or ''} at {self.peer.endpoint}: {len(self._places)}>"

    @property
    def peer(self) -> Peer:
        """The publisher as it was met last."""
        return self._line.peer

    @property
    def ended(self) -> bool:
        """True from the moment on when its last subscription left."""
        return self._over.is_set()

    # --- subscriptions -------------------------------------------------------------------------------

    def add(self, subscription: Subscription, deadline: float) -> None:
        """One subscription more; returns when the publisher has confirmed it.

        Raises:
            PolicyRefused, Refused, CallTimeout, PeerLost: as `readers.subscribe`.
            SubscriptionClosed: when it has ended meanwhile; another one is needed.
        """
        confirmed: Future[None] = Future()
        place = Place(subscription, self.name is not None, confirmed)
        try:
            self._offers.ask(subscription, deadline)
            self._enter(place)
            confirmed.result(max(0.0, deadline - time.monotonic()))
        except BaseException as exc:
            self.remove(subscription)
            if isinstance(exc, TimeoutError) and not isinstance(exc, CallTimeout):
                raise CallTimeout(f"{self.peer.endpoint} did not confirm the subscription in time") from None
            raise

    def _enter(self, place: Place) -> None:
        with self._lock:
            if self.ended:
                raise SubscriptionClosed("the mailbox is not read any more")
            policy = place.subscription.policy
            if self._collector is None:
                now, times = time.monotonic(), limits.current
                self._collector = Collector(
                    policy, now, hold=times.mail_hold, patience=times.mail_patience, delay=SPACING
                )
            if policy != self._collector.policy:
                self._collector.policy = strongest([policy, self._collector.policy])
            self._collector.subscribe(place.topic, *place.keys)
            self._places.add(place)
        self._run_soon()

    def remove(self, subscription: Subscription) -> None:
        """One subscription less; never waits for the publisher's answer."""
        with self._lock:
            place, collector = self._places.remove(subscription), self._collector
            if place is not None and self._places and not self._parked and collector is not None:
                fewer, none = self._places.split(place)  # subscriptions that want its keys
                if fewer:
                    collector.subscribe(place.topic, *fewer)
                if none:
                    collector.unsubscribe(place.topic, *none)
            last = not self._places and not self.ended
            if last:
                self._over.set()
        if last:
            threading.Thread(target=self._finish, name="pzc-mail end", daemon=True).start()
        else:
            self._run_soon()

    def park(self, subscriptions: set[Subscription]) -> None:
        """These end with their agent; when no others are left, nothing more is done with, and it stays."""
        with self._lock:
            self._parked = self._parked or all(place.subscription in subscriptions for place in self._places)

    def move(self, endpoint: str) -> None:
        """Its publisher is at another endpoint from now on; not the I/O thread.

        Raises:
            PzcError: when it could not be reached.
        """
        if self._line.move(endpoint, limits.current.mail_hold + limits.current.mail_patience):
            self._run_soon()

    # --- to the publisher ----------------------------------------------------------------------------

    def _run_soon(self) -> None:
        """Many subscriptions that come or go together are told together."""
        if not self._queued:
            self._queued = True
            self._loop.call(self._run)

    def _run(self) -> None:
        """Send what is due, and look again in time; I/O thread."""
        self._queued = False
        if self.ended:
            return
        now = time.monotonic()
        with self._lock:
            collector = self._collector
            if collector is None:
                return
            self._noted = False
            self._let_go(now)
            collector.paused = self._places.paused
            requests, events = collector.requests(now), collector.tick(now)
        for request in requests:
            self._send(request)
        self._act(events)
        with self._lock:
            deadline = collector.next_deadline()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = self._loop.call_later(max(0.001, deadline - time.monotonic()), self._run)

    def _send(self, request: Asked) -> None:
        timeout = limits.current.mail_patience + (request.hold if isinstance(request, PollRequest) else 0.0)
        try:
            with self._lock:
                if self.ended:  # else this might come behind the last word, and open the mailbox anew
                    return
                word = word_of(request, self.name, self._places.raw, self._places.who)
                answer = self._line.ask(word, timeout)
        except PzcError as exc:
            logger.debug("%r: %s", self, exc)
            self._failed(request)
            return
        answer.add_done_callback(partial(self._on_answer, request))

    def _failed(self, request: Asked) -> None:
        with self._lock:
            if self._collector is not None:
                self._collector.failed(request, time.monotonic())

    def _on_answer(self, request: Asked, future: Future[Reply]) -> None:
        """An answer, or none; I/O thread."""
        collector = self._collector
        if collector is None or self.ended:
            return
        try:
            reply = future.result(0)
            self._line.answered(reply)
            answer, lasts = read_answer(reply.content, self._places.raw)
            with self._lock:
                events = collector.answered(request, answer, time.monotonic())
        except Refused as exc:
            self._on_refused(exc)
            return
        except PzcError as exc:
            logger.debug("%r: %s", self, exc)
            self._failed(request)
            self._run_soon()
            return
        try:
            self._act(events)
            if isinstance(answer, Applied) and isinstance(request, CommandRequest):
                self._confirm(request, answer, lasts)
        finally:
            self._run()

    def _confirm(self, request: CommandRequest, applied: Applied, lasts: dict[str, int]) -> None:
        with self._lock:
            collector = self._collector
            if collector is None or applied.position != collector.position:
                return
            said = self._places.confirmed(applied.obeyed(request.batch.commands))
            claims = [(place, self._unclaimed.claim(place)) for place in said]
        for place, early in claims:
            self._looks.begin(place, partial(self._begin, place, applied.position, early, lasts))

    def _begin(
        self, place: Place, position: Position, early: list[Arrival], lasts: dict[str, int], told: Told | None
    ) -> None:
        collector = self._collector
        if collector is not None and position == collector.position:
            begins, retained = told or (lasts, None)
            place.begin(position.epoch, begins, together(early), retained)
        with self._lock:
            self._places.flow()

    def _on_refused(self, error: Refused, command: Command | None = None) -> None:
        """The publisher will not have it, now or any more; or not what a command asks for alone."""
        with self._lock:
            concerned = [*(self._places if command is None else self._places.at(*command[:2]))]
        for place in concerned:
            place.refuse(error)

    # --- from the publisher --------------------------------------------------------------------------

    def _act(self, events: list[Event[Item]]) -> None:
        for event in events:
            if isinstance(event, Arrived):
                self._take(event)
            elif isinstance(event, Missed):
                evicted = LeftOut(event.lost.topic, event.lost.last, event.lost.evicted)
                with self._lock:
                    places = self._places.asking(event.lost.topic, event.lost.key)
                self.counters.add("notifications_lost", event.lost.evicted)
                for place in places:
                    place.take(evicted)
            elif isinstance(event, Declined):
                self._on_refused(Refused(declined_text(event, self.name, self.peer.endpoint)), event.command)
            elif isinstance(event, Restarted):
                self._unclaimed.clear()
                for place in self.places():
                    place.restart(self.peer.agent_id)
            elif isinstance(event, Forgotten):
                for place in self.places():
                    place.forget()
            elif isinstance(event, Withdrawn):
                for place in [each for each in self.places() if each.topic == event.topic]:
                    place.subscription.report_lost(withdrawn(event.topic))
            elif isinstance(event, Silent):
                for place in self.places():
                    place.subscription.report_lost(
                        f"{self.peer.endpoint} has been unreachable for {event.seconds:.0f} s"
                    )
            else:
                self._on_refused(Refused(refusal_text(event.reason, self.name, self.peer.endpoint)))

    def places(self) -> list[Place]:
        """Those of all its subscriptions."""
        with self._lock:
            return list(self._places)

    def _take(self, arrived: Arrived[Item]) -> None:
        book = self._book
        if book is None or book.position != arrived.position:
            book = self._book = Book(arrived.position, self._on_done)
        making = Making(
            self._protocol, self.counters, self.peer, arrived.position.epoch, self._line.key_id, time.time()
        )
        self.counters.add("notifications", len(arrived.messages))
        with self._lock:
            poured = self._places.takes({message.topic for message in arrived.messages})
            if poured:
                self._pour(arrived, making)
                return
            found = book.arrivals(arrived.first, arrived.messages, self._places, making)
            self._unclaimed.put(found.pop(None, []), time.monotonic())
        start(place.take(come) for place, its in found.items() if place for come in together(its))
        if self.name is None:
            self._let_go(float("inf"))

    def _pour(self, arrived: Arrived[Item], making: Making) -> None:
        """Everything goes into the sink of all subscriptions; with the lock."""
        numbers = range(arrived.first, arrived.first + len(arrived.messages))
        burst, refused = making.burst(arrived.messages, partial(self._on_done, arrived.position, numbers))
        self._places.spoil(arrived.position.epoch, refused)
        self._places.pour(burst)

    def _let_go(self, now: float) -> None:
        """Be done with what no subscription wants; its topics are not wanted either."""
        for arrival in self._unclaimed.expired(now):
            self.counters.add("notifications_unclaimed")
            if self._collector is not None and self.name is not None:
                for key in {None, arrival.key or None}:
                    if not self._places.at(arrival.topic, key):
                        self._collector.unsubscribe(arrival.topic, key)
            arrival.consumed()

    def _on_done(self, position: Position, numbers: Sequence[int]) -> None:
        with self._lock:
            collector = self._collector
            if collector is None or self._parked:
                return
            collector.done(position, numbers, time.monotonic())
            noted, self._noted = self._noted, True
        if not noted:
            self._loop.call_later(SPACING, self._run)

    # --- the end -------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Say the last word, and give back everything; a thread of its own."""
        try:
            if (word := self._last_word()) is not None:
                self._line.ask(word, LAST_WORD).exception(2 * LAST_WORD)
        except (PzcError, TimeoutError) as exc:
            logger.debug("%r: its end was not confirmed: %s", self, exc)
        if (timer := self._timer) is not None:
            timer.cancel()
        self._line.close()
        self._on_end(self)
        self._gave_back.set()

    def _last_word(self) -> dict[str, Any] | None:
        with self._lock:
            collector = self._collector
            if collector is None or collector.ended or (collector.position is None and self.name):
                return None
            if not self._parked:
                return {"pzc": "discard", "name": self.name, "position": collector.position}
            later = time.monotonic() + limits.current.mail_hold
            polls = [each for each in collector.requests(later) if isinstance(each, PollRequest)]
        return word_of(replace(polls[0], limit=0, hold=0.0), self.name) if polls else None

    def join(self, timeout: float) -> bool:
        """Wait until an ended reader has given back everything; False after ``timeout`` seconds."""
        return self._gave_back.wait(timeout)
