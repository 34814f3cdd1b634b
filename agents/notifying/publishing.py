"""Publishing: what an agent offers to whoever publishes with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ...delivery.policies import Policy
from ...protocol.frames import check_key
from ...shm.ring import BUFFERS
from ..links import farewell, local
from ..links.linking import Linking
from ..links.loans import Array, lend
from ..links.outlets import Outlets
from ..links.published import Published
from ..links.topics import Advertised, advertised
from ..mail.posting import Posting
from ..naming.announcing import Announcing
from ..settings import Settings
from ..wire import Protocol
from .publisher import Publisher


class Publishing(ABC):
    """The publishing side of an `Agent`, which makes ``_publisher``, ``_outlets`` and ``_linking``."""

    _publisher: Publisher
    _outlets: Outlets
    _linking: Linking
    _posting: Posting
    _announcing: Announcing
    agent_id: str
    protocol: Protocol
    settings: Settings

    @abstractmethod
    def check_usable(self) -> None:
        """AgentClosed when it was stopped, or is the parent's of this forked process."""

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
            The sequence number within the topic, from 1; the last one when a throttled topic sends nothing.

        Raises:
            SerializeError, LocalProtocolError: nothing was published.
            CallTimeout: a reader did not make room in time; nothing was published.
            AgentClosed: after `stop`, also while it waits.
        """
        self.check_usable()
        about = "" if key is None else check_key(key)
        number = 0 if ack_wait is not None else self._publisher.express(topic, content, about)
        if number:
            return number
        return self._publisher.publish(topic, content, about, None, self._patience(topic, ack_wait))

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
            LocalProtocolError: for a dtype with objects; at the end of the block what `publish` raises.
            AgentClosed: after `stop`.
        """
        self.check_usable()
        publish = partial(
            self._publisher.publish_prepared, dialects=None, ack_wait=self._patience(topic, ack_wait)
        )
        shared = self._outlets.routes.about(topic).zero_copy
        published = Published(topic, "" if key is None else check_key(key), None)
        return lend(self._outlets.encoding, published, shape, dtype, publish, shared)

    def advertise(
        self,
        topic: str,
        *,
        buffers: int | None = None,
        policies: Iterable[Policy | str] | None = None,
        scope: str | None = None,
        throttle: float | None = None,
        ack_wait: float | None = None,
        zero_copy: bool | None = None,
        keep_last: bool | None = None,
        type: str | type | None = None,
    ) -> None:
        """Say how a topic differs from the defaults, best before anybody subscribes; the last word counts.

        What is not said here is as the settings file says (`topic_settings`), else the default.

        Args:
            topic: one topic.
            buffers: most messages that a reader with the policy ``block`` may not be done with; default 32.
            policies: policies, or their names, that subscriptions over links may have; default ``drop``,
                ``latest``, ``block`` and ``mailbox``.
            scope: ``process``, ``host`` or ``all`` (default): how far it goes; other readers are refused.
            throttle: most messages in a second; `publish` leaves the rest out, and counts it.
            ack_wait: default of `publish`.
            zero_copy: False: contents do not lie in shared memory, so that no reader can keep that.
            keep_last: keep the last notification of each key, encoded, for ``subscribe(initial=True)``. One
                of more than 64 KiB is not kept, and counted as ``keep_refused``.
            type: what its messages are, a class or its name; subscribers that ask for another are refused.

        Raises:
            ConfigError: for an argument that cannot be used.
            AgentClosed: after `stop`.
        """
        self.check_usable()
        said = {
            "buffers": buffers, "scope": scope, "throttle": throttle, "ack_wait": ack_wait,
            "zero_copy": zero_copy, "keep_last": keep_last,
        }  # fmt: skip
        given = {name: value for name, value in said.items() if value is not None}
        about, keep = _usual({**self.settings.topics.of(topic), **given}, policies)
        self._outlets.routes.advertise(topic, about)
        self._publisher.keeping.advertise(topic, keep)
        self._publisher.forget_wanted()
        self._announcing.advertise(topic, type)

    def wait_for_subscribers(self, topic: str, n: int = 1, timeout: float = 5.0) -> bool:
        """Wait until ``n`` agents subscribe to a topic of this one; False after ``timeout`` seconds.

        An agent counts once, whether it listens by broadcast, by a link, or both. True once `on_subscribers`
        has run for them: a server is connected to its signal then, and what is emitted next reaches them.
        """
        return self._publisher.wait_for_subscribers(topic, n, timeout)

    def _say_usual(self, topic: str) -> Advertised | None:
        """What the settings file says of a topic; None for nothing. Called once for each topic."""
        said = self.settings.topics.of(topic)
        if not said:
            return None
        about, keep = _usual(said, None)
        self._publisher.keeping.advertise(topic, keep)
        return about

    def _patience(self, topic: str, ack_wait: float | None) -> float | None:
        return self._outlets.routes.about(topic).ack_wait if ack_wait is None else ack_wait

    def _close_links(self) -> None:
        local.withdraw(self.agent_id)
        self._posting.close()
        farewell.bid(self._outlets)
        self._outlets.close()


def _usual(said: Mapping[str, Any], policies: Iterable[Policy | str] | None) -> tuple[Advertised, bool]:
    """What is said of a topic by key, checked, and whether its last notifications are kept."""
    about = advertised(
        said.get("buffers", BUFFERS), policies, said.get("scope", "all"), said.get("throttle"),
        said.get("ack_wait"), said.get("zero_copy", True),
    )  # fmt: skip
    return about, said.get("keep_last", False)
