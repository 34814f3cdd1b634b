"""Completions: how an original Pizco tells the result of a call that returned a future.

::

    event                                 effect
    reply names the call                  its future is remembered, or done if the result came earlier
    notification on ``__future__``        the future is done; without one, it is kept for the reply
    publisher lost, proxy closed          every remembered future fails
"""

from __future__ import annotations

import threading
from typing import Any, cast

from ...protocol.errors import PeerLost
from ..agent import Agent
from ..calling.futures import CallFuture
from ..notifying.subscription import Notification

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

    def __init__(self, agent: Agent, endpoint: str) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, CallFuture] = {}
        self._early: dict[str, dict[str, Any]] = {}
        self._subscription = agent.subscribe(endpoint, FUTURE_TOPIC, self._on_completion)
        self._subscription.on_lost = self._lose

    def expect(self, call_id: str, future: CallFuture) -> None:
        """Finish a future when the result of its call is told."""
        with self._lock:
            early = self._early.pop(call_id, None)
            if early is None:
                self._futures[call_id] = future
        if early is not None:
            _complete(future, early)

    def _on_completion(self, notification: Notification) -> None:
        content = cast("dict[str, Any]", notification.content)
        with self._lock:
            future = self._futures.pop(content["msgid"], None)
            if future is None:
                self._early[content["msgid"]] = content
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


def _complete(future: CallFuture, content: dict[str, Any]) -> None:
    error = content.get("exception")
    if isinstance(error, BaseException):
        future.finish(error=error)
    else:
        future.finish(content.get("result"))
