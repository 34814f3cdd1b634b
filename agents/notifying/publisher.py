"""Publisher: the PUB endpoint of an agent (an XPUB socket, so that it knows who listens), and its links.

Publishing encodes, numbers and signs in the caller's thread and hands the frames to the I/O
thread through a bounded queue; when that is full the caller waits, at most `QUEUE_TIMEOUT`. A
notification that nobody subscribed to is numbered and not encoded. Each dialect is emitted only
while a filter asks for it. What could not be encoded or queued has no number.

Readers with a link get it from the caller's thread, with the same number. The caller waits first while one of
them that is to be waited for has its window full; it holds nothing meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

import zmq

from ...protocol.errors import AgentClosed, CallTimeout, LocalProtocolError
from ...protocol.frames import PZC00, PZC01, Buffer, topic_filter
from ..counters import Counters
from ..links.express import Express, prepare
from ..links.outlets import Outlets
from ..links.published import Published
from ..links.turns import Turn
from ..sockets.endpoints import bind, new_socket
from ..sockets.loop import Loop
from ..sockets.watch import Watch
from ..wire import Protocol
from .beats import BEAT_TOPIC, Beats, beat_filter
from .filters import ANY, MARK_TOPIC, Filters
from .keeping import Keeping
from .metering import topics_told

logger = logging.getLogger("pzc.publisher")

QUEUE_MESSAGES = 10_000
"""Encoded notifications that may wait for the I/O thread."""

QUEUE_TIMEOUT = 5.0
"""Seconds that `publish` waits for room in the queue."""

_BATCH = 256
_MAX_EXPRESS = 10_000

_Outgoing = tuple[str, int, list[Buffer]]
"""Frames behind the topic and number that a beat is to tell; an empty topic for none."""


class Publisher:
    """One XPUB socket, its filters, and the sequence of every topic.

    Args:
        loop: owner of the socket.
        endpoint: where to bind; empty for nowhere, so that there are links only.
        protocol: encodes and signs.
        agent_id: sender in PZC01 headers.
        counters: where everything is counted.
        outlets: its links; closed by their owner.
        on_filters: called in the I/O thread after the set of filters, or of links, changed.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        counters: Counters,
        outlets: Outlets,
        on_filters: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._counters = counters
        self._outlets = outlets
        self._on_filters = on_filters
        self.rep_endpoint = ""
        self._socket = new_socket(loop.context, zmq.XPUB)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        # Else a filter hidden behind the first part of a message would be set without being told.
        self._socket.setsockopt(zmq.ONLY_FIRST_SUBSCRIBE, 1)
        try:
            self.endpoint = bind(self._socket, endpoint) if endpoint else ""
        except BaseException:
            self._socket.close(0)
            raise
        self._watch: Watch | None = None
        self._filters = Filters(agent_id)
        beats = beat_filter(agent_id)
        self._beats = Beats(loop, protocol, agent_id, lambda: self._filters.matches(beats), self._transmit)
        self._state = threading.Condition()
        self._version = 0
        self._wanted: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._express: dict[str, Express] = {}  # another one when somebody listens, or more is said of topics
        self._sequences = outlets.numbers
        self.keeping = Keeping(protocol, outlets, counters)
        # Its holder may take it again: encoding can run a finalizer that publishes.
        self._publishing = threading.RLock()
        self._queue: deque[_Outgoing] = deque()
        self._draining = False
        self._room = threading.Condition()
        self._waiting = 0
        self._closed = False

    def start(self) -> None:
        """Watch the socket; I/O thread."""
        self._loop.register(self._socket, self._on_readable)
        self._watch = Watch(self._loop, self._socket, self.endpoint, self._counters, "pub_strangers")

    def close(self) -> None:
        """Send what is queued, close the socket, end every wait; I/O thread."""
        self._closed = True
        while self._queue:
            self._send(self._queue.popleft())
        self._beats.close()
        if self._watch is None:
            self._socket.close(0)
        else:
            self._watch.close()
        for condition in (self._room, self._state):
            with condition:
                condition.notify_all()

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
            SerializeError: when the content cannot be expressed.
            CallTimeout: when the queue stayed full for `QUEUE_TIMEOUT`, or a reader's window for the time of
                its policy.
            AgentClosed: after `close`.
        """
        return self.publish_prepared(Published(topic, key, content), dialects, ack_wait)

    def express(self, topic: str, content: object, key: str) -> int:
        """As `publish`, when that can be done on the shortest way; else 0, and nothing was done."""
        known = self._express
        express = known.get(topic)
        if express is None or self._closed:
            return 0
        published = express.publish(content, key)
        if published is None:
            return 0
        self._counters.add("published")
        if self._express is not known:  # a filter may have come before the number was taken
            with self._publishing:
                self._enqueue(self._encode_late(published, -1, ()))
        return published.number

    def _prepare_express(self, known: dict[str, Express], topic: str) -> None:
        express = known.get(topic)
        if len(known) < _MAX_EXPRESS if express is None else express.is_stale:
            known.pop(topic, None)
            if (express := prepare(self._outlets, topic)) is not None:
                known[topic] = express

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
        if turn.route.legs:
            self._outlets.flush(turn)
            if published.waited:
                self._outlets.wait_until_done(turn, ack_wait or 0.0)
        return number

    def _publish(self, turn: Turn, dialects: tuple[str, ...] | None, ack_wait: float | None) -> int:
        outlets, topic = self._outlets, turn.published.topic
        if topic in ("", ANY, MARK_TOPIC, BEAT_TOPIC):
            raise LocalProtocolError(f"nothing can be published as topic {topic!r}")
        if outlets.routes.is_throttled(topic, turn.since):
            outlets.withdraw(turn)
            return self._sequences.get(topic, 0)
        self._wait_for_room()
        while True:
            with self._publishing:
                if outlets.admit(turn):
                    number, encoded = self._number(turn, dialects, ack_wait)
                    self._counters.add("published")
                    self._enqueue(encoded)
                    return number
            outlets.wait(turn)

    def _number(
        self, turn: Turn, dialects: tuple[str, ...] | None, ack_wait: float | None
    ) -> tuple[int, list[_Outgoing]]:
        """Encode for whoever listens, take the next number and hand it to the links, all at one moment.

        The I/O thread is never waited for. A filter that came before the number was taken is served: it
        changed the version first.
        """
        published, outlets = turn.published, self._outlets
        topic, express = published.topic, self._express
        while True:
            outlets.prepare(turn)
            kept = self.keeping.encode(published)
            version, number = self._version, self._sequences.get(topic, 0) + 1
            wanted = self.dialects_of(topic) if dialects is None else dialects
            encoded = [self._encode(dialect, published, number) for dialect in wanted]
            with outlets.lock:
                if self._sequences.get(topic, 0) + 1 == number and outlets.is_prepared(turn):
                    outlets.commit(turn, number, ack_wait)
                    if kept is not None:
                        self.keeping.keep(published, kept)
                    if encoded and not published.serializer:
                        outlets.meters[topic].add(turn.since, 0, len(encoded[0][2][2]))
                    break
        if dialects is None:
            if not wanted and kept is None:
                self._prepare_express(express, topic)
            encoded += self._encode_late(published, version, wanted)
        return number, encoded

    def _encode_late(self, published: Published, version: int, wanted: tuple[str, ...]) -> list[_Outgoing]:
        """What is wanted by filters that came after that version, in no dialect that was wanted before."""
        encoded: list[_Outgoing] = []
        while version != self._version:
            version = self._version
            late = [dialect for dialect in self.dialects_of(published.topic) if dialect not in wanted]
            encoded += [self._encode(dialect, published, published.number) for dialect in late]
            wanted = (*wanted, *late)
        return encoded

    def _encode(self, dialect: str, published: Published, number: int) -> _Outgoing:
        sender = self.rep_endpoint if dialect == PZC00 else self._agent_id
        frames = self._protocol.encode(
            sender, published.topic, published.content, sequence=number, key=published.key, dialect=dialect
        )
        return published.topic if dialect == PZC01 else "", number, frames

    def _wait_for_room(self) -> None:
        if len(self._queue) < QUEUE_MESSAGES or self._loop.in_thread():
            return
        with self._room:
            self._waiting += 1
            try:
                free = self._room.wait_for(
                    lambda: self._closed or len(self._queue) < QUEUE_MESSAGES, QUEUE_TIMEOUT
                )
            finally:
                self._waiting -= 1
        if not free:
            self._counters.add("publish_refused")
            raise CallTimeout(f"the publish queue stayed full for {QUEUE_TIMEOUT:g} s")

    def _enqueue(self, encoded: list[_Outgoing]) -> None:
        self._queue.extend(encoded)
        if self._closed:
            raise AgentClosed("the agent was stopped; it publishes no more")
        if encoded and not self._draining:
            self._draining = True
            self._loop.call(self._drain)

    def _drain(self) -> None:
        self._draining = False
        for _ in range(min(_BATCH, len(self._queue))):
            self._send(self._queue.popleft())
        if self._queue and not self._draining:
            self._draining = True
            self._loop.call(self._drain)
        if self._waiting:
            with self._room:
                self._room.notify_all()

    def _send(self, outgoing: _Outgoing) -> None:
        topic, number, frames = outgoing
        self._transmit(frames)
        if topic:
            self._beats.sent(topic, number)

    def _transmit(self, frames: list[Buffer]) -> None:
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK, copy=len(frames[2]) < 1 << 16)
        except zmq.ZMQError as exc:
            self._counters.add("publish_dropped")
            logger.warning("a notification could not be sent: %s", exc)

    def _on_readable(self) -> None:
        version = self._version
        with self._state:
            for _ in range(_BATCH):
                try:
                    parts = self._socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                if len(parts) != 1 or not self._filters.take(parts[0], self._turn):
                    self._counters.add("pub_malformed")
                else:
                    self._beats.again(self._filters.marked(parts[0]), self._sequences)
            self._state.notify_all()
        if version != self._version:
            self._on_filters()

    def forget_wanted(self) -> None:
        """What is said of topics has changed; any thread."""
        self._wanted, self._express = {}, {}

    def _turn(self) -> dict[str, int]:
        """The filters are others now; the numbers that were taken until here."""
        self._version += 1
        self._express = {}
        return self._sequences

    def _header(self, dialect: str, topic: str) -> bytes:
        sender = self.rep_endpoint if dialect == PZC00 else self._agent_id
        return topic_filter(dialect, sender, topic)

    def dialects_of(self, topic: str) -> tuple[str, ...]:
        """Dialects in which somebody listens to a topic."""
        version = self._version
        known, wanted = self._wanted.get(topic, (None, ()))
        if known != version:
            goes = self._outlets.routes.about(topic).scope == "all"
            accepted = [d for d in (PZC01, PZC00) if goes and d in self._protocol.codec.accept]
            wanted = tuple(d for d in accepted if self._is_wanted(d, topic))
            self._wanted[topic] = version, wanted
        return wanted

    def _is_wanted(self, dialect: str, topic: str) -> bool:
        marked = dialect == PZC01 and self._filters.is_marked(topic)
        return marked or self._filters.matches(self._header(dialect, topic))

    def is_wanted(self, topic: str) -> bool:
        """True when somebody listens to a topic, by a filter or by a link."""
        return bool(self.dialects_of(topic)) or self._outlets.routes.is_wanted(topic)

    def check_broadcast(self, topic: str) -> None:
        """Judge a subscription to the broadcast plane.

        Raises:
            PolicyRefused: when the topic does not go so far.
        """
        self._outlets.routes.about(topic).check_broadcast(topic)

    def on_links(self) -> None:
        """The set of links, or of what they want, has changed; any thread."""
        with self._state:
            self._state.notify_all()
        self._loop.call(self._on_filters)

    def subscribers(self, topic: str) -> int:
        """Number of agents that listen to a topic; equal filters of original peers count as one."""
        readers = self._outlets.routes.readers(topic)
        headers = self._header(PZC01, topic), self._header(PZC00, topic)
        with self._state:
            return self._filters.listeners(topic, *headers, readers)

    def wait_for_subscribers(self, topic: str, count: int, timeout: float) -> bool:
        """Wait until at least ``count`` agents listen to a topic; False after ``timeout`` seconds."""
        with self._state:
            self._state.wait_for(lambda: self._closed or self.subscribers(topic) >= count, timeout)
            return not self._closed and self.subscribers(topic) >= count

    def has_mark(self, mark: str) -> bool:
        """True once the subscriber's mark, and so every filter it set before, has arrived."""
        with self._state:
            return self._filters.has_mark(mark)

    def last_at(self, mark: str) -> int | dict[str, int]:
        """The last number before a mark came that is held; for ``*`` that of each topic.

        Whatever is numbered later was encoded for the mark's filter.
        """
        with self._state:
            return self._filters.last_at(mark)

    def statistics(self) -> dict[str, Any]:
        """Last number and listeners of each topic, what was dropped for links, and how much it is."""
        return topics_told(self._outlets, self.subscribers)
