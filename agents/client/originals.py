"""Originals: what differs when the server that is asked is an original Pizco's.

It tells the result of a call that returned a future by a notification (`Completions`)::

    event                                 effect
    reply names the call                  its future is remembered, or done if the result came earlier
    notification on ``__future__``        the future is done; without one, it is kept for the reply
    publisher lost, proxy closed          every remembered future fails
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, cast

from ...protocol.contents import as_list, as_table, shown
from ...protocol.errors import PeerLost, RemoteError, RemoteProtocolError
from ...protocol.exceptions import text_of
from ...protocol.frames import PZC00
from ..notification import Notification
from ..notifications.subscription import Subscription
from ..operations import OPERATIONS
from .interfaces import Served
from .pending import PendingCall

logger = logging.getLogger("pzc.completions")

_SENT = frozenset({"__call__", "__getitem__", "__setitem__"})
"""Methods that an original's proxy asks for. Others may end its server: it cannot send a view of keys."""


def instead(served: Served, method: str) -> Callable[..., Any] | None:
    """What is done with a copy of the member instead of asking for a method; None when that is asked for.

    Raises:
        Refused: for what an original's proxy cannot say.
    """
    if served.peer.dialect != PZC00 or method in _SENT:
        return None
    operation = OPERATIONS.get(method)
    if operation is None or not operation.reads:
        served.need(f"be asked for {method!r}")
    return OPERATIONS[method].do


def table_of(told: Any, endpoint: str) -> dict[str, dict[str, Any]]:
    """The table out of an answer to ``inspect``: names held remotely, and names sent by value.

    Raises:
        RemoteProtocolError: when it is something else.
    """
    sets = as_list(told)
    if len(sets) != 2 or not all(map(_is_names, sets)):
        raise RemoteProtocolError(
            f"{endpoint} answered 'inspect' with {shown(told)} instead of two sets of names: "
            "it is no original Pizco's server"
        )
    return {name: {"kind": "remote"} for name in sets[0] if name.isidentifier() and not name.startswith("_")}


def _is_names(told: object) -> bool:
    if not isinstance(told, set | frozenset | list | tuple):
        return False
    return all(isinstance(name, str) for name in cast("set[object]", told))


FUTURE_TOPIC = "__future__"
"""Topic on which an original server tells that a future is done."""

_EARLY = 1000


class Completions:
    """Results told by one original server; safe from any thread.

    Args:
        subscribe: as `Agent.subscribe`.
        endpoint: of the server.

    Raises:
        CallTimeout, PeerLost: as `Agent.subscribe`.
    """

    def __init__(self, subscribe: Callable[..., Subscription], endpoint: str) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, PendingCall] = {}
        self._early: dict[str, dict[str, Any]] = {}
        self._subscription = subscribe(endpoint, FUTURE_TOPIC, self._on_completion)
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
