"""Abort signal: ends the waits of one caller before their time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from ...protocol.errors import AgentClosed, PeerLost, PzcError

STOPPED = "the agent was stopped"


class AbortSignal(threading.Event):
    """Set when whoever waits was closed, when its agent was stopped, or when its peer is somewhere else.

    Args:
        of: those with which this one is set as well, such as that of the agent, or of the proxy.

    Attributes:
        aborted: as `is_set`.
        waiting: what ends each wait; whoever adds to it looks at `aborted` then.
        abandoned: the peer is somewhere else, as another agent.
        reason: what happened, for the errors of those who waited.
    """

    def __init__(self, *of: AbortSignal) -> None:
        super().__init__()
        self.aborted = self.abandoned = False
        self.waiting: set[Callable[[], object]] = set()
        self.reason = STOPPED
        self._lock = threading.Lock()
        self._others: weakref.WeakSet[AbortSignal] = weakref.WeakSet()
        for each in of:
            with each._lock:
                each._others.add(self)
            if each.is_set():
                self.abort(each.reason, abandoned=each.abandoned)

    def abort(self, reason: str, *, abandoned: bool = False) -> None:
        """End the waits.

        Args:
            reason: what happened.
            abandoned: nobody expects a reply from there any more; the waits end with PeerLost.
        """
        if not self.is_set():
            self.reason, self.abandoned = reason, abandoned
        self.aborted = True  # before `waiting` is read
        self.set()
        for each in self.waiting.copy():
            each()
        with self._lock:
            others = list(self._others)
        for other in others:
            other.abort(reason, abandoned=abandoned)

    def error(self) -> PzcError:
        """What those who waited are told."""
        return PeerLost(self.reason) if self.abandoned else AgentClosed(self.reason)
