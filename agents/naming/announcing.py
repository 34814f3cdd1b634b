"""Announcing: what one agent tells others of itself: its name, and the topics that it publishes.

A topic is announced when it is advertised, else with its first notification. At most `announced_topics` are;
one that cannot be a name is not. Subscribing needs none of that.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Protocol

from ...discovery.records import Entry
from ...protocol import limits
from ...protocol.errors import PzcError
from ...transport.loop import Loop
from .naming import Naming

logger = logging.getLogger("pzc.names")

_POLICIES = ("block", "drop", "latest", "mailbox")


class About(Protocol):
    """What is said of a topic: how far it goes, and with which policies; None for the usual ones."""

    scope: str
    policies: frozenset[str] | None


class Announcing:
    """The entries of one agent; safe from any thread.

    Args:
        loop: for the timer.
        naming: of the agent.
        topics: those that were published until now; the others are told to `publish`.
        about: what is said of a topic.
        types: what the messages of a topic are, as far as it was said.
    """

    def __init__(
        self,
        loop: Loop,
        naming: Naming,
        topics: Mapping[str, object],
        about: Callable[[str], About],
        types: Mapping[str, str],
    ) -> None:
        self._types = types
        self._loop = loop
        self._naming = naming
        self._published = topics
        self._about = about
        self._mutex = threading.Lock()
        self._agent: Entry | None = None
        self._topics: dict[str, Entry | None] = {}
        self._objects: dict[str, Entry] = {}
        self._new: deque[str] = deque()
        self._due = False
        self._closed = False

    def begin(self, entry: Entry, objects: Mapping[str, str] = MappingProxyType({})) -> None:
        """Announce the agent and what it serves under further names, or what is different of it now.

        Args:
            entry: of the agent, with bound endpoints; name, host and process number are added.
            objects: class of each object that has a name of its own, by name; default none.
        """
        entry = replace(entry, host=socket.gethostname(), pid=os.getpid())
        with self._mutex:
            if self._closed or not self._naming.enabled:
                return
            if self._naming.full:
                known, self._agent = self._agent, self._tell(self._agent, entry, self._naming.full)
                if known is None:
                    self._loop.call(partial(self._announce_all, list(self._published)))
            for name, cls in objects.items():
                each = replace(entry, type=cls)
                self._objects[name] = self._tell(self._objects.get(name), each, self._naming.node(name))

    def _tell(self, known: Entry | None, entry: Entry, name: str) -> Entry:
        entry = replace(entry, name=name)
        if known is None:
            return self._naming.announce(entry)
        entry = replace(
            entry, number=known.number, process=known.process, started=known.started,
            partition=known.partition,
        )  # fmt: skip
        self._naming.change(entry)
        return entry

    def advertise(self, topic: str) -> None:
        """A topic was advertised."""
        self._announce(topic, anew=True)

    def withdraw(self, topic: str) -> None:
        """A topic is no more."""
        with self._mutex:
            entry = self._topics.pop(topic, None)
            if entry is not None:
                self._naming.retract(entry)

    def publish(self, topic: str) -> None:
        """A topic was published for the first time; never waits."""
        if self._agent is not None and not self._closed:
            self._new.append(topic)
            if not self._due:
                self._due = True
                self._loop.call(self._announce_new)

    def _announce_new(self) -> None:
        self._due = False
        while self._new:
            self._announce(self._new.popleft())

    def _announce_all(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._announce(topic)

    def _announce(self, topic: str, anew: bool = False) -> None:
        with self._mutex:
            agent, known = self._agent, self._topics.get(topic)
            if agent is None or self._closed or (topic in self._topics and not anew):
                return
            if topic.startswith("__") or (
                known is None and len(self._topics) >= limits.current.announced_topics
            ):
                return
            self._topics[topic] = known
            try:
                entry = self._entry(agent, topic)
                if known is None:
                    self._topics[topic] = self._naming.announce(entry)
                else:
                    entry = self._topics[topic] = replace(entry, number=known.number, process=known.process)
                    self._naming.change(entry)
            except PzcError as exc:
                logger.info("topic %r is not announced: %s", topic, exc)

    def _entry(self, agent: Entry, topic: str) -> Entry:
        about = self._about(topic)
        return Entry(
            "topic", self._naming.name_of_topic(topic), agent=agent.agent, epoch=agent.epoch,
            started=agent.started, type=self._types.get(topic, ""), scope=about.scope,  # pyright: ignore[reportArgumentType]
            policies=_POLICIES if about.policies is None else tuple(sorted(about.policies)),
            dialects=agent.dialects, host=agent.host, pid=agent.pid, publisher=agent.number, topic=topic,
            partition=agent.partition, addresses=agent.addresses, pub_addresses=agent.pub_addresses,
            labels=agent.labels,
        )  # fmt: skip

    def close(self) -> None:
        """Tell everybody that the agent is gone. Again: no effect."""
        with self._mutex:
            self._closed = True
        self._naming.withdraw()
