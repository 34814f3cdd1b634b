"""Readers: by what name whoever listens to a topic is known, and who wants to be told of them.

A reader says who it is with every subscription, on every carrier: 16 hex digits that nobody can guess, and
behind a ``:`` its name, percent coded and cut, for people.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from functools import partial
from urllib.parse import quote, unquote

from ...protocol.errors import ConfigError
from ...protocol.shown import printable

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
        listening: what those who listen to a topic are known by.
        run: runs a callback soon.
    """

    def __init__(
        self, listening: Callable[[str], set[str]], run: Callable[[Callable[[], object]], object]
    ) -> None:
        self._listening = listening
        self._run = run
        self._lock = threading.Lock()
        self._told: dict[str, tuple[OnReaders, tuple[str, ...]]] = {}

    def names(self, topic: str) -> tuple[str, ...]:
        """Those who listen, sorted."""
        return tuple(sorted(map(name_of, self._listening(topic))))

    def on_readers(self, topic: str, callback: OnReaders | None) -> None:
        """See `Publishing.on_readers`."""
        if callback is not None and not callable(callback):
            raise ConfigError(f"callback={callback!r:.60} cannot be used: expected a function")
        with self._lock:
            self._told.pop(topic, None)
            if callback is not None:
                self._told[topic] = callback, ()
                self._look(topic)

    def changed(self) -> None:
        """Tell of those who have come or gone; any thread."""
        with self._lock:
            for topic in list(self._told):
                self._look(topic)

    def _look(self, topic: str) -> None:
        callback, before = self._told[topic]
        names = self.names(topic)
        if names != before:
            self._told[topic] = callback, names
            self._run(partial(callback, names))
