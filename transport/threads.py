"""Threads, of which a process can have only so many."""

from __future__ import annotations

import threading

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
