"""Here: agents of this process, found by callers of the same process.

A server offers a way to call it in the caller's thread; a client takes it, and goes over a socket when the
answer is `NOT_NOW`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..transport import wire
from ..transport.tables import Offers

NOT_NOW = object()
"""Stands for an answer: nothing was done, the call is to take another way."""


class LocalCalls(Protocol):
    """The way to one agent of this process, for one caller.

    Attributes:
        serializer: of what is copied.
        trusted: pickles of the agent are unpickled in full, over the wire as well.
    """

    serializer: str
    trusted: bool

    def call(self, content: tuple[str, str, dict[str, Any]]) -> Any:
        """Content of the answer, or `NOT_NOW`."""
        ...


Open = Callable[[str, str, wire.Protocol], LocalCalls | None]
"""Makes the way for a caller; arguments as the last three of `find`."""


served: Offers[Open] = Offers()
"""What this process serves."""


def find(agent_id: str, peer_key: str, caller: str, protocol: wire.Protocol) -> LocalCalls | None:
    """The local way to an agent of this process; None when there is none.

    Args:
        agent_id: of the agent, which was reached at its own port.
        peer_key: id of the key of its handshake.
        caller: agent id of the caller.
        protocol: of the caller; its key must be one of the agent's.
    """
    opens = served.get(agent_id)
    return None if opens is None else opens(peer_key, caller, protocol)
