"""A process that ends when its parent does: Spark does not tell a source that its query is over."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

CHECK = 0.5
"""Seconds between two looks at the parent."""

PATIENCE = 5.0
"""Seconds that giving everything back may take; then the process ends all the same."""


def end_with_parent(give_back: Callable[[], object]) -> threading.Event:
    """End this process once its parent has ended; setting the event ends the watch instead.

    Args:
        give_back: called before.
    """
    parent, closed = os.getppid(), threading.Event()

    def watch() -> None:
        while not closed.wait(CHECK):
            if os.getppid() != parent:
                threading.Timer(PATIENCE, os._exit, (1,)).start()
                try:
                    give_back()
                finally:
                    os._exit(0)

    threading.Thread(target=watch, name="pzc-source parent", daemon=True).start()
    return closed
