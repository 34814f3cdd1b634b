"""Acting: an agent acts upon a change of who listens, and others wait until it has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic


class Acting:
    """Which changes of what is listened to an agent has acted upon.

    Args:
        changed: notified after each change that was acted upon, and at the end.
        changes: another, greater number after each change.
        act: called in the I/O thread.
    """

    def __init__(
        self, changed: threading.Condition, changes: Callable[[], int], act: Callable[[], object]
    ) -> None:
        self._changed = changed
        self._changes = changes
        self._act = act
        self._acted = 0
        self._closed = False

    def act(self) -> None:
        """Act upon whatever has changed until here; I/O thread."""
        changes = self._changes()
        try:
            self._act()
        finally:
            with self._changed:
                self._acted = changes
                self._changed.notify_all()

    def wait(self, enough: Callable[[], tuple[bool, int]], timeout: float) -> bool:
        """Wait until what was enough has been acted upon; False after ``timeout`` seconds, and at the end.

        Args:
            enough: whether enough of them listen, and the changes until then.
            timeout: in seconds.
        """
        until, due = monotonic() + timeout, None
        with self._changed:
            while not self._closed:
                listen, changes = enough()
                due = (changes if due is None else due) if listen else None
                if due is not None and self._acted >= due:
                    return True
                if not self._changed.wait(max(0.0, until - monotonic())):
                    break
        return False

    def close(self) -> None:
        """End every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
