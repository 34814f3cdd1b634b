"""Waiting for a state of which nobody tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

TIMEOUT = 20.0


def eventually(ask: Callable[[], Any], timeout: float = TIMEOUT, what: str = "it") -> Any:
    """What a function returns, once that is true."""
    deadline, pause = time.monotonic() + timeout, threading.Event()
    while not (found := ask()):
        assert time.monotonic() < deadline, f"{what} did not come to pass"
        pause.wait(0.005)
    return found
