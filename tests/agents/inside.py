"""Ways into the package: mailboxes are forgotten."""

from __future__ import annotations

import time

from pzc import Agent


def forget_silent_readers(publisher: Agent) -> None:
    """Let the mailboxes of a publisher believe that nobody polled for a day."""
    mailboxes = publisher._publishing.mailboxes._boxes
    with publisher._publishing.outlets.lock:
        for day in (1, 2):
            mailboxes.tick(time.monotonic() + day * 86_400.0)
    publisher._publishing.mailboxes._look()
