"""The call that a thread or task works for, as far as it is of interest outside of the server."""

from __future__ import annotations

from contextvars import ContextVar

from .server.call import Call, Caller

_current: ContextVar[Call | None] = ContextVar("pzc_call", default=None)

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
