"""Originals: what the proxies of an original Pizco are told that asked for a future."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from functools import partial
from typing import Any

from ...protocol.contents import as_original
from ...protocol.errors import SerializeError
from ...protocol.frames import PZC00
from ...transport.loop import Loop
from ..interfaces import Publisher

logger = logging.getLogger("pzc.actions")

FUTURE_TOPIC = "__future__"
"""Topic on which original proxies are told that a future is done."""

FUTURE_DELAY = 0.05
"""Seconds between the reply that names a future and its completion for an original proxy, which
forgets completions of futures that it has not registered yet."""


class FuturesOfOriginals:
    """Tells original proxies what became of futures.

    Args:
        loop: for timers.
        publisher: tells.
        serializer: of what they are told.
    """

    def __init__(self, loop: Loop, publisher: Publisher, serializer: str) -> None:
        self._loop = loop
        self._publisher = publisher
        self._serializer = serializer

    def tell(self, call_id: str, future: Future[Any]) -> None:
        """Tell what a call gave as soon as it is there."""
        future.add_done_callback(partial(self._done, call_id))

    def _done(self, call_id: str, future: Future[Any]) -> None:
        content: dict[str, Any] = {"msgid": call_id, "result": None, "exception": None}
        try:
            content["result"] = future.result()
        except BaseException as exc:
            content["exception"] = as_original(exc, self._serializer)
        self._loop.call_later(FUTURE_DELAY, partial(self._publish, content))

    def _publish(self, content: dict[str, Any]) -> None:
        try:
            self._publisher.publish(FUTURE_TOPIC, content, dialects=(PZC00,))
        except SerializeError as exc:
            logger.warning("the result of %s cannot be sent: %s", content["msgid"], exc)
            error = TypeError(str(exc))
            self._publisher.publish(
                FUTURE_TOPIC, {**content, "result": None, "exception": error}, dialects=(PZC00,)
            )
