"""Threads, of which a process can have only so many."""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..protocol.errors import LocalLimit


def begin(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        LocalLimit: when this process can have no more of them.
    """
    try:
        thread.start()
    except RuntimeError as exc:
        text = f"{exc}: end what is not needed, or raise the limit of threads (ulimit -u)"
        raise LocalLimit(text) from exc


class Condition(threading.Condition):
    """A condition whose ``with`` blocks take and release the lock in one step.

    Those of its base class are functions: what a signal's handler raises at their beginning, or end, such as
    KeyboardInterrupt, leaves the lock held for ever.

    Args:
        lock: default a reentrant one of its own.
    """

    def __init__(self, lock: Any = None) -> None:
        self.lock = threading.RLock() if lock is None else lock
        super().__init__(self.lock)

    if not TYPE_CHECKING:
        __enter__: Callable[[], bool] = property(attrgetter("lock.__enter__"))
        __exit__: Callable[..., None] = property(attrgetter("lock.__exit__"))
