"""Broken lines: what is known of a request whose line failed; told to users as plain `PeerLost`."""

from __future__ import annotations

from ...protocol.errors import CallTimeout, PeerLost


class LineBroke(PeerLost):
    """A line failed under a request.

    Args:
        text: what happened.
        call_id: of the request.
    """

    def __init__(self, text: str, call_id: str) -> None:
        super().__init__(text)
        self.call_id = call_id


class NotSent(LineBroke):
    """It broke before the request was on it: nothing ran."""


class Lost(LineBroke):
    """It broke when the request was on it, which may run, or have run."""


class Moved(Lost):
    """Its peer is elsewhere now, as another agent, which has no result of it."""


def told(broken: LineBroke) -> PeerLost:
    """The error as users know it."""
    lost = PeerLost(str(broken))
    lost.call_id = broken.call_id
    return lost


def expired(error: CallTimeout, endpoint: str, timeout: float) -> CallTimeout:
    """The end of a call without an answer, as users know it; ``timeout`` in seconds."""
    late = CallTimeout(f"no reply from {endpoint} within {timeout:g} s; the call may or may not have run")
    late.call_id = error.call_id
    return late
