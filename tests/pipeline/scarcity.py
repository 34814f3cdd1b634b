"""A process that has no threads left, for tests of what it does then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def no_threads() -> Iterator[None]:
    """No thread can be started by this process.

    A true want of them would leave more behind: in a thread that wanted another one Python 3.11 raises
    nothing any more (`PyThreadState_SetAsyncExc`).
    """

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with patch.object(threading.Thread, "start", refuse):
        yield
