"""A process that ends when its parent does: Spark does not tell a source that its query is over."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

CHECK = 0.5
"""Seconds between two looks at the parent."""

PATIENCE = 5.0
"""Seconds that giving everything back may take; then the process ends all the same."""


class ParentWatch:
    """Ends this process once its parent has; a thread that `close` ends.

    Args:
        give_back: called before.
    """

    def __init__(self, give_back: Callable[[], object]) -> None:
        self._give_back = give_back
        self._parent = os.getppid()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="pzc-source parent", daemon=True).start()

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(CHECK):
            if os.getppid() != self._parent:
                threading.Timer(PATIENCE, os._exit, (1,)).start()
                try:
                    self._give_back()
                finally:
                    os._exit(0)
