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
"""Makes the way for a caller, if there is one.

Arguments: id of the key of the agent's handshake; agent id and protocol of the caller, whose key must be one
of the agent's.
"""

served: Offers[Open] = Offers()
"""What this process serves, by agent id."""
