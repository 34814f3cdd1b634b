"""What a call that is being executed asks of other servers: when it is cancelled, so is that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..current import current
from .connection import Answer, Connection

CallOff = Callable[[Connection, Any], object]


def exchange(
    connection: Connection, content: Any, deadline: float, abort: threading.Event,
    call_off: CallOff,
) -> Answer:  # fmt: skip
    """As `Connection.exchange`; when the call that is being executed here is cancelled, this one is told.

    Its answer is waited for all the same. What is asked for after that, to tidy up, is not told.

    Args:
        connection: over which it is asked.
        content: of the request.
        deadline: in monotonic seconds.
        abort: ends the wait.
        call_off: tells the peer, in any thread.
    """
    call = current()
    if call is None or call.cancelled:
        return connection.exchange(content, deadline, abort)
    waits = threading.Lock()  # taken for good when nobody waits: the connection is another call's then

    def tell() -> None:
        if waits.acquire(blocking=False):
            try:
                call_off(connection, content)
            finally:
                waits.release()

    call.watch(tell)
    try:
        return connection.exchange(content, deadline, abort)
    finally:
        call.unwatch(tell)
        waits.acquire()
