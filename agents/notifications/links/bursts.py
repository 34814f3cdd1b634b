"""Bursts: publications in quick succession, whose messages are gathered and go together."""

from __future__ import annotations

from ....protocol import limits


class Bursts:
    """Tells bursts by the times of publications; any thread, and it does not matter when two are one.

    Attributes:
        on: the last publication belonged to one.
        returned: when the last one was sent, or gathered.
    """

    __slots__ = ("_quick", "on", "returned")

    def __init__(self) -> None:
        self.on = False
        self._quick = 0
        self.returned = 0.0

    def begin(self, since: float) -> bool:
        """A publication that began then is about to be sent; True when it belongs to a burst."""
        quick = self._quick = self._quick + 1 if since - self.returned < limits.current.burst_pause else 0
        self.on = quick >= limits.current.burst_publications
        return self.on
