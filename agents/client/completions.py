"""Completions: how an original Pizco tells the result of a call that returned a future.

::

    event                                 effect
    reply names the call                  its future is remembered, or done if the result came earlier
    notification on ``__future__``        the future is done; without one, it is kept for the reply
    publisher lost, proxy closed          every remembered future fails
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from ...protocol.contents import as_table, text_of
from ...protocol.errors import PeerLost, RemoteError
from ...protocol.notification import Notification
from ..interfaces import Subscriber
from .pending import PendingCall

logger = logging.getLogger("pzc.completions")

FUTURE_TOPIC = "__future__"
"""Topic on which an original server tells that a future is done."""

_EARLY = 1000


class Completions:
    """Results told by one original server; safe from any thread.

    Args:
        agent: who subscribes.
        endpoint: of the server.

    Raises:
        CallTimeout, PeerLost: as `Agent.subscribe`.
    """

    def __init__(self, agent: Subscriber, endpoint: str) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, PendingCall] = {}
        self._early: dict[str, dict[str, Any]] = {}
        self._subscription = agent.subscribe(endpoint, FUTURE_TOPIC, self._on_completion)
        self._subscription.on_lost = self._lose

    def expect(self, call_id: str, future: PendingCall) -> None:
        """Finish a future when the result of its call is told."""
        with self._lock:
            early = self._early.pop(call_id, None)
            if early is None:
                self._futures[call_id] = future
        if early is not None:
            _complete(future, early)

    def _on_completion(self, notification: Notification) -> None:
        told = as_table(notification.content)
        call_id, content = told.get("msgid"), told
        if not isinstance(call_id, str):
            logger.warning("%s told of the result of no call", notification.publisher)
            return
        with self._lock:
            future = self._futures.pop(call_id, None)
            if future is None:
                self._early[call_id] = content
                if len(self._early) > _EARLY:
                    self._early.pop(next(iter(self._early)))
                return
        _complete(future, content)

    def _lose(self, reason: str) -> None:
        with self._lock:
            lost, self._futures = self._futures, {}
        for future in lost.values():
            future.finish(error=PeerLost(f"the result will not come: {reason}"))

    def close(self, reason: str) -> None:
        """Stop listening; what is still expected fails."""
        self._subscription.close()
        self._lose(reason)


def _complete(future: PendingCall, content: dict[str, Any]) -> None:
    error = content.get("exception")
    if isinstance(error, Exception):
        future.finish(error=error)
    elif isinstance(error, BaseException):  # SystemExit would end whoever asks for the result
        future.finish(error=RemoteError(type(error).__name__, text_of(error)))
    else:
        future.finish(content.get("result"))
