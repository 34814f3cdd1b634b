"""Retries: how an idempotent call is sent again.

::

    outcome of a try               then
    a result                       it is returned
    the error that may pass by     another try after a pause; raised when there is no time for one
    another error                  raised
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ...protocol.errors import PeerLost

FIRST = 0.05
"""Seconds of the first pause, at most; each further one may be twice as long."""

LONGEST = 1.0
"""Seconds of the longest pause."""

T = TypeVar("T")


def repeated(
    function: Callable[[], T],
    timeout: float,
    closed: threading.Event,
    forget: Callable[[], object] | None = None,
) -> T:
    """The result of a function, called again for as long as the peer is lost; raises its last error.

    Args:
        function: what to call.
        timeout: seconds for all tries together.
        closed: ends a pause.
        forget: called before each further try.
    """
    until, most = time.monotonic() + timeout, FIRST
    while True:
        try:
            return function()
        except PeerLost:
            pause = random.uniform(0.0, most)  # so that callers do not come together
            if time.monotonic() + pause >= until:
                raise
        closed.wait(pause)
        most = min(2 * most, LONGEST)
        if forget is not None:
            forget()
