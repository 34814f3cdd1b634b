"""Retries: how an idempotent call is sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_before_delay,
    wait_random_exponential,
)

FIRST = 0.05
"""Seconds of the first pause, at most; each further one may be twice as long."""

LONGEST = 1.0
"""Seconds of the longest pause."""


def repeating(
    error: type[Exception], timeout: float, closed: threading.Event, forget: Callable[[], None]
) -> Retrying:
    """Calls a function again for as long as it raises one kind of error; raises the last one.

    Args:
        error: after which it is worth another try.
        timeout: seconds for all tries together.
        closed: ends a pause.
        forget: called before each further try.
    """
    return Retrying(
        retry=retry_if_exception_type(error),
        wait=wait_random_exponential(multiplier=FIRST, max=LONGEST),
        stop=stop_before_delay(timeout),
        sleep=sleep_using_event(closed),
        before_sleep=lambda _: forget(),
        reraise=True,
    )
