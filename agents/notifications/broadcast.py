"""Broadcast: the PUB endpoint of an agent, an XPUB socket, so that it knows who listens.

What waits is sealed and sent by the I/O thread. A publisher never waits for a reader: what one does not
take is dropped for it at the high-water mark, which counts messages, and counted by it. Nothing is emitted
that no filter asks for. After that the `Heartbeat` sends the last number of each topic.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import zmq

from ...protocol.errors import AgentClosed
from ...protocol.frames import PZC01, Buffer, topic_filter
from ...protocol.link_messages import Body
from ...protocol.records import Record, Records
from ...protocol.signing import Suite
from ...transport.counters import Counters
from ...transport.endpoints import bind, new_socket
from ...transport.loop import Loop
from ...transport.sending import Sending
from ...transport.watch import Watch
from ...transport.wire import Protocol
from ..compat.pizco import PizcoSubscribers
from .filters import Filters
from .heartbeat import Heartbeat, beat_filter
from .links.encoding import Encoding
from .links.publication import Publication
from .links.topics import Advertised

logger = logging.getLogger("pzc.publisher")

_BATCH = 256

_Waiting = Record | Sequence[Buffer]


def over() -> AgentClosed:
    """What whoever publishes after the end is told."""
    return AgentClosed("the agent was stopped; it publishes no more")


class Broadcast:
    """One XPUB socket, and its filters.

    Args:
        loop: owner of the socket.
        endpoint: where to bind; empty for nowhere.
        protocol: encodes and signs.
        agent_id: sender in PZC01 headers.
        records: makes frames of what is broadcast the prepared way.
        counters: where everything is counted.
        lock: of all links, and of ``numbers``.
        numbers: the last number of each topic.
        about: what is said of a topic.
        encoding: encodes what is not encoded for others.
        others: who listens under other names of the agent.

    Attributes:
        endpoint: where it is bound.
        version: another, greater one after each change of the filters.
        on_change: called in the I/O thread then.
    """

    def __init__(
        self, loop: Loop, endpoint: str, protocol: Protocol, agent_id: str, records: Records,
        counters: Counters, lock: threading.RLock, numbers: Mapping[str, int],
        about: Callable[[str], Advertised], encoding: Encoding, others: PizcoSubscribers,
    ) -> None:  # fmt: skip
        self._loop = loop
        self._protocol = protocol
        self._codec = protocol.codec
        self._records = records
        self._lock = lock
        self._counters = counters
        self._numbers = numbers
        self._about = about
        self._encoding = encoding
        self._sealed = protocol.codec.keyring is not None and protocol.codec.suite is Suite.AES256_GCM
        self._socket = new_socket(loop.context, zmq.XPUB)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        # Else a filter hidden behind the first part of a message would be set without being told.
        self._socket.setsockopt(zmq.ONLY_FIRST_SUBSCRIBE, 1)
        try:
            self.endpoint = bind(self._socket, endpoint) if endpoint else ""
        except BaseException:
            self._socket.close(0)
            raise
        self.version = 0
        self.on_change: Callable[[], object] = bool
        self.on_asked: Callable[[str], object] = bool
        self._sending = Sending[_Waiting](loop, self._socket, self._on_refused, self._frames)
        self._watch: Watch | None = None
        self._state = threading.Lock()  # of the filters
        self._agent_id, self._others = agent_id, others
        self._filters = Filters(agent_id, others.count)
        beats = beat_filter(agent_id)
        self._heartbeat = Heartbeat(
            loop, protocol, agent_id, lambda: self._filters.matches(beats), self._tell
        )

    def start(self) -> None:
        """Watch the socket; I/O thread."""
        self._watch = Watch(self._loop, self._socket, self.endpoint, self._counters, "pub_strangers")
        self._loop.register(self._socket, self._on_readable)

    def close(self) -> None:
        """Tell how far each topic is, and close the socket; I/O thread."""
        self._sending.send_all()  # first, because the heartbeat sends its numbers
        self._heartbeat.close()
        self._sending.close()
        watch, self._watch = self._watch, None
        if watch is None:
            self._socket.close(0)
        else:
            watch.close()

    # --- publishing ----------------------------------------------------------------------------------

    def prepare(self, publication: Publication, number: int, senders: Iterable[str]) -> None:
        """Encode a publication for each of these senders, before it has its number.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when the wire cannot carry it.
        """
        published = publication.published
        topic, key, mail = published.topic, published.key, publication.mail
        outgoing: tuple[str, Body] | None = None
        spoken: tuple[list[Buffer], ...] = ()
        for sender in senders:
            if sender is self._agent_id:
                outgoing = publication.outgoing
                if outgoing is None:
                    outgoing = mail or self._encoding.copy(published)
                self._records.header(topic, number, key)  # which judges its length
            else:  # of which nothing is numbered
                spoken += (self._others.encode(sender, topic, published.content),)
        publication.outgoing, publication.spoken = outgoing, spoken

    def add(self, publication: Publication) -> None:
        """Have what was prepared sent with the next `flush`; with the lock, so that numbers are in order.

        Raises:
            AgentClosed: after `close`.
        """
        published, outgoing, add = publication.published, publication.outgoing, self._sending.add
        if outgoing is not None:
            topic, number = published.topic, published.number
            record = publication.record
            if record is None or outgoing is not publication.mail:
                record = Record(topic, number, published.sent_ms, published.key, *outgoing)
            if not add(record):
                raise over()
        for frames in publication.spoken:
            if not add(frames):
                raise over()

    def _frames(self, waiting: Sequence[_Waiting]) -> list[Sequence[Buffer] | None]:
        """Of each its frames, sealed now where they are not yet."""
        return [self._frames_of(each) if isinstance(each, Record) else each for each in waiting]

    def _frames_of(self, record: Record) -> Sequence[Buffer] | None:
        header = self._records.seal(record, self._lock)
        self._heartbeat.sent(record.topic, record.number)
        if header:
            return record.frames(header)
        self._counters.add("publish_dropped")
        logger.warning("notification %d of %r could not be sealed", record.number, record.topic[:80])
        return None

    def flush(self) -> None:
        """Send what waits; any thread."""
        self._sending.flush()

    def tell_others(self, topic: str, content: object) -> None:
        """Send something without a number to those who listen under other names; errors as `prepare`."""
        for sender in self._others.senders(topic, self._filters.matches):
            self._tell(self._others.encode(sender, topic, content))

    def _tell(self, frames: list[Buffer]) -> None:
        self._sending.add(frames)
        self._sending.flush()

    def _on_refused(self, error: zmq.ZMQError) -> None:
        self._counters.add("publish_dropped")
        logger.warning("a notification could not be sent: %s", error)

    def withdraw(self, topic: str) -> None:
        """Tell that a topic is offered no more; any thread."""
        self._loop.call(partial(self._heartbeat.withdraw, topic, self._numbers[topic]))

    # --- who listens ---------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        version = self.version
        with self._state:
            for _ in range(_BATCH):
                try:
                    parts = self._socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                if len(parts) != 1 or not self._filters.take(parts[0], self._turn):
                    self._counters.add("pub_malformed")
                else:
                    topic = self._filters.marked(parts[0])
                    self._heartbeat.again(topic, self._numbers)
                    self.on_asked(topic)
        if version != self.version:
            self.on_change()

    def _turn(self) -> Mapping[str, int]:
        """The filters are others now; the numbers that were taken until here."""
        self.version += 1
        return self._numbers

    def goes(self, topic: str) -> bool:
        """Whether a topic may be broadcast."""
        return self._about(topic).is_broadcast(self._sealed)

    def check(self, topic: str) -> None:
        """Judge a subscription.

        Raises:
            PolicyRefused: when the topic does not go so far, or is secret.
        """
        self._about(topic).check_broadcast(topic, self._sealed)

    def senders(self, topic: str) -> tuple[str, ...]:
        """Names of this agent under which somebody listens to a topic."""
        if not self.goes(topic):
            return ()
        others, filters = self._others.senders(topic, self._filters.matches), self._filters
        heard = filters.is_marked(topic) or filters.matches(topic_filter(PZC01, self._agent_id, topic))
        return (self._agent_id, *others) if heard and PZC01 in self._codec.accept else others

    def readers(self, topic: str) -> set[str]:
        """What those are known by who marked a subscription to a topic."""
        with self._state:
            return self._filters.who(topic)

    def listeners(self, topic: str, others: set[str]) -> int:
        """Number of agents that listen to a topic, with others; equal foreign filters count as one."""
        header = topic_filter(PZC01, self._agent_id, topic)
        with self._state:
            return self._filters.listeners(topic, header, self._others.headers(topic), others)

    def has_mark(self, mark: str) -> bool:
        """True once the subscriber's mark, and so every filter it set before, has arrived."""
        with self._state:
            return self._filters.has_mark(mark)

    def last_at(self, mark: str) -> int | dict[str, int]:
        """The last number before a mark came that is held; for ``*`` that of each topic by now.

        Whatever is numbered later was encoded for the mark's filter.
        """
        with self._state:
            last = self._filters.last_at(mark)
        return dict(self._numbers) if last is None else last
