"""The call that a thread or task works for, as far as it is of interest outside of the server."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from ..transport import wire


class Caller(NamedTuple):
    """Who makes a call, as a served method learns it.

    Attributes:
        key: proven name of the key; empty without keys.
        agent: agent id of the caller, or REP endpoint of an original Pizco.
        host: where it is: ``unix`` on the same host, ``tcp`` elsewhere.
        user: user id on the same host; None elsewhere.
    """

    key: str
    agent: str
    host: str
    user: int | None


class Running(Protocol):
    """A call that is being executed.

    Attributes:
        cancelled: whoever made it has given it up.
    """

    cancelled: bool

    @property
    def made_by(self) -> Caller:
        """Who made it."""
        ...

    @property
    def protocol(self) -> wire.Protocol:
        """Of the agent that runs it."""
        ...

    def watch(self, on_cancel: Callable[[], object]) -> None:
        """Call ``on_cancel`` when the call is cancelled, at once if it was. Any thread."""
        ...

    def unwatch(self, on_cancel: Callable[[], object]) -> None:
        """Do not, as `watch` was told once; any thread."""
        ...


_current: ContextVar[Running | None] = ContextVar("pzc_call", default=None)

set_current = _current.set
"""Make a call the current one of this context; gives the token for `reset_current`."""

reset_current = _current.reset

current = _current.get
"""The call that this thread or task works for, or None."""


def cancelled() -> bool:
    """True when the call that is being executed was cancelled; a long method looks at it now and then.

    A call of another server that the method waits for is cancelled with it, one by `future` is not. False
    outside of a call.
    """
    call = _current.get()
    return call is not None and call.cancelled


def caller() -> Caller | None:
    """Who makes the call that is being executed; None outside of a call."""
    call = _current.get()
    return None if call is None else call.made_by
