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
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...discovery.records import Entry
from ...protocol.errors import PzcError
from ...transport.loop import Loop
from ..notifications.links.topics import Advertised
from .naming import Naming

_ANNOUNCED_TOPICS = 1000
"""Topics of one agent that are announced."""


logger = logging.getLogger("pzc.names")

_POLICIES = ("block", "drop", "latest", "mailbox")
_AGENT = "agent", ""


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
        about: Callable[[str], Advertised],
        types: Mapping[str, str],
    ) -> None:
        self._types = types
        self._loop = loop
        self._naming = naming
        self._published = topics
        self._about = about
        self._mutex = threading.Lock()
        self._told: dict[tuple[str, str], Entry] = {}
        self._topics: set[str] = set()  # also those that cannot be announced
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
                first = _AGENT not in self._told
                self._tell(_AGENT, replace(entry, name=self._naming.full))
                if first:
                    self._new.extend(self._published)
                    self._loop.call(self._announce_new)
            for name, cls in objects.items():
                self._tell(("object", name), replace(entry, type=cls, name=self._naming.node(name)))

    def _tell(self, what: tuple[str, str], entry: Entry) -> None:
        known, here = self._told.get(what), self._naming.own()
        if known is None:
            self._told[what] = here.announce(entry)
        else:
            self._told[what] = here.change(replace(entry, number=known.number, started=known.started))

    def advertise(self, topic: str) -> None:
        """A topic was advertised."""
        self._announce(topic, anew=True)

    def withdraw(self, topic: str) -> None:
        """A topic is no more."""
        with self._mutex:
            self._topics.discard(topic)
            entry = self._told.pop(("topic", topic), None)
            if entry is not None:
                self._naming.own().withdraw([entry])

    def publish(self, topic: str) -> None:
        """A topic was published for the first time; never waits."""
        if _AGENT in self._told and not self._closed:
            self._new.append(topic)
            if not self._due:
                self._due = True
                self._loop.call(self._announce_new)

    def _announce_new(self) -> None:
        self._due = False
        while self._new:
            self._announce(self._new.popleft())

    def _announce(self, topic: str, anew: bool = False) -> None:
        with self._mutex:
            agent, known = self._told.get(_AGENT), topic in self._topics
            if agent is None or self._closed or (known and not anew) or topic.startswith("__"):
                return
            if not known and len(self._topics) >= _ANNOUNCED_TOPICS:
                return
            self._topics.add(topic)
            try:
                self._tell(("topic", topic), self._entry(agent, topic))
            except PzcError as exc:
                logger.info("topic %r is not announced: %s", topic, exc)

    def _entry(self, agent: Entry, topic: str) -> Entry:
        about = self._about(topic)
        return Entry(
            "topic", self._naming.name_of_topic(topic), agent=agent.agent, epoch=agent.epoch,
            started=agent.started, type=self._types.get(topic, ""), scope=about.scope,  # pyright: ignore[reportArgumentType]
            policies=_POLICIES if about.policies is None else tuple(sorted(about.policies)),
            dialects=agent.dialects, host=agent.host, pid=agent.pid, publisher=agent.number, topic=topic,
            addresses=agent.addresses, pub_addresses=agent.pub_addresses, labels=agent.labels,
        )  # fmt: skip

    def close(self) -> None:
        """Tell everybody that the agent is gone. Again: no effect."""
        with self._mutex:
            self._closed = True
            told, self._told = list(self._told.values()), {}
        self._naming.stay()
        if told:
            self._naming.own().withdraw(told)
