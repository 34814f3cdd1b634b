"""Calls: what runs or waits in an agent's lane, and who asked for it.

::

    call       event                          next
    waiting    its turn                       running
    waiting    cancel                         over: answered with CallCancelled, never executed
    running    cancel                         running; `cancelled` is True for it from now on
    running    answered                       over
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.envelope import Identity
from ...protocol.errors import RemoteProtocolError
from ...protocol.keyring import Key
from ..wire import Protocol
from .lane import Lane, Turn


class Caller(NamedTuple):
    """Who asks: the proven key, the agent, and where it is.

    ``key`` is None for an unsigned request; ``address`` is for people.
    """

    agent: str
    key: Key | None
    address: str

    @property
    def key_name(self) -> str:
        """Proven name, empty when unsigned."""
        return "" if self.key is None else self.key.name

    @property
    def key_id(self) -> str:
        """Of the proven key, empty when unsigned."""
        return "" if self.key is None else self.key.key_id

    @property
    def identity(self) -> Identity:
        """What is kept for it stands under this."""
        return Identity(self.key_id, self.agent)


@dataclass(slots=True, eq=False)
class Call:
    """One request that runs or waits; ``name`` is its action and member.

    A direct call has no id until its result is to be kept, and its ``lane`` instead. ``protocol`` is that of
    the agent that runs it, from then on.
    """

    id: str
    caller: Caller
    turn: Turn | None = None
    name: tuple[str, object] = ("", None)
    cancelled: bool = False
    on_cancel: Callable[[], object] | None = None
    lane: Lane | None = None
    protocol: Protocol | None = None


_current: ContextVar[Call | None] = ContextVar("pzc_call", default=None)

set_current = _current.set
"""Make a call the current one of this context; gives the token for `reset_current`."""

reset_current = _current.reset


def current() -> Call | None:
    """The call that this thread or task works for, or None."""
    return _current.get()


def cancelled() -> bool:
    """True when the call that is being executed was cancelled; a long method looks at it now and then.

    False outside of a call.
    """
    call = _current.get()
    return call is not None and call.cancelled


class Calls:
    """Calls of one agent by the key that made them and id; safe from any thread.

    Args:
        lane: in which they wait.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._calls: dict[tuple[str, str], Call] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, call: Call) -> None:
        """Remember a call until `end`.

        Raises:
            RemoteProtocolError: when one of that key and id runs or waits already.
        """
        if self._calls.setdefault(_place(call), call) is not call:
            raise RemoteProtocolError(f"a call {call.id} runs here already; it is not executed again")

    def begin_all(self, calls: Collection[Call]) -> None:
        """Remember calls, each until `end`; errors as `begin`, and none is remembered then."""
        places = {_place(call): call for call in calls}
        if not self._calls.keys().isdisjoint(places):
            raise RemoteProtocolError("a call of this bundle runs here already; none of it is executed")
        self._calls.update(places)

    def end(self, call: Call) -> None:
        """Forget a call."""
        self._calls.pop(_place(call), None)

    def __contains__(self, call: Call) -> bool:
        """True for one that runs or waits."""
        return self._calls.get(_place(call)) is call

    def find(self, call_id: str, key_id: str) -> Call | None:
        """The call of that id that was made with this key, or None."""
        return self._calls.get((key_id, call_id))

    def find_any(self, call_id: str) -> Call | None:
        """The first call of that id, whoever made it, or None."""
        return next((call for call in list(self._calls.values()) if call.id == call_id), None)

    def cancel(self, call: Call) -> str:
        """Remove a call that waits, tell one that runs; ``removed`` or ``told``."""
        with self._lock:
            call.cancelled = True
            tell = call.on_cancel
        if call.turn is not None and self._lane.remove(call.turn):
            return "removed"
        if tell is not None:
            tell()
        return "told"

    def watch(self, call: Call, on_cancel: Callable[[], object]) -> None:
        """Call ``on_cancel`` when a running call is cancelled, at once if it was."""
        with self._lock:
            call.on_cancel = on_cancel
            late = call.cancelled
        if late:
            on_cancel()

    def forget_agent(self, sender: Identity) -> int:
        """Cancel what a dead agent asked for and has not begun; returns how many there were."""
        waiting = [call for call in list(self._calls.values()) if call.caller.identity == sender]
        return sum(call.turn is not None and self._lane.remove(call.turn) for call in waiting)


def _place(call: Call) -> tuple[str, str]:
    return call.caller.key_id, call.id
