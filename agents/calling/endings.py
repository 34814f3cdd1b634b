"""Endings: what ends the waits for replies before their time.

::

    event            who waits for a reply from an endpoint
    close            is told AgentClosed
    abandon          is told that its peer is lost; whoever asks there later waits as ever
"""

from __future__ import annotations

import threading
import weakref


class Ending(threading.Event):
    """Set when the agent has stopped, or the endpoint was abandoned.

    Args:
        closed: set when the agent has stopped.

    Attributes:
        abandoned: nobody expects a reply from there any more.
    """

    def __init__(self, closed: threading.Event) -> None:
        super().__init__()
        self.abandoned = False
        self._closed = closed

    def is_set(self) -> bool:
        """Whether to wait no longer."""
        return self.abandoned or self._closed.is_set()


class Endings:
    """The endings of all endpoints that somebody waits for; safe from any thread.

    Args:
        closed: set when the agent has stopped.
    """

    def __init__(self, closed: threading.Event) -> None:
        self._closed = closed
        self._lock = threading.Lock()
        self._of: weakref.WeakValueDictionary[str, Ending] = weakref.WeakValueDictionary()

    def of(self, endpoint: str) -> Ending:
        """Of those who wait at an endpoint; hold it as long as that lasts."""
        with self._lock:
            return self._of.setdefault(endpoint, Ending(self._closed))

    def abandon(self, endpoint: str) -> None:
        """End the waits for an endpoint: whoever was there is somewhere else now."""
        with self._lock:
            ending = self._of.pop(endpoint, None)
            if ending is not None:
                ending.abandoned = True
