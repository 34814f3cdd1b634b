"""Subscribers: the links of one publisher.

A publication goes through them in these steps, of which only `Admission.wait` and `wait_until_done` wait,
both without any lock::

    admit      every reader that is waited for has a place in its window; else `wait`, and again
    has_room   once more, because others publish meanwhile
    commit     it gets its number and a place in each queue, in one moment
    flush      what is ready is sent, as far as each transport takes it

The state of all links belongs to one lock. Nobody holds it while user code runs, a socket is written, or
memory is copied.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ....delivery.liveness import Liveness
from ....delivery.meters import Meter
from ....protocol.errors import AgentClosed
from ....protocol.records import Record, Records
from ....shm.ring import BUFFERS, Ring
from ....transport.counters import Counters
from ....transport.loop import Loop
from ....transport.threads import Condition
from ....transport.wire import Protocol
from ..declared import Declared
from .admission import Admission
from .encoding import Encoding
from .link_subscriber import LinkSubscriber
from .mailbox_subscriber import MailboxSubscriber
from .mailboxes import Mailboxes
from .publication import Publication
from .routes import SPARE, Routes
from .subscriber import Subscriber
from .transports import Transport

logger = logging.getLogger("pzc.links")


class Subscribers:
    """The links of one agent; safe from any thread.

    Args:
        loop: for timers.
        protocol: of the agent.
        counters: where everything is counted.
        records: makes frames of what is kept.

    Attributes:
        lock: of all links, and of ``numbers``.
        numbers: the last number of each topic.
        meters: what was published of each topic.
        ring: blocks of the agent.
        links: those that are open, by id.
        routes: which of them a topic goes to.
        on_end: told every link that has ended, and its transport.
        on_pause: called after a link was suspended, or came back from that.
        changed: on the lock, when there may be room.
        admission: waits for readers before something is published.
        mailboxes: those of the links that keep.
        on_topic: called with the lock when a topic is published for the first time.
    """

    def __init__(self, loop: Loop, protocol: Protocol, counters: Counters, records: Records) -> None:
        self.lock = threading.RLock()
        self.numbers: dict[str, int] = {}
        self.meters: defaultdict[str, Meter] = defaultdict(Meter)
        self.ring = Ring(BUFFERS + SPARE)
        self.links: dict[str, Subscriber] = {}
        self.encoding = Encoding(protocol.codec, self.ring, counters, self._make_room)
        self.on_end: Callable[[Subscriber, Transport | None], object] = lambda _, __: None
        self.on_pause: Callable[[], object] = bool
        self.on_topic: Callable[[str], object] = bool
        self.withdrawn: set[str] = set()
        self._loop = loop
        self._counters = counters
        self.changed = Condition(self.lock)
        self.routes = Routes(
            self.lock, self.links, self.numbers, self.ring, counters, self.changed.notify_all
        )
        self.admission = Admission(loop, self.changed, self.encoding, counters)
        self.mailboxes = Mailboxes(self.lock, self.links, self.ring, records)
        self._closed = False

    # --- publishing ----------------------------------------------------------------------------------

    def withdraw(self, publication: Publication) -> None:
        """It is not published after all."""
        with self.lock:
            if not publication.published.number:
                self.encoding.give_back(publication.published)

    def commit(self, publication: Publication, number: int, size: int) -> None:
        """Hand the notification of this number to every link; with the lock, prepared, and room.

        ``size``: bytes of the content; 0 when nobody needed it encoded.
        """
        published, route, since, mail = (
            publication.published, publication.route, publication.since, publication.mail
        )  # fmt: skip
        topic, key = published.topic, published.key
        published.number = number
        if number == 1 or topic in self.withdrawn:
            self._offer(topic)
        self.meters[topic].add(since, 1, size)
        if mail is not None:
            if self.mailboxes.shared != self.routes.changes:
                self.mailboxes.share(self.routes.changes)
            record = publication.record = Record(topic, number, published.sent_ms, key, *mail)
            for mailbox in route.mailboxes:
                mailbox.post(record, mailbox.queue.matching(topic, key), since)
        if route.subscribers or published.slot is not None:
            took = [
                subscriber
                for subscriber in route.subscribers
                if subscriber.post(published, subscriber.queue.matching(topic, key))
            ]
            if published.slot is not None:
                self.ring.publish(
                    published.slot, [subscriber.link for subscriber in took if subscriber.takes_blocks]
                )
            if publication.ack_wait is not None:
                published.waited = {subscriber for subscriber in took if not subscriber.is_late}

    def _offer(self, topic: str) -> None:
        """A topic is published for the first time, or again; with the lock."""
        if topic in self.withdrawn:
            self.withdrawn.discard(topic)
            for subscriber in self.links.values():
                subscriber.offer(topic)
        self.on_topic(topic)

    def take_back(self, topic: str, reason: str) -> bool:
        """Withdraw a topic and tell its readers; whether it was there."""
        with self.lock:
            if topic not in self.numbers or topic in self.withdrawn:
                return False
            self.withdrawn.add(topic)
            self.meters.pop(topic, None)
            for subscriber in self.links.values():
                subscriber.withdraw(topic, reason)
            self.routes.withdraw(topic)
        for subscriber in self.all():
            subscriber.beat(math.inf)
        return True

    def declare(self, topic: str, declared: Declared) -> None:
        """Something else is said of the messages of a topic: its readers are told."""
        with self.lock:
            for subscriber in self.links.values():
                subscriber.declare(topic, declared)
            self.routes.renew()
        for subscriber in self.all():
            subscriber.beat(math.inf)

    def wait_until_done(self, publication: Publication) -> None:
        """Wait until the links that got it are done with it, or the time is over."""
        published = publication.published
        with self.lock:
            if not self._loop.in_thread():
                self.changed.wait_for(lambda: self._closed or not published.waited, publication.ack_wait)
            missed: set[LinkSubscriber] = published.waited or set()
            published.waited = None
            if missed:
                self._counters.add("ack_waits_missed", len(missed))
            for subscriber in missed:
                subscriber.is_late = True

    # --- readers -------------------------------------------------------------------------------------

    def acknowledged(self, subscriber: Subscriber, received: int, upto: int, others: Iterable[int]) -> None:
        """The reader tells what it has, and what it is done with.

        Raises:
            RemoteProtocolError: for a number that was never sent.
        """
        with self.lock:
            if subscriber.ended:
                return
            subscriber.heard(time.monotonic())
            if subscriber.acknowledged(received, upto, others):
                self.changed.notify_all()
        subscriber.flush()

    def add(self, subscriber: Subscriber) -> None:
        """A link is opened; with the lock.

        Raises:
            AgentClosed: after `close`.
        """
        self.check_open()
        self.links[subscriber.link] = subscriber
        self._counters.add("links_opened")

    def check_open(self) -> None:
        """AgentClosed after `close`."""
        if self._closed:
            raise AgentClosed("the agent was stopped; it takes no more links")

    def attach(
        self, subscriber: Subscriber, transport: Transport, received: int, first: Callable[[], object]
    ) -> None:
        """Let a link send over a transport, and again what came after ``received``; no lock may be held.

        Args:
            subscriber: the link.
            transport: new.
            received: a number that was sent.
            first: called before anything is sent over the transport.
        """
        with subscriber.sending:
            with self.lock:
                before = subscriber.transport
                paused = subscriber.queue.suspended
                if subscriber.ended:
                    before = transport
                else:
                    subscriber.attach(transport, received)
                    subscriber.liveness = Liveness(time.monotonic())
                    (self.routes.renew if paused else self.routes.renew_transports)()
            if paused:
                self.on_pause()
            first()
        if before is not None:
            before.close()
        subscriber.flush()

    def lose_transport(self, subscriber: Subscriber, transport: Transport) -> None:
        """A connection has ended: its reader has a moment to come back."""
        with self.lock:
            subscriber.lose_transport(transport, time.monotonic())
        transport.close()

    def refill(self, subscriber: Subscriber) -> None:
        """The transport takes more."""
        with self.lock:
            subscriber.pull()
        subscriber.flush()

    def suspend(self, subscriber: LinkSubscriber, reason: str) -> None:
        """Keep nothing for a link until its reader comes back; no lock may be held."""
        with self.lock:
            if subscriber.ended or subscriber.queue.suspended:
                return
            transport = subscriber.suspend(time.monotonic())
            self.routes.renew()
        logger.info("%r is suspended: %s", subscriber, reason)
        self._counters.add("links_suspended")
        if transport is not None:
            transport.close()
        self.on_pause()

    def end(self, subscriber: Subscriber, reason: str) -> None:
        """Close a link; no lock may be held."""
        with self.lock:
            end = self.forget(subscriber, reason)
        end()

    def forget(self, subscriber: Subscriber, reason: str) -> Callable[[], object]:
        """As `end`, with the lock; returns what is to be called without it."""
        if subscriber.ended:
            return bool
        transport = subscriber.end(reason)
        self.links.pop(subscriber.link, None)
        if isinstance(subscriber, MailboxSubscriber):
            self.mailboxes.forget(subscriber)
        self.routes.renew()
        return partial(self._ended, subscriber, transport)

    def _ended(self, subscriber: Subscriber, transport: Transport | None) -> None:
        logger.info("%r", subscriber)
        self._counters.add("links_ended")
        if transport is not None:
            transport.close()
        self.on_end(subscriber, transport)

    def _make_room(self) -> bool:
        with self.lock:
            return any(subscriber.give_block() for subscriber in self.live())

    def all(self) -> list[Subscriber]:
        """Those that are open or suspended."""
        with self.lock:
            return list(self.links.values())

    def live(self) -> list[LinkSubscriber]:
        """Those of them that are no mailboxes."""
        with self.lock:
            return self.routes.live()

    def statistics(self) -> dict[str, Any]:
        """Every link, and the shared memory."""
        now = time.monotonic()
        with self.lock:
            links = [subscriber.statistics(now, self.numbers) for subscriber in self.live()]
        leases = self.ring.leases()
        for link in links:
            link["leases"] = leases.get(link["link"], 0)
        return {"links": links, "ring": self.ring.statistics()}

    def close(self) -> None:
        """End every link, and every wait of a publication."""
        with self.lock:
            self._closed = self.admission.closed = True
            self.changed.notify_all()
        for subscriber in self.all():
            self.end(subscriber, "the publisher was stopped")
        self.ring.close()
