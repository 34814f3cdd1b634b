"""Publisher: the PUB endpoint of an agent (an XPUB socket, so that it knows who listens).

Publishing encodes, numbers and signs in the caller's thread and hands the frames to the I/O
thread through a bounded queue; when that is full the caller waits, at most `QUEUE_TIMEOUT`. A
notification that nobody subscribed to is numbered and not encoded. Each dialect is emitted only
while a filter asks for it. What could not be encoded or queued has no number.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq

from ..protocol.errors import AgentClosed, CallTimeout, LocalProtocolError
from ..protocol.frames import PZC00, PZC01, Buffer, topic_filter
from .counters import Counters
from .endpoints import bind, new_socket
from .filters import ANY, MARK_TOPIC, Filters
from .loop import Loop
from .watch import Watch
from .wire import Protocol

logger = logging.getLogger("pzc.publisher")

QUEUE_MESSAGES = 10_000
"""Encoded notifications that may wait for the I/O thread."""

QUEUE_TIMEOUT = 5.0
"""Seconds that `publish` waits for room in the queue."""

_BATCH = 256


class Publisher:
    """One XPUB socket, its filters, and the sequence of every topic.

    Args:
        loop: owner of the socket.
        endpoint: where to bind.
        protocol: encodes and signs.
        agent_id: sender in PZC01 headers.
        counters: where everything is counted.
        on_filters: called in the I/O thread after the set of filters changed.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        counters: Counters,
        on_filters: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._counters = counters
        self._on_filters = on_filters
        self.rep_endpoint = ""
        self._socket = new_socket(loop.context, zmq.XPUB)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        # Else a filter hidden behind the first part of a message would be set without being told.
        self._socket.setsockopt(zmq.ONLY_FIRST_SUBSCRIBE, 1)
        try:
            self.endpoint = bind(self._socket, endpoint)
        except BaseException:
            self._socket.close(0)
            raise
        self._watch: Watch | None = None
        self._filters = Filters(agent_id)
        self._state = threading.Condition()
        self._version = 0
        self._wanted: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._sequences: dict[str, int] = {}
        # Its holder may take it again: encoding can run a finalizer that publishes.
        self._publishing = threading.RLock()
        self._queue: deque[list[Buffer]] = deque()
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
        if self._watch is None:
            self._socket.close(0)
        else:
            self._watch.close()
        for condition in (self._room, self._state):
            with condition:
                condition.notify_all()

    def publish(
        self, topic: str, content: object, key: str = "", dialects: tuple[str, ...] | None = None
    ) -> int:
        """Number, encode and queue one notification; any thread but the I/O thread may wait here.

        Returns:
            The sequence number within the topic, from 1.

        Raises:
            LocalProtocolError: for an empty or reserved topic.
            SerializeError: when the content cannot be expressed.
            CallTimeout: when the queue stayed full for `QUEUE_TIMEOUT`.
            AgentClosed: after `close`.
        """
        if topic in ("", ANY, MARK_TOPIC):
            raise LocalProtocolError(f"nothing can be published as topic {topic!r}")
        self._wait_for_room()
        with self._publishing:
            number, encoded = self._number(topic, content, key, dialects)
            self._counters.add("published")
            self._enqueue(encoded)
        return number

    def _number(
        self, topic: str, content: object, key: str, dialects: tuple[str, ...] | None
    ) -> tuple[int, list[list[Buffer]]]:
        """Encode for whoever listens and take the next number; the I/O thread is never waited for.

        A filter that came before the number was taken is served: it changed the version first.
        """
        while True:
            version, number = self._version, self._sequences.get(topic, 0) + 1
            wanted = self.dialects_of(topic) if dialects is None else dialects
            encoded = [self._encode(dialect, topic, content, number, key) for dialect in wanted]
            if self._sequences.get(topic, 0) + 1 == number:
                break
        self._sequences[topic] = number
        while dialects is None and version != self._version:
            version = self._version
            late = [dialect for dialect in self.dialects_of(topic) if dialect not in wanted]
            encoded += [self._encode(dialect, topic, content, number, key) for dialect in late]
            wanted = (*wanted, *late)
        return number, encoded

    def _encode(self, dialect: str, topic: str, content: object, sequence: int, key: str) -> list[Buffer]:
        sender = self.rep_endpoint if dialect == PZC00 else self._agent_id
        return self._protocol.encode(sender, topic, content, sequence=sequence, key=key, dialect=dialect)

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

    def _enqueue(self, encoded: list[list[Buffer]]) -> None:
        self._queue.extend(encoded)
        if self._closed:
            raise AgentClosed("the agent was stopped; it publishes no more")
        if not self._draining:
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

    def _send(self, frames: list[Buffer]) -> None:
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
            self._state.notify_all()
        if version != self._version:
            self._on_filters()

    def _turn(self) -> dict[str, int]:
        """The filters are others now; the numbers that were taken until here."""
        self._version += 1
        return self._sequences

    def _header(self, dialect: str, topic: str) -> bytes:
        sender = self.rep_endpoint if dialect == PZC00 else self._agent_id
        return topic_filter(dialect, sender, topic)

    def dialects_of(self, topic: str) -> tuple[str, ...]:
        """Dialects in which somebody listens to a topic."""
        version = self._version
        known, wanted = self._wanted.get(topic, (None, ()))
        if known != version:
            accepted = [d for d in (PZC01, PZC00) if d in self._protocol.codec.accept]
            wanted = tuple(d for d in accepted if self._is_wanted(d, topic))
            self._wanted[topic] = version, wanted
        return wanted

    def _is_wanted(self, dialect: str, topic: str) -> bool:
        marked = dialect == PZC01 and self._filters.is_marked(topic)
        return marked or self._filters.matches(self._header(dialect, topic))

    def subscribers(self, topic: str) -> int:
        """Number of agents that listen to a topic; equal filters of original peers count as one."""
        with self._state:
            return self._filters.listeners(topic, self._header(PZC01, topic), self._header(PZC00, topic))

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
        """Last number and listeners of each topic."""
        return {
            topic: {"published": last, "subscribers": self.subscribers(topic)}
            for topic, last in list(self._sequences.items())
        }
