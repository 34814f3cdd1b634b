"""Unix way of a pipeline: a connection whose server reads on while calls run, and who receives here."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Protocol

from ...protocol.errors import PzcError
from ...protocol.frames import Buffer
from ...protocol.message import Message
from .abort import AbortSignal
from .connection import Connection

logger = logging.getLogger("pzc.requests")

WORTH_IT = 8
"""Requests in flight to one peer from which on they get a Unix connection of their own."""

_TAKES = 0.05
"""Seconds in which a server that lives takes a request; one that does not is asked over ZeroMQ."""

_receivers: set[int] = set()


def in_receiver() -> bool:
    """True in a thread that receives, and must not wait for anything else."""
    return threading.get_ident() in _receivers


class Receiving(Protocol):
    """Gets what comes over a `UnixWay`: a pipeline."""

    def deliver(self, message: Message) -> None:
        """A verified message came; in the thread that receives."""
        ...

    def lose(self, unix: UnixWay, error: PzcError) -> None:
        """The connection is over, for that reason."""
        ...


class UnixWay:
    """The Unix connection of one pipeline.

    Args:
        connection: taken over.
        pipeline: gets what comes.
        closed: ends the wait.
    """

    def __init__(self, connection: Connection, pipeline: Receiving, closed: AbortSignal) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._closed = closed
        self.seal = connection.seal

    def start(self) -> None:
        """Receive from now on."""
        threading.Thread(target=self._run, name="pzc-replies", daemon=True).start()

    def transmit(self, frames: list[Buffer]) -> None:
        """Send a sealed request; the I/O thread.

        Raises:
            PzcError: when the connection is over, or the server takes nothing.
        """
        self._connection.transmit(frames, time.monotonic() + _TAKES)

    def _run(self) -> None:
        _receivers.add(threading.get_ident())
        try:
            while True:
                message = self._connection.receive(math.inf, self._closed)
                try:
                    self._pipeline.deliver(message)
                except Exception:
                    logger.exception("a reply of %s could not be handed out", self._connection.endpoint)
        except PzcError as exc:
            self._connection.close()
            self._pipeline.lose(self, exc)
        finally:
            _receivers.discard(threading.get_ident())

    def close(self) -> None:
        """End it; any thread."""
        self._connection.close()
