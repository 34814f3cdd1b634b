"""Publishing: what an agent offers to whoever publishes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from ...delivery.policies import Policy
from ...protocol.errors import ConfigError
from ...protocol.records import Records
from ...transport.counters import Counters
from ...transport.executor import Executor, InOrder
from ...transport.loop import Loop
from ...transport.timers import checked_wait
from ...transport.wire import Protocol
from ..compat import pizco
from ..naming.announcing import Announcing
from ..server.control import Word
from ..server.replies import Replies
from .broadcast import Broadcast
from .declared import withdrawn
from .keys import check_key, check_topic
from .links import farewell, inside
from .links.linking import Linking
from .links.loans import lend
from .links.published import Published
from .links.subscribers import Subscribers
from .links.topics import advertised
from .publisher import Publisher
from .readers import OnReaders, Readers
from .statistics import topics_told

if TYPE_CHECKING:
    from .links.loans import Array


class Publishing:
    """All that one agent publishes with: its PUB socket, links and mailboxes; any thread.

    Args:
        loop: owner of the sockets.
        endpoint: where to publish; empty for no PUB socket.
        protocol: encodes and signs.
        agent_id: of the agent.
        name: of the agent.
        counters: where everything is counted.
        replies: answers control words, and knows the REP endpoint.
        on_filters: called in the I/O thread after the set of filters, or of links, changed.
        check_usable: AgentClosed when the agent was stopped.
        callbacks: runs those of `on_readers`.
        partition: of the agent's name.

    Raises:
        BindError: naming the endpoint and the reason.

    Attributes:
        publisher: numbers and hands on.
        broadcast: its PUB socket.
        readers: who listens.
        subscribers: its links.
        words: control words, with what answers them.
        announcer: tells others of its topics; None until there is one.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint: str,
        protocol: Protocol,
        agent_id: str,
        name: str,
        counters: Counters,
        replies: Replies,
        on_filters: Callable[[], None],
        check_usable: Callable[[], None],
        callbacks: Executor,
        partition: str,
    ) -> None:
        self._loop = loop
        self._agent_id = agent_id
        self._fingerprint = protocol.fingerprint
        self._check_usable = check_usable
        self.announcer: Announcing | None = None
        records = Records(protocol.codec, agent_id, protocol.ids)
        self.subscribers = Subscribers(loop, protocol, counters, records)
        self.broadcast = Broadcast(
            loop, endpoint, protocol, agent_id, records, counters, self.subscribers.lock,
            self.subscribers.numbers, self.subscribers.routes.about, self.subscribers.encoding,
            pizco.PizcoSubscribers(protocol, replies.pizco.endpoint),
        )  # fmt: skip
        replies.pizco.publish = self.broadcast.tell_others
        self.publisher = Publisher(loop, protocol, counters, self.subscribers, self.broadcast)
        self.readers = Readers(loop, self.subscribers, self.broadcast, on_filters, InOrder(callbacks).submit)
        self.broadcast.on_change = self.readers.act
        self.linking = Linking(
            self.subscribers, loop, counters, protocol, agent_id, name, replies, self.readers.changed,
            self.publisher.retained, self.publisher.declared, partition,
        )  # fmt: skip
        self.words: dict[str, Word] = {"link": self.linking.answer}

    def start(self) -> None:
        """Take subscribers from now on."""
        self._loop.run(self.broadcast.start)
        inside.offered.offer(self._agent_id, (self.linking.hear, self._fingerprint))

    @property
    def endpoint(self) -> str:
        """Where it publishes, with the real port; empty with a single port."""
        return self.broadcast.endpoint

    def publish(
        self, topic: str, content: object, *, key: str | None = None, ack_wait: float | None = None
    ) -> int:
        """Send a notification to whoever subscribed; any thread.

        It waits while a reader with the policy ``block`` is not done with as many messages of the topic as
        its window holds, for the time and with the end that the policy says; in the I/O thread not at all.

        Args:
            topic: not empty.
            content: anything the serializer can express. Readers of this process with a link get this very
                object, so do not change it afterwards.
            key: what it is about within the topic; at most 2048 characters.
            ack_wait: seconds to wait, once and for all of them together, for the links that get it to be done
                with it; a link that misses this is not waited for until it acknowledges something again.
                Default: that of `advertise`, else not at all.

        Returns:
            The sequence number within the topic, from 1.

        Raises:
            SerializeError, LocalProtocolError: nothing was published.
            CallTimeout: a reader did not make room in time; nothing was published.
            AgentClosed: after `stop`, also while it waits.
        """
        about = "" if key is None else check_key(key)
        return self._publish(Published(topic, about, content), ack_wait)

    def _publish(self, published: Published, ack_wait: float | None) -> int:
        if self.publisher.closed:
            self._check_usable()
        return self.publisher.publish_prepared(published, ack_wait)

    def loan(
        self,
        topic: str,
        shape: int | tuple[int, ...],
        dtype: Any,
        *,
        key: str | None = None,
        ack_wait: float | None = None,
    ) -> AbstractContextManager[Array]:
        """A writable array to be filled in a ``with`` block, whose end publishes it without a copy.

        It lies in shared memory when it has more than 64 KiB and there is some, and holds anything at first.
        After the block it cannot be written; keep no slice of it to write to either. When the block raises,
        nothing is published.

        Args:
            topic: as `publish`.
            shape: of the array.
            dtype: of the array, without objects in it.
            key: as `publish`.
            ack_wait: as `publish`.

        Raises:
            LocalProtocolError: for a topic, key or dtype that cannot be sent; at the end of the block what
                `publish` raises.
            AgentClosed: after `stop`.
        """
        self._check_usable()
        publish = partial(self._publish, ack_wait=ack_wait)
        shared = self.subscribers.routes.about(topic).zero_copy
        published = Published(check_topic(topic), "" if key is None else check_key(key), None)
        return lend(self.subscribers.encoding, published, shape, dtype, publish, shared)

    def advertise(
        self,
        topic: str,
        *,
        buffers: int | None = None,
        policies: Iterable[Policy | str] | None = None,
        scope: str | None = None,
        ack_wait: float | None = None,
        zero_copy: bool | None = None,
        keep_last: bool | None = None,
        type: str | type | None = None,
        secret: bool = False,
    ) -> None:
        """Say how a topic differs from the defaults, best before anybody subscribes; the last word counts.

        Args:
            topic: one topic.
            buffers: most messages that a reader with the policy ``block`` may not be done with; default 32.
            policies: policies, or their names, that subscriptions over links may have; default ``drop``,
                ``latest``, ``block`` and ``mailbox``.
            scope: ``process``, ``host`` or ``all`` (default): how far it goes; other readers are refused.
            ack_wait: default of `publish`.
            zero_copy: False: contents do not lie in shared memory, so that no reader can keep that.
            keep_last: keep the last notification of each key, encoded, for ``subscribe(initial=True)``. One
                of more than 64 KiB is not kept, and counted as ``keep_refused``.
            type: what its messages are, a class or its name; subscribers that ask for another are refused.
                `publish` does not check it.
            secret: not broadcast unless everything is sealed (``PZC_SEAL``): only whoever asks this agent for
                it, over a link or with a mailbox, gets it.

        Raises:
            ConfigError: for an argument that cannot be used; for a topic LocalProtocolError.
            AgentClosed: after `stop`.
        """
        self._check_usable()
        said = {
            "buffers": buffers, "scope": scope, "ack_wait": ack_wait, "zero_copy": zero_copy,
            "keep_last": keep_last, "secret": secret or None,
        }  # fmt: skip
        given = {name: value for name, value in said.items() if value is not None}
        check_topic(topic)
        about = advertised(given, policies)
        if type is not None:
            self.publisher.declared.say(topic, type)
        self.subscribers.routes.advertise(topic, about)
        if not about.keep_last:
            self.publisher.retained.forget(topic)
        self.publisher.forget_plans()
        if type is not None:
            self.subscribers.declare(topic, self.publisher.declared)
        if self.announcer is not None:
            self.announcer.advertise(topic)

    def withdraw(self, topic: str) -> bool:
        """Offer a topic no more: lists and statistics forget it, and what was advertised and kept of it.

        Whoever subscribes to it by its name is told by `Subscription.on_lost`, behind what was published
        before or within a second. A publication makes it anew: its numbers go on, so that those who still
        subscribe get it, and miss nothing unseen.

        Args:
            topic: of this agent.

        Returns:
            Whether it was there.

        Raises:
            AgentClosed: after `stop`.
        """
        self._check_usable()
        there = self.publisher.withdraw(check_topic(topic), withdrawn(topic))
        self.subscribers.declare(topic, self.publisher.declared)
        if self.announcer is not None:
            self.announcer.withdraw(topic)
        return there

    def wait_for_subscribers(self, topic: str, n: int = 1, timeout: float = 5.0) -> bool:
        """Wait until ``n`` agents subscribe to a topic of this one; False after ``timeout`` seconds.

        An agent counts once, whether it listens by broadcast, by a link, or both. True once `on_subscribers`
        has run for them: a server is connected to its signal then, and what is emitted next reaches them.

        Raises:
            ConfigError: for a number or timeout that is none.
            LocalProtocolError: for what is no topic.
        """
        if type(n) is not int:
            raise ConfigError(f"n={n!r:.60} cannot be used: expected a whole number")
        return self.readers.wait(check_topic(topic), n, checked_wait(timeout))

    def on_readers(self, topic: str, callback: OnReaders | None) -> None:
        """Call a function whenever agents begin or cease to read a topic.

        Args:
            topic: of this agent; what is read with ``*`` counts for each.
            callback: called with the names of those who read it now, sorted, in the thread of the agent's
                callbacks; at once when somebody reads it already. An agent without a name is told by 16 hex
                digits, an original Pizco not at all. It takes the place of the one before; None ends it.

        Raises:
            ConfigError: for what is no function.
            AgentClosed: after `stop`.
        """
        self._check_usable()
        self.readers.on_readers(check_topic(topic), callback)

    def statistics(self) -> dict[str, Any]:
        """What was published of each topic, and how it is with links and mailboxes."""
        return {
            "topics": topics_told(self.subscribers, self.readers),
            "links": self.subscribers.statistics(),
            "mailboxes": self.subscribers.mailboxes.statistics(),
        }

    def close_links(self) -> None:
        """Publish no more; end links and mailboxes, with what is under way as far as there is time."""
        inside.offered.withdraw(self._agent_id)
        self.publisher.close()
        farewell.bid(self.subscribers)
        self.subscribers.close()

    def close(self) -> None:
        """Close the PUB socket; not the I/O thread."""
        self._loop.run(self.broadcast.close)
        self.readers.close()
