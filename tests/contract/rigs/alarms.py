"""Signals whose handlers raise, as labs bound what takes too long."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Alarm(TimeoutError):
    """What handlers of `signal.alarm` raise as a rule."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """A signal comes so many seconds later, and its handler raises."""

    def handler(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
