"""Bare: publishers that are a PUB socket and nothing else.

There is nobody to shake hands with, and nothing confirms a subscription, so they are heard as an original
Pizco is: dialect PZC00, with their own endpoint as the sender, and what was published before the connection
stands is not heard. Whoever is met without an answer is asked for the type of its socket::

    handshake            socket type     then
    answered             -               an agent
    not answered         PUB or XPUB     bare, as far as PZC00 is accepted
    not answered         another, none   the handshake is tried for the rest of the time
"""

from __future__ import annotations

import time

from ...protocol.errors import CallTimeout, PeerLost
from ...transport.peer import Peer
from ...transport.socket_type import socket_type
from ...transport.wire import Protocol
from ..client.client import Client, Found
from ..client.named_client import NamedClient
from .pizco import is_spoken
from .pizco_client import publisher

PROBE = 0.5
"""Most seconds to ask for the type of a socket."""


class Bare:
    """The bare publishers that one agent has met; any thread that may wait.

    Args:
        protocol: of the agent.
        client: meets agents, and is told of these.
    """

    def __init__(self, protocol: Protocol, client: Client) -> None:
        self._accepts = is_spoken(protocol)
        self._client = client
        self._met: set[str] = set()

    def find(self, finder: NamedClient, publisher: str, timeout: float) -> Found:
        """As `NamedClient.find`; at an endpoint a bare publisher, too."""
        if not self._accepts or "://" not in publisher or publisher.startswith("inproc://"):
            return finder.find(publisher, timeout)
        until = time.monotonic() + timeout
        try:
            return finder.find(publisher, timeout / 2)
        except (CallTimeout, PeerLost):
            self._is_there(publisher, (until - time.monotonic()) / 2)
        return finder.find(publisher, max(0.001, until - time.monotonic()))

    def meet(self, endpoint: str, deadline: float) -> Peer:
        """Who is at an endpoint now, after a new handshake; monotonic seconds; errors as `Client.peer`."""
        self._client.forget(endpoint)
        if endpoint in self._met and not self._is_there(endpoint, deadline - time.monotonic()):
            self._met.discard(endpoint)
        return self._client.peer(endpoint, deadline)

    def _is_there(self, endpoint: str, timeout: float) -> bool:
        if socket_type(endpoint, min(PROBE, timeout)) not in ("PUB", "XPUB"):
            return False
        self._met.add(endpoint)
        self._client.learn(publisher(endpoint))
        return True
