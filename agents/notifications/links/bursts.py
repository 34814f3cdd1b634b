"""Bursts: publications in quick succession, whose messages are gathered and go together."""

from __future__ import annotations

from time import monotonic

from ....protocol import limits


class Bursts:
    """Tells bursts by the times of publications; any thread, and it does not matter when two are one.

    Attributes:
        on: the last publication belonged to one.
    """

    __slots__ = ("_quick", "_returned", "on")

    def __init__(self) -> None:
        self.on = False
        self._quick = 0
        self._returned = 0.0

    def begin(self, since: float) -> bool:
        """A publication that began then is about to be sent; True when it belongs to a burst."""
        quick = self._quick = self._quick + 1 if since - self._returned < limits.current.burst_pause else 0
        self.on = quick >= limits.current.burst_publications
        return self.on

    def end(self) -> None:
        """It was sent, or is gathered."""
        self._returned = monotonic()
