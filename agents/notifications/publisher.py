"""Publisher: numbers what an agent publishes, and hands it to links, mailboxes and broadcast in one moment.

There is one way for all: what a topic needs of it stands in its `Plan`. The content is encoded in the
caller's thread, once for whoever gets the same, and sealed by whoever sends it. A notification that nobody
subscribed to is numbered and not encoded. What could not be encoded has no number.

The caller waits first while a reader that is to be waited for has its window full; it holds nothing
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time_ns

from msgspec import Struct

from ...protocol.errors import LocalProtocolError
from ...transport.counters import Counters
from ...transport.loop import Loop
from ...transport.wire import Protocol
from .broadcast import Broadcast, over
from .declared import Declared
from .filters import ANY, MARK_TOPIC
from .heartbeat import BEAT_TOPIC
from .keys import check_topic
from .links.publication import Publication, Route
from .links.published import Published
from .links.subscribers import Subscribers
from .retained import RetainedValues

_MOST_PLANS = 10_000


class Plan(Struct, frozen=True, eq=False):
    """What publishing one topic takes; valid until links, mailboxes, filters, or what is said of it change.

    Attributes:
        version: of the routes.
        heard: version of the filters.
        route: the links that it goes to.
        senders: names of the agent under which it is broadcast.
        encodes: a content is encoded for others than those that listen to the broadcast.
        waits: somebody may have to be waited for.
        kept: the last of each key is kept.
        ack_wait: seconds to wait for links, unless a publication says others.
    """

    version: int
    heard: int
    route: Route
    senders: tuple[str, ...]
    encodes: bool
    waits: bool
    kept: bool
    ack_wait: float | None


class Publisher:
    """The sequence of every topic of an agent; safe from any thread.

    Args:
        loop: whose thread never waits for a reader.
        protocol: encodes.
        counters: where everything is counted.
        subscribers: its links; closed by their owner.
        broadcast: its PUB endpoint.

    Attributes:
        declared: what is said of the types of topics.
        retained: what is kept for readers to come.
        closed: nothing more is published.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        counters: Counters,
        subscribers: Subscribers,
        broadcast: Broadcast,
    ) -> None:
        self._loop = loop
        self._counted = counters.tally()  # with the lock of the links
        self._subscribers = subscribers
        self._broadcast = broadcast
        self._plans: dict[str, Plan] = {}  # a new one when what is said of topics changes
        self._numbers = subscribers.numbers
        self.declared = Declared()
        self.retained = RetainedValues(protocol, subscribers, counters)
        self.closed = False
        self.has_mark, self.last_at, self.check_broadcast = (
            broadcast.has_mark, broadcast.last_at, broadcast.check,
        )  # fmt: skip

    def close(self) -> None:
        """Publish no more; what has a number by then is with all its readers."""
        with self._subscribers.lock:
            self.closed = True
            self._subscribers.routes.renew()  # whoever is about to take a number looks again

    def publish(
        self,
        topic: str,
        content: object,
        key: str = "",
        ack_wait: float | None = None,
    ) -> int:
        """As `Publishing.publish`."""
        return self.publish_prepared(Published(topic, key, content), ack_wait)

    def publish_prepared(self, published: Published, ack_wait: float | None = None) -> int:
        """As `publish`, of what may have its body already; that is given back when it is not published."""
        publication, subscribers = Publication(published, monotonic()), self._subscribers
        try:
            number = self._publish(publication, ack_wait)
        except BaseException:
            subscribers.withdraw(publication)
            raise
        for subscriber in (*publication.route.subscribers, *publication.route.mailboxes):
            subscriber.flush()
        if publication.outgoing is not None or publication.spoken:
            self._broadcast.flush()
        if published.waited:
            subscribers.wait_until_done(publication)
        return number

    def _publish(self, publication: Publication, ack_wait: float | None) -> int:
        subscribers, published = self._subscribers, publication.published
        broadcast, topic = self._broadcast, published.topic
        while True:
            if self.closed:
                raise over()
            version, plans = broadcast.version, self._plans
            plan = plans.get(topic)
            if plan is None or plan.version != subscribers.routes.version or plan.heard != version:
                plan = self._plan(topic, version, plans)
            publication.route, number = plan.route, self._numbers.get(topic, 0) + 1
            publication.ack_wait = plan.ack_wait if ack_wait is None else ack_wait
            if plan.waits and not subscribers.admission.admit(publication):
                subscribers.admission.wait(publication)
                continue
            if plan.encodes:
                self._encode(publication, plan)
            if plan.senders:
                broadcast.prepare(publication, number, plan.senders)
            if taken := self._number(publication, plan, number):
                return taken

    def _plan(self, topic: str, heard: int, plans: dict[str, Plan]) -> Plan:
        subscribers = self._subscribers
        if check_topic(topic) in ("", ANY, MARK_TOPIC, BEAT_TOPIC):
            raise LocalProtocolError(f"nothing can be published as topic {topic!r}")
        senders = self._broadcast.senders(topic)
        with subscribers.lock:
            about, version = subscribers.routes.about(topic), subscribers.routes.version
            route, kept = subscribers.routes.of(topic), about.keep_last
            encodes = bool(route.remote or route.mailboxes or kept)
            plan = Plan(
                version, heard, route, senders, encodes, route.waits, kept, about.ack_wait,
            )  # fmt: skip
        if len(plans) < _MOST_PLANS or topic in plans:
            plans[topic] = plan
        return plan

    def _encode(self, publication: Publication, plan: Plan) -> None:
        """Encode for links, mailboxes and what is kept.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        published, subscribers, route = publication.published, self._subscribers, plan.route
        encoding = subscribers.encoding
        if route.remote and not published.serializer:
            encoding.encode(published, blocks=route.blocks)
        if plan.kept:
            publication.kept = self.retained.encode(published)
        if route.mailboxes:
            publication.mail = publication.mail or encoding.copy(published)

    def _number(self, publication: Publication, plan: Plan, number: int) -> int:
        """Take the next number and hand it to all, at one moment; 0, and nothing was done, when that is over.

        As long as the number is the next one, nobody has taken the room that there was. The I/O thread is
        never waited for. A filter that came before the number was taken is served: it changed the version
        first.
        """
        published, subscribers, numbers = publication.published, self._subscribers, self._numbers
        broadcast, topic = self._broadcast, published.topic
        published.sent_ms = time_ns() // 1_000_000
        encoded = publication.mail or publication.outgoing
        size = len(published.body) or (len(encoded[1]) if encoded else 0)
        with subscribers.lock:
            if plan.waits and not subscribers.admission.has_room(publication):
                return 0
            if subscribers.routes.version != plan.version:
                return 0
            # Nothing is called in between, and no object made: a finalizer could run there, and publish.
            if (numbers[topic] if topic in numbers else 0) + 1 != number:  # noqa: SIM401
                return 0
            numbers[topic] = number
            subscribers.commit(publication, number, size)
            if plan.kept and publication.kept is not None:
                self.retained.keep(published, publication.kept)
            self._counted["published"] += 1
            if plan.senders:
                broadcast.add(publication)
        if plan.heard != broadcast.version:
            self._send_late(publication, plan)
        return number

    def _send_late(self, publication: Publication, plan: Plan) -> None:
        """To filters that came after the plan, under no name that it has."""
        broadcast, published = self._broadcast, publication.published
        wanted, version = plan.senders, plan.heard
        while version != broadcast.version:
            version = broadcast.version
            late = tuple([each for each in broadcast.senders(published.topic) if each not in wanted])
            broadcast.prepare(publication, published.number, late)
            with self._subscribers.lock:
                broadcast.add(publication)
            broadcast.flush()
            wanted += late

    # --- what is said of topics ----------------------------------------------------------------------

    def forget_plans(self) -> None:
        """What is said of topics has changed; any thread."""
        self._plans = {}

    def on_asked(self, callback: Callable[[str], object]) -> None:
        """Have a function called with each topic that a subscription names, before that is acted upon."""
        self._broadcast.on_asked = self._subscribers.routes.on_asked = callback

    def is_wanted(self, topic: str) -> bool:
        """True when somebody listens to a topic, by a filter or by a link."""
        return bool(self._broadcast.senders(topic)) or self._subscribers.routes.is_wanted(topic)

    def withdraw(self, topic: str, reason: str) -> bool:
        """Offer a topic no more, and tell its readers why; whether it was there. Any thread."""
        broadcast = self._broadcast.goes(topic)
        if not self._subscribers.take_back(topic, reason):
            return False
        self.retained.forget(topic)
        self.declared.forget(topic)
        self.forget_plans()
        if broadcast:  # else nobody is to hear of its name
            self._broadcast.withdraw(topic)
        return True

    def types_of(self, topic: str) -> dict[str, str]:
        """What is said of a topic, or for ``*`` of all, by topic."""
        return self.declared.of((topic,))
