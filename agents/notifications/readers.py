"""Readers: who listens to the topics of an agent, whatever brings them, and who waits to be told of it.

A reader says who it is with every subscription, on every carrier: 16 hex digits that nobody can guess, and
behind a ``:`` its name, percent coded and cut, for people.

The agent acts upon each change of who listens before `Readers.wait` tells of it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from urllib.parse import quote, unquote

from ...protocol.errors import AgentClosed, ConfigError
from ...protocol.shown import printable
from ...transport.executor import NO_THREAD
from ...transport.loop import Loop
from ...transport.threads import Condition
from .broadcast import Broadcast
from .links.subscribers import Subscribers

_DIGITS = 16
_LONGEST = 64

OnReaders = Callable[[tuple[str, ...]], object]
"""Gets the names of those who listen."""


def who_of(name: str) -> str:
    """What an agent says to be known by; anew for each agent."""
    who = secrets.token_hex(_DIGITS // 2)
    return f"{who}:{quote(name, safe='').replace('.', '%2E')}"[:_LONGEST] if name else who


def name_of(who: str) -> str:
    """How a reader is told to people: by its name, or by what it is known by."""
    known, _, name = who.partition(":")
    return printable(unquote(name) or known, _LONGEST)


class Readers:
    """Who listens to the topics of one agent; safe from any thread.

    Args:
        loop: whose thread acts upon changes.
        subscribers: the links, and the mailboxes with them.
        broadcast: the filters.
        act: called in the I/O thread after each change.
        run: runs a callback soon.
    """

    def __init__(
        self, loop: Loop, subscribers: Subscribers, broadcast: Broadcast, act: Callable[[], object],
        run: Callable[[Callable[[], object]], object],
    ) -> None:  # fmt: skip
        self._loop = loop
        self._subscribers = subscribers
        self._broadcast = broadcast
        self._act = act
        self._run = run
        self._acted = 0
        self._acted_upon = Condition()
        self._closed = False
        self._lock = threading.Lock()
        self._told: dict[str, tuple[OnReaders, tuple[str, ...]]] = {}

    def of(self, topic: str) -> set[str]:
        """What the agents are known by that listen to a topic; a foreign filter names none."""
        return self._subscribers.routes.readers(topic) | self._broadcast.readers(topic)

    def count(self, topic: str) -> int:
        """Number of agents that listen to a topic; equal foreign filters count as one."""
        return self._broadcast.listeners(topic, self._subscribers.routes.readers(topic))

    # --- acting upon changes -------------------------------------------------------------------------

    def _changes(self) -> int:
        return self._broadcast.version + self._subscribers.routes.changes

    def changed(self, *, before_confirming: bool = False) -> None:
        """What links want has changed; any thread. It was acted upon before a reader is told so."""
        (self._loop.run if before_confirming else self._loop.call)(self.act)

    def act(self) -> None:
        """Act upon whatever has changed until here; I/O thread."""
        changes = self._changes()
        try:
            self._act()
            with suppress(AgentClosed):
                self._look()
        finally:
            with self._acted_upon:
                self._acted = changes
                self._acted_upon.notify_all()

    def wait(self, topic: str, count: int, timeout: float) -> bool:
        """Wait until it was acted upon so many agents that listen; False when that took too long."""
        until, due = monotonic() + timeout, None
        with self._acted_upon:
            while not self._closed:
                with self._subscribers.lock:
                    listen, changes = self.count(topic) >= count, self._changes()
                due = (changes if due is None else due) if listen else None
                if due is not None and self._acted >= due:
                    return True
                if (left := until - monotonic()) <= 0:
                    break
                self._acted_upon.wait(left)
        return False

    def close(self) -> None:
        """End every wait."""
        with self._acted_upon:
            self._closed = True
            self._acted_upon.notify_all()

    # --- telling of names ----------------------------------------------------------------------------

    def on_readers(self, topic: str, callback: OnReaders | None) -> None:
        """See `Publishing.on_readers`."""
        if callback is not None and not callable(callback):
            raise ConfigError(f"callback={callback!r:.60} cannot be used: expected a function")
        with self._lock:
            self._told.pop(topic, None)
            if callback is not None:
                self._told[topic] = callback, ()
                self._look_at(topic)

    def _look(self) -> None:
        """Tell of those who have come or gone."""
        with self._lock:
            for topic in list(self._told):
                self._look_at(topic)

    def _look_at(self, topic: str) -> None:
        callback, before = self._told[topic]
        names = tuple(sorted(map(name_of, self.of(topic))))
        if names == before:
            return
        try:
            self._run(partial(callback, names))
        except AgentClosed:
            raise
        except RuntimeError:  # no thread is left
            self._loop.call_later(NO_THREAD, self.act)
        else:
            self._told[topic] = callback, names
