"""Publisher: the PUB endpoint of an agent (an XPUB socket, so that it knows who listens), and its links.

Publishing encodes, numbers, signs and sends in the caller's thread, which never waits for a broadcast: what a
reader does not take is dropped for it at the high-water mark, and counted by it. A notification that nobody
subscribed to is numbered and not encoded. Each dialect is emitted only while a filter asks for it. What could
not be encoded has no number. There is one way for all: what a topic needs of it stands in its `Plan`.

Readers with a link get it from the caller's thread, with the same number. The caller waits first while one of
them that is to be waited for has its window full; it holds nothing meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import cast

import zmq

from ...protocol.errors import AgentClosed, LocalProtocolError
from ...protocol.frames import Buffer
from ...protocol.records import Records
from ...protocol.signing import Suite
from ...transport.counters import Counters
from ...transport.endpoints import bind, new_socket
from ...transport.loop import Loop
from ...transport.sending import Sending
from ...transport.watch import Watch
from ...transport.wire import Protocol, now_ms
from .acting import Acting
from .beats import BEAT_TOPIC, Beats, beat_filter
from .bodies import Bodies, Outgoing, Plan, plan_of
from .declared import Declared
from .filters import ANY, MARK_TOPIC, Filters
from .keeping import Keeping
from .links.outlets import Outlets
from .links.published import Published
from .links.turns import Turn
from .mail.pace import SHARE, give_way
from .voices import Voice, Voices

logger = logging.getLogger("pzc.publisher")

_BATCH = 256
_MOST_PLANS = 10_000


class Publisher:
    """One XPUB socket, its filters, and the sequence of every topic.

    Args:
        loop: owner of the socket.
        endpoint: where to bind; empty for nowhere, so that there are links only.
        protocol: encodes and signs.
        agent_id: sender in PZC01 headers.
        records: makes frames of what is broadcast the prepared way.
        counters: where everything is counted.
        outlets: its links; closed by their owner.
        on_filters: called in the I/O thread after the set of filters, or of links, changed.
    """

    def __init__(
        self, loop: Loop, endpoint: str, protocol: Protocol, agent_id: str, records: Records,
        counters: Counters, outlets: Outlets, on_filters: Callable[[], None],
    ) -> None:  # fmt: skip
        self._loop = loop
        self._protocol = protocol
        self._records = records
        self._counters = counters
        self._outlets = outlets
        self._socket = new_socket(loop.context, zmq.XPUB)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        # Else a filter hidden behind the first part of a message would be set without being told.
        self._socket.setsockopt(zmq.ONLY_FIRST_SUBSCRIBE, 1)
        try:
            self.endpoint = bind(self._socket, endpoint) if endpoint else ""
        except BaseException:
            self._socket.close(0)
            raise
        self._sending = Sending(loop, self._socket, self._on_readable, self._on_refused)
        self._watch: Watch | None = None
        self._filters = Filters(agent_id)
        self.voices = Voices(agent_id, self._filters, protocol.speaks)
        beats = beat_filter(agent_id)
        self._beats = Beats(loop, protocol, agent_id, lambda: self._filters.matches(beats), self._tell)
        self._state = threading.Condition()
        self._version = 0
        self._acting = Acting(self._state, self._changes, on_filters)
        self._wanted: dict[str, tuple[int, tuple[Voice, ...]]] = {}
        self._plans: dict[str, Plan] = {}  # a new one when what is said of topics changes
        self._sequences = outlets.numbers
        self.declared = Declared()
        self.keeping = Keeping(protocol, outlets, counters)
        # Its holder may take it again: encoding can run a finalizer that publishes.
        self._publishing = threading.RLock()
        self._bodies = Bodies(protocol, records, outlets, self.keeping, self.voices.own)
        self._seals = protocol.codec.keyring is not None and protocol.codec.suite is Suite.AES256_GCM
        self._closed = False

    def start(self) -> None:
        """Watch the socket; I/O thread."""
        self._watch = Watch(self._loop, self._socket, self.endpoint, self._counters, "pub_strangers")
        self._sending.start()

    def close(self) -> None:
        """Tell how far each topic is, close the socket, end every wait; I/O thread."""
        self._closed = True
        self._beats.close()
        self._sending.close()
        if self._watch is None:
            self._socket.close(0)
        else:
            self._watch.close()
        self._acting.close()

    def publish(
        self,
        topic: str,
        content: object,
        key: str = "",
        dialects: tuple[str, ...] | None = None,
        ack_wait: float | None = None,
    ) -> int:
        """Number and send one notification; any thread but the I/O thread may wait here.

        Args:
            topic: neither empty nor reserved.
            content: anything the serializer can express.
            key: what it is about.
            dialects: broadcast in these, whoever listens.
            ack_wait: seconds to wait for links that get it to be done with it.

        Returns:
            The sequence number within the topic, from 1; that of the one before when the topic is throttled.

        Raises:
            LocalProtocolError: for an empty or reserved topic.
            TypeMismatch: when the topic was advertised with another type.
            SerializeError: when the content cannot be expressed.
            CallTimeout: when a reader's window stayed full for the time of its policy.
            AgentClosed: after `close`.
        """
        return self.publish_prepared(Published(topic, key, content), dialects, ack_wait)

    def publish_prepared(
        self, published: Published, dialects: tuple[str, ...] | None = None, ack_wait: float | None = None
    ) -> int:
        """As `publish`, of what may have its body already; that is given back when it is not published."""
        turn = Turn(published, monotonic())
        try:
            number = self._publish(turn, dialects, ack_wait)
        except BaseException:
            self._outlets.withdraw(turn)
            raise
        if turn.route.outlets:
            self._outlets.flush(turn)
            if published.waited:
                self._outlets.wait_until_done(turn)
        return number

    def _publish(self, turn: Turn, dialects: tuple[str, ...] | None, ack_wait: float | None) -> int:
        outlets, topic, admitted = self._outlets, turn.published.topic, False
        if self._closed:
            raise _over()
        if self.declared.classes:
            self.declared.check(topic, turn.published.content)
        while True:
            version, plans = self._version, self._plans
            plan = plans.get(topic)
            if plan is None or plan.version != outlets.routes.version or plan.heard != version:
                plan = self._plan(topic, version, plans)
            if plan.throttled and not admitted and outlets.routes.is_throttled(topic, turn.since):
                outlets.withdraw(turn)
                return self._sequences.get(topic, 0)
            admitted, turn.route = True, plan.route
            turn.ack_wait = plan.ack_wait if ack_wait is None else ack_wait
            if plan.waits and not outlets.admit(turn):
                outlets.wait(turn)
                continue
            if plan.encodes:
                self._bodies.prepare(turn, plan)
            voices = plan.voices if dialects is None else self.voices.of(dialects, topic)
            late = version if dialects is None else None
            if voices or turn.framed:
                with self._publishing:  # which sends in the order of numbers
                    number = self._number(turn, plan, voices, late)
            else:
                number = self._number(turn, plan, voices, late)
            if number:
                return number

    def _plan(self, topic: str, heard: int, plans: dict[str, Plan]) -> Plan:
        given = cast("object", topic)
        if not isinstance(given, str) or topic in ("", ANY, MARK_TOPIC, BEAT_TOPIC):
            raise LocalProtocolError(f"nothing can be published as topic {topic!r}")
        plan = plan_of(topic, self._outlets, heard, self._voices_of(topic), self.keeping.keeps(topic))
        if len(plans) < _MOST_PLANS or topic in plans:
            plans[topic] = plan
        return plan

    def _number(self, turn: Turn, plan: Plan, voices: tuple[Voice, ...], version: int | None) -> int:
        """Take the next number and hand it to all, at one moment; 0, and nothing was done, when that is over.

        The I/O thread is never waited for. A filter that came before the number was taken is served: it
        changed the version first.
        """
        published, outlets, numbers = turn.published, self._outlets, self._sequences
        topic = published.topic
        number, published.sent_ms = numbers.get(topic, 0) + 1, now_ms()
        outgoing = [self._bodies.seal(voice, turn, number) for voice in voices]
        if turn.framed:
            self._bodies.record(turn, number, outgoing)
        encoded = turn.mail or turn.aired
        size = len(published.body) or (len(encoded[1]) if encoded else 0)
        with outlets.lock:
            if plan.waits and not outlets.has_room(turn):
                return 0
            # Last, because a finalizer may publish in the middle of whatever makes objects.
            if numbers.get(topic, 0) + 1 != number or outlets.routes.version != plan.version:
                return 0
            outlets.commit(turn, number, size)
            if turn.kept is not None:
                self.keeping.keep(published, turn.kept)
        self._counters.add("published")
        if outgoing:
            self._send_all(outgoing, turn.since)
        if version is not None and version != self._version:
            self._send_late(turn, voices, version)
        if plan.readers and not number & SHARE - 1 and not self._loop.in_thread():
            give_way(plan.readers, turn.since)
        return number

    def _send_late(self, turn: Turn, wanted: tuple[Voice, ...], version: int) -> None:
        """To filters that came after that version, in no voice that was wanted before."""
        with self._publishing:
            while version != self._version:
                version = self._version
                late = [voice for voice in self._voices_of(turn.published.topic) if voice not in wanted]
                self._send_all(
                    [self._bodies.seal(voice, turn, turn.published.number) for voice in late], turn.since
                )
                wanted = (*wanted, *late)

    def _send_all(self, encoded: list[Outgoing], now: float) -> None:
        if self._closed:
            raise _over()
        for topic, number, frames in encoded:
            self._emit(topic, number, frames, now)

    def _tell(self, frames: list[Buffer]) -> None:
        self._emit("", 0, frames, monotonic())

    def _emit(self, topic: str, number: int, frames: list[Buffer], now: float) -> None:
        """Send a message, whose topic and number are told by the next beat, unless the topic is empty."""
        if not self._sending.send(frames, now):
            raise _over()
        if topic:
            self._beats.sent(topic, number)

    def _on_refused(self, error: zmq.ZMQError) -> None:
        self._counters.add("publish_dropped")
        logger.warning("a notification could not be sent: %s", error)

    def _on_readable(self) -> None:
        version = self._version
        with self._state:
            for _ in range(_BATCH):
                parts = self._sending.receive()
                if parts is None:
                    break
                if len(parts) != 1 or not self._filters.take(parts[0], self._turn):
                    self._counters.add("pub_malformed")
                else:
                    self._beats.again(self._filters.marked(parts[0]), self._sequences)
            else:
                self._loop.call(self._on_readable)  # the descriptor does not tell of the others again
        if version != self._version:
            self._acting.act()

    def _changes(self) -> int:
        return self._version + self._outlets.routes.changes

    def forget_wanted(self) -> None:
        """What is said of topics has changed; any thread."""
        self._wanted, self._plans = {}, {}

    def _turn(self) -> dict[str, int]:
        """The filters are others now; the numbers that were taken until here."""
        self._version += 1
        return self._sequences

    def _voices_of(self, topic: str) -> tuple[Voice, ...]:
        version = self._version
        known, wanted = self._wanted.get(topic, (None, ()))
        if known != version:
            goes = self._outlets.routes.about(topic).is_broadcast(self._seals)
            wanted = self.voices.all(topic) if goes else ()
            self._wanted[topic] = version, wanted
        return wanted

    def dialects_of(self, topic: str) -> tuple[str, ...]:
        """Dialects in which somebody listens to a topic."""
        return tuple(dict.fromkeys(dialect for dialect, _ in self._voices_of(topic)))

    def is_wanted(self, topic: str) -> bool:
        """True when somebody listens to a topic, by a filter or by a link."""
        return bool(self._voices_of(topic)) or self._outlets.routes.is_wanted(topic)

    def check_broadcast(self, topic: str) -> None:
        """Judge a subscription to the broadcast plane.

        Raises:
            PolicyRefused: when the topic does not go so far, or is secret.
        """
        self._outlets.routes.about(topic).check_broadcast(topic, self._seals)

    def on_links(self, *, before_confirming: bool = False) -> None:
        """What links want has changed; any thread. It was acted upon before a reader is told so."""
        (self._loop.run if before_confirming else self._loop.call)(self._acting.act)

    def readers(self, topic: str) -> set[str]:
        """What the agents are known by that listen to a topic; an original peer is not known."""
        readers = self._outlets.routes.readers(topic)
        with self._state:
            return readers | self._filters.who(topic)

    def subscribers(self, topic: str) -> int:
        """Number of agents that listen to a topic; equal filters of original peers count as one."""
        readers = self._outlets.routes.readers(topic)
        with self._state:
            return self._filters.listeners(topic, *self.voices.headers(topic), readers)

    def wait_for_subscribers(self, topic: str, count: int, timeout: float) -> bool:
        """Wait until it was acted upon ``count`` agents that listen; False after ``timeout`` seconds."""

        def enough() -> tuple[bool, int]:
            with self._outlets.lock:
                return self.subscribers(topic) >= count, self._changes()

        return self._acting.wait(enough, timeout)

    def has_mark(self, mark: str) -> bool:
        """True once the subscriber's mark, and so every filter it set before, has arrived."""
        with self._state:
            return self._filters.has_mark(mark)

    def withdraw(self, topic: str, reason: str) -> bool:
        """Offer a topic no more, and tell its readers why; whether it was there. Any thread."""
        broadcast = self._outlets.routes.about(topic).is_broadcast(self._seals)
        if not self._outlets.take_back(topic, reason):
            return False
        self.keeping.advertise(topic, False)
        self.declared.forget(topic)
        self.forget_wanted()
        if broadcast:  # else nobody is to hear of its name
            self._loop.call(partial(self._beats.withdraw, topic, self._sequences[topic]))
        return True

    def types_of(self, topic: str) -> dict[str, str]:
        """What is said of a topic, or for ``*`` of all, by topic."""
        return self.declared.of((topic,))

    def last_at(self, mark: str) -> int | dict[str, int]:
        """The last number before a mark came that is held; for ``*`` that of each topic.

        Whatever is numbered later was encoded for the mark's filter.
        """
        with self._state:
            return self._filters.last_at(mark)


def _over() -> AgentClosed:
    return AgentClosed("the agent was stopped; it publishes no more")
