"""Ways into the package: mailboxes are forgotten."""

from __future__ import annotations

from pzc import Agent


def forget_silent_readers(publisher: Agent) -> None:
    """End the mailboxes of a publisher, as if nobody had been heard for a day."""
    outlets = publisher._publishing.outlets
    for outlet in outlets.all():
        outlets.end(outlet, "its reader was silent for a day")
