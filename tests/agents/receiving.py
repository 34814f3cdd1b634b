"""The thread that receives notifications, and the helpers, of this process, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pzc.agents.notifications import receiver
from pzc.agents.notifications.receiver import Receiver


@contextmanager
def leased() -> Iterator[Receiver]:
    """The receiver, as whoever subscribes to broadcasts has it."""
    made = receiver.acquire()
    try:
        yield made
    finally:
        receiver.release(made)
