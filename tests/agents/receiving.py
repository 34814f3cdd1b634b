"""The thread that receives notifications, and the helpers, of this process, for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pzc.agents.notifications import receiver
from pzc.agents.notifications.receiver import Receiver
from pzc.transport.helpers import HELPERS

from tests.contract.rigs.peers import TIMEOUT


@contextmanager
def leased() -> Iterator[Receiver]:
    """The receiver, as whoever subscribes to broadcasts has it."""
    made = receiver.acquire()
    try:
        yield made
    finally:
        receiver.release(made)


@contextmanager
def busy_helpers() -> Iterator[threading.Event]:
    """No helper has time until the event is set, or the block ends."""
    begun, free = threading.Barrier(HELPERS + 1), threading.Event()

    def wait() -> None:
        begun.wait(TIMEOUT)
        free.wait(TIMEOUT)

    with leased() as received:
        for _ in range(HELPERS):
            received.helpers.submit(wait)
        begun.wait(TIMEOUT)
        try:
            yield free
        finally:
            free.set()
