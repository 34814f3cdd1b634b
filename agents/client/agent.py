"""Agent: what the client uses of the agent that it works for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...discovery.place import Place
from ...protocol.peer import Peer
from ...transport import wire
from ...transport.loop import Loop
from ...transport.settings import Settings
from ..interfaces import Finder, Follower, Found, Subscriber
from .client import Client


class Agent(Finder, Subscriber, Protocol):
    """An agent, as what is held by a proxy sees it.

    Attributes:
        client: that asks.
        loop: the I/O thread.
        protocol: keys, serializers and settings of its own.
        settings: defaults of calls.
    """

    client: Client
    loop: Loop
    protocol: wire.Protocol
    settings: Settings

    def check_usable(self) -> None:
        """AgentClosed when it was stopped, or is the parent's of this forked process."""
        ...

    def request(self, recipient: str, content: object, timeout: float = 30.0) -> Any:
        """Ask and wait."""
        ...

    def meet(self, endpoint: str, timeout: float) -> Peer:
        """As `peer`, with a new handshake whoever was met there before."""
        ...

    def reach(self, where: Callable[[float], Place], timeout: float) -> Found:
        """Somebody who may be on the move, once met."""
        ...

    def follow(self, target: str, place: Place, move: Callable[[str, str], object]) -> Follower | None:
        """Tell somebody whenever the agent of a name is elsewhere."""
        ...


Lease = Callable[[wire.Protocol | None], tuple[Agent, Callable[[], None]]]
"""Gives the agent of a protocol, and what gives it back, to be called once."""
