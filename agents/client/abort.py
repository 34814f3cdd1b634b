"""Abort signal: ends the waits of one caller before their time."""

from __future__ import annotations

import threading
import weakref

from ...protocol.errors import AgentClosed, PeerLost, PzcError

STOPPED = "the agent was stopped"


class AbortSignal(threading.Event):
    """Set when whoever waits was closed, when its agent was stopped, or when its peer is somewhere else.

    Attributes:
        abandoned: the peer is somewhere else, as another agent.
        reason: what happened, for the errors of those who waited.
    """

    def __init__(self) -> None:
        super().__init__()
        self.abandoned = False
        self.reason = STOPPED

    def abort(self, reason: str, *, abandoned: bool = False) -> None:
        """End the waits.

        Args:
            reason: what happened.
            abandoned: nobody expects a reply from there any more; the waits end with PeerLost.
        """
        if not self.is_set():
            self.reason, self.abandoned = reason, abandoned
        self.set()

    def error(self) -> PzcError:
        """What those who waited are told."""
        return PeerLost(self.reason) if self.abandoned else AgentClosed(self.reason)


class AbortSignals:
    """All signals of one agent, which end with it; safe from any thread."""

    def __init__(self) -> None:
        self.closed = AbortSignal()
        self._lock = threading.Lock()
        self._signals: weakref.WeakSet[AbortSignal] = weakref.WeakSet()

    def new(self) -> AbortSignal:
        """One more; it is set when the agent was stopped already."""
        signal = AbortSignal()
        with self._lock:
            self._signals.add(signal)
        if self.closed.is_set():
            signal.set()
        return signal

    def close(self) -> None:
        """End every wait."""
        self.closed.set()
        with self._lock:
            signals = list(self._signals)
        for signal in signals:
            signal.abort(STOPPED)
