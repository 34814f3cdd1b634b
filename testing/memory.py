"""A connection without sockets: two transports in one process, for tests of what uses a transport."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from ..protocol.errors import AgentClosed, CallTimeout, FrameError, LocalProtocolError, PeerLost
from ..protocol.frames import Buffer, check_frames
from ..transport.transport import Transport

_SLICE = 0.05  # a waiting thread looks so many seconds later whether its agent was stopped


class _End:
    """One end of a pair; ``other`` is set by `memory_pair`."""

    other: _End

    def __init__(self, peer: str, bound: int, changed: threading.Condition) -> None:
        self.peer = peer
        self._bound = bound
        self._changed = changed
        self._inbox: deque[list[Buffer]] = deque()
        self._ended = False

    def send(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Put a copy of the frames into the other end's inbox, when there is room."""
        try:
            check_frames(frames)
        except FrameError as exc:
            raise LocalProtocolError(f"the message cannot be sent: {exc}") from None
        copy: list[Buffer] = [bytes(frame) for frame in frames]
        other = self.other
        with self._changed:
            self._wait(lambda: other._ended or len(other._inbox) < self._bound, deadline)
            if self._ended:
                raise AgentClosed(f"the connection to {self.peer} was closed here")
            if other._ended:
                raise PeerLost(f"{self.peer} was lost before it got the message whole")
            if len(other._inbox) >= self._bound:
                raise CallTimeout(f"{self.peer} did not take the message in time; it did not get it whole")
            other._inbox.append(copy)
            self._changed.notify_all()

    def receive(self, deadline: float, closed: threading.Event | None = None) -> list[Buffer]:
        """The next five frames."""
        with self._changed:
            over = closed or threading.Event()
            self._wait(lambda: over.is_set() or bool(self._inbox) or self.other._ended, deadline)
            if self._ended:
                raise AgentClosed(f"the connection to {self.peer} was closed here")
            if over.is_set():
                raise AgentClosed("the agent was stopped while a call was waiting")
            if self._inbox:
                self._changed.notify_all()
                return self._inbox.popleft()
            if self.other._ended:
                raise PeerLost(f"{self.peer} was lost during the call, which may or may not have run")
        raise CallTimeout(f"no reply from {self.peer} in time; the call may or may not have run")

    def _wait(self, until: Callable[[], bool], deadline: float) -> None:
        while not (self._ended or until()):
            left = deadline - monotonic()
            if left <= 0:
                return
            self._changed.wait(min(left, _SLICE))

    def idle(self) -> bool:
        """False when an end was closed, or a message waits that nobody asked for."""
        with self._changed:
            return not (self._ended or self.other._ended or self._inbox)

    def close(self) -> None:
        """End the connection, from any thread; what was sent can still be received at the other end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def memory_pair(bound: int = 1000) -> tuple[Transport, Transport]:
    """Two connected transports; what one sends the other receives, as a copy.

    They behave as those of a real connection (`pzc.transport.transport.Transport`), errors included, and
    hold neither socket nor thread, so there is nothing to clean up::

        near, far = memory_pair()
        near.send([b"header", b"json", b"1", b"id", b""], deadline)
        assert far.receive(deadline, threading.Event())[2] == b"1"

    Args:
        bound: messages that wait in each direction before `send` waits for room.
    """
    changed = threading.Condition()
    near, far = _End("the far end", bound, changed), _End("the near end", bound, changed)
    near.other, far.other = far, near
    return near, far
