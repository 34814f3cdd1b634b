"""Endings: what ends the waits for replies before their time.

::

    event            who waits for a reply from an endpoint
    close            is told AgentClosed
    abandon          is told that its peer is lost; whoever asks there later waits as ever
    caller closed    is told AgentClosed, when it waits for that caller (`until`)
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar

_caller: ContextVar[threading.Event | None] = ContextVar("pzc_caller", default=None)


@contextlib.contextmanager
def until(closed: threading.Event) -> Iterator[None]:
    """The waits that begin in this thread meanwhile end when their caller is closed, too."""
    token = _caller.set(closed)
    try:
        yield
    finally:
        _caller.reset(token)


class Ending(threading.Event):
    """Set by itself, when the agent has stopped, or when the endpoint was abandoned.

    Args:
        closed: set when the agent has stopped, or whoever waits was closed.

    Attributes:
        abandoned: nobody expects a reply from there any more.
    """

    def __init__(self, *closed: threading.Event) -> None:
        super().__init__()
        self.abandoned = False
        self._closed = closed

    def is_set(self) -> bool:
        """Whether to wait no longer."""
        return self.abandoned or super().is_set() or any(other.is_set() for other in self._closed)


class Endings:
    """The endings of all endpoints that somebody waits for; safe from any thread.

    Args:
        closed: set when the agent has stopped.
    """

    def __init__(self, closed: threading.Event) -> None:
        self._closed = closed
        self._lock = threading.Lock()
        self._of: weakref.WeakValueDictionary[tuple[str, int], Ending] = weakref.WeakValueDictionary()

    def of(self, endpoint: str) -> Ending:
        """Of those who wait at an endpoint for the same caller; hold it as long as that lasts."""
        caller = _caller.get()
        closed = (self._closed,) if caller is None else (self._closed, caller)
        with self._lock:
            return self._of.setdefault((endpoint, id(caller)), Ending(*closed))

    def abandon(self, endpoint: str) -> None:
        """End the waits for an endpoint: whoever was there is somewhere else now."""
        with self._lock:
            for key, ending in list(self._of.items()):
                if key[0] == endpoint:
                    ending.abandoned = True
                    del self._of[key]
