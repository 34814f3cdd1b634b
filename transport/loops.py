"""The process's one I/O loop, and how many agents use it."""

from __future__ import annotations

from collections.abc import Callable

import zmq

from ..protocol.errors import AgentClosed, BindError
from .loop import Loop
from .tables import Leases


class _Loops(Leases[Loop]):
    def forget(self) -> None:
        for loop in self.things.values():
            loop.disown()


_loops = _Loops()


def acquire() -> Loop:
    """The process's loop, started by its first user; every `acquire` needs one `release`.

    Raises:
        BindError: when there are no descriptors, or no thread, for it.
    """
    try:
        return _loops.lease("", Loop)
    except (OSError, RuntimeError, zmq.ZMQError) as exc:
        raise BindError(
            f"the I/O thread cannot start: {exc}; close what is not needed, or raise the limit "
            "of descriptors (ulimit -n) or of threads (ulimit -u)"
        ) from exc


def release(loop: Loop) -> None:
    """Give the loop back; the last user ends it. Never call it from the I/O thread.

    Raises:
        AgentClosed: when called from the I/O thread, which cannot wait for itself.
    """
    if loop.in_thread():
        raise AgentClosed("the I/O thread cannot release its own loop")
    if _loops.release(loop):
        loop.end()


def later(delay: float, function: Callable[[], object]) -> None:
    """Run a function in the process's I/O thread some seconds from now, unless its last user is gone."""
    loop = _loops.things.get("")
    if loop is not None:
        loop.call_later(delay, function)
