"""Results: outcomes of methods that returned a future, kept until their caller has them.

::

    state     event                        next
    running   future done                  done (waiting requests answered)
    running   asked                        running (request held, 'pending' after ASK_TIMEOUT)
    done      asked                        done (answered again: the reply may have been lost)
    done      KEEP seconds                 forgotten
    full      registered                   the oldest done one is forgotten; all running: refused
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

from ..protocol.errors import Refused
from .loop import Loop
from .messages import ps_message, raised

KEEP = 60.0
"""Seconds that a finished result is kept."""

ASK_TIMEOUT = 20.0
"""Seconds after which a request for a running result is answered 'pending'."""

MAX_RESULTS = 10_000

Reply = Callable[[object], None]


@dataclass
class _Result:
    owner: str
    outcome: object = None
    done: bool = False
    waiting: list[Reply] = field(default_factory=list)


class Results:
    """Results by the id of the call that made them; safe from any thread.

    Args:
        loop: for the timeouts.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._results: OrderedDict[str, _Result] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def register(self, call_id: str, owner: str, future: Future[Any]) -> None:
        """Keep the outcome of a future.

        Raises:
            Refused: when `MAX_RESULTS` futures are running.
        """
        with self._lock:
            if len(self._results) >= MAX_RESULTS and not self._forget_oldest_done():
                raise Refused(f"{MAX_RESULTS} futures of this server are still running")
            self._results[call_id] = _Result(owner)
        future.add_done_callback(lambda done: self._finish(call_id, done))

    def _forget_oldest_done(self) -> bool:
        oldest = next((call_id for call_id, result in self._results.items() if result.done), None)
        if oldest is not None:
            del self._results[oldest]
        return oldest is not None

    def _finish(self, call_id: str, future: Future[Any]) -> None:
        outcome = outcome_of(future)
        with self._lock:
            result = self._results.get(call_id)
            if result is None:
                return
            result.outcome, result.done = outcome, True
            waiting, result.waiting = result.waiting, []
        for reply in waiting:
            reply(outcome)
        self._loop.call_later(KEEP, lambda: self._forget(call_id))

    def _forget(self, call_id: str) -> None:
        with self._lock:
            self._results.pop(call_id, None)

    def ask(self, call_id: str, owner: str, reply: Reply) -> None:
        """Answer now when the result is there, else when it comes, else 'pending'.

        Raises:
            Refused: when no such result is kept for this owner.
        """
        with self._lock:
            result = self._results.get(call_id)
            if result is None or result.owner != owner:
                raise Refused(
                    f"no result is kept for call {call_id}: it was fetched {KEEP:g} s ago, or is not yours"
                )
            done = result.done
            if not done:
                result.waiting.append(reply)
        if done:
            reply(result.outcome)
        else:
            self._loop.call_later(ASK_TIMEOUT, lambda: self._still_running(call_id, reply))

    def _still_running(self, call_id: str, reply: Reply) -> None:
        with self._lock:
            result = self._results.get(call_id)
            if result is None or reply not in result.waiting:
                return
            result.waiting.remove(reply)
        reply(ps_message("pending", None))


def outcome_of(future: Future[Any]) -> object:
    """``return`` or ``raise`` message of a finished future."""
    try:
        error = future.exception()
    except CancelledError as exc:
        return raised(exc)
    return ps_message("return", future.result()) if error is None else raised(error)
