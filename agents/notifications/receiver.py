"""Receiver: the thread that brings notifications to a process.

One more `Loop` owns what is read without a question: the Unix connections of links and the SUB sockets. The
process's helpers meet publishers again and open links anew.
"""

from __future__ import annotations

from ...protocol.errors import BindError
from ...transport import helpers, loops
from ...transport.loop import Loop
from ...transport.tables import Leases


class Receiver:
    """The receiver of a process; made by `acquire`.

    Attributes:
        loop: reads.
        helpers: of the process.
    """

    def __init__(self) -> None:
        self._io = loops.acquire()
        self.helpers = helpers.acquire()
        try:
            self.loop = Loop("pzc-notify", self._io.context)
        except (OSError, RuntimeError) as exc:
            self._give_back()
            raise BindError(
                f"the thread that receives notifications cannot start: {exc}; close what is not needed, or "
                "raise the limit of descriptors (ulimit -n) or of threads (ulimit -u)"
            ) from exc

    def end(self) -> None:
        """End its thread; not in it."""
        self.loop.end()
        self._give_back()

    def _give_back(self) -> None:
        helpers.release(self.helpers)
        loops.release(self._io)


class _Receivers(Leases[Receiver]):
    """The process's one receiver, and how many links and agents use it."""

    def forget(self) -> None:
        for receiver in self.things.values():
            receiver.loop.disown()


_receivers = _Receivers()


def acquire() -> Receiver:
    """The process's receiver, started by its first user; every `acquire` needs one `release`.

    Raises:
        BindError: when there are no descriptors, or no thread, for it.
    """
    return _receivers.lease("", Receiver)


def release(receiver: Receiver) -> None:
    """Give the receiver back; the last user ends it. Never call it from its loop."""
    if _receivers.release(receiver):
        receiver.end()
