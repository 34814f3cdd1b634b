"""The seam of a call: what carries five frames to a peer and five frames back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from ..protocol.errors import PeerLost
from ..protocol.frames import Buffer
from ..protocol.lazily import np

_WORTH_IT = 1 << 16


def plain_memory(size: int) -> bytearray | memoryview:
    """Writable memory of this process; when it is large it is not zeroed first, as a bytearray would be."""
    if size <= _WORTH_IT:
        return bytearray(size)
    return np.empty(size, np.uint8).data


class Disconnected(PeerLost):
    """A connection is over; nobody but this side says so, and its peer may live."""


class Transport(Protocol):
    """One end of a connection over which messages of five frames go both ways, in order.

    One thread may send while another receives; two may not do the same at once. Deadlines are in
    monotonic seconds; with ``math.inf`` a wait ends with a message, with the peer, or with `close`.

    ==========  =====================  ==========================================================
    call        raises                 when, and what is known then
    ==========  =====================  ==========================================================
    send        LocalProtocolError     not five frames of sane sizes; nothing was sent
    send        PeerLost               the other side is gone; it did not get the message whole
    send        CallTimeout            the other side takes nothing until the deadline; as above
    send        AgentClosed            this end was closed; as above
    receive     PeerLost               the other side is gone, and no whole message is left; the
                                       text says whether it was ever reached
    receive     CallTimeout            no message until the deadline
    receive     AgentClosed            ``closed`` was set, or this end closed, during the wait
    receive     RemoteProtocolError    the other side broke the rules of the transport
    idle        -                      never
    close       -                      never; again does nothing
    ==========  =====================  ==========================================================

    A message that has arrived is received even if the other side has gone meanwhile. A transport that
    raised in the middle of a message is closed, because it cannot be in step again; one that timed out
    between messages works on, although a late reply may then come to the wrong question. What `receive`
    gave stays as it is for as long as it is held.
    """

    def send(self, frames: Sequence[Buffer], deadline: float) -> None:
        """Send five frames, or queue them where they surely go while the peer lives."""
        ...

    def receive(self, deadline: float, closed: threading.Event | None = None) -> list[Buffer]:
        """The next five frames, looking at ``closed`` a few times a second while it waits."""
        ...

    def idle(self) -> bool:
        """False when the other side has gone, or has sent what nobody asked for."""
        ...

    def close(self) -> None:
        """End the connection, from any thread; a wait in another one ends with AgentClosed."""
        ...
