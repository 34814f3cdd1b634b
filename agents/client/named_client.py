"""NamedClient: what an agent offers to whoever asks others with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from ...discovery.records import Entry, Place
from ...protocol.errors import AgentClosed, PeerLost, PzcError
from ...transport import endpoints
from ...transport.loop import Loop
from ...transport.peer import Peer
from ...transport.timers import checked_wait
from ..reply import Reply, accepted
from .client import LOOK_FOR, Client, Found
from .dialling import Meet, dial
from .terms import checked_target

ANSWER_TIMEOUT = 0.5
"""Seconds within which an agent that is still there answers a ping."""


class NamedClient:
    """All that one agent finds others with, and asks them; any thread.

    Args:
        loop: whose thread must not wait.
        client: sends and waits.
        resolve: where the agent of a name is, within a time in seconds.
        check_usable: AgentClosed when the agent was stopped, or is the parent's of this forked process.
    """

    def __init__(
        self,
        loop: Loop,
        client: Client,
        resolve: Callable[[str, float], Place],
        check_usable: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._client = client
        self._resolve = resolve
        self._check_usable = check_usable

    def resolve(self, target: str, timeout: float = LOOK_FOR) -> str:
        """The endpoint of a target that is an endpoint or a name.

        Args:
            target: endpoint or name.
            timeout: seconds to wait for a name that nobody answers to, at most 3.

        Raises:
            UnknownName: for a name that nobody has; it tells what was heard, and what to do.
            ConfigError: for what can be no endpoint, or no name.
        """
        return self.place(target, timeout).endpoint

    def place(self, target: str, timeout: float = LOOK_FOR) -> Place:
        """As `resolve`, with what the agent told of itself."""
        if "://" in checked_target(target):
            return Place(endpoints.check(target))
        if self._loop.in_thread():
            raise AgentClosed("the I/O thread cannot wait for a name: give an endpoint")
        return self._resolve(target, timeout)

    def find(self, target: str, timeout: float) -> Found:
        """Where an endpoint or name is, once somebody answers there; errors as `request`."""
        return self._client.reach(partial(self.place, target), timeout)

    def request(self, recipient: str, content: object, timeout: float = 30.0) -> Any:
        """Send content to another agent and return its answer; any thread.

        Args:
            recipient: REP endpoint or name.
            content: anything the serializer can express.
            timeout: seconds, everything included.

        Raises:
            CallTimeout: no reply in time; the request may or may not have been executed.
            PeerLost: nobody answers there.
            UnknownName: nobody has that name; known after at most 3 s.
            SignatureError: keys differ.
            SerializeError: the content cannot be expressed.
            PzcError: whatever the peer refused with.
        """
        return self.exchange(recipient, content, checked_wait(timeout)).content

    def exchange(
        self,
        recipient: str,
        content: object,
        timeout: float,
        *,
        transport: str = "auto",
    ) -> Reply:
        """As `request`; the answer with its serializer and whether it was signed.

        Args:
            recipient: as `request`.
            content: as `request`.
            timeout: as `request`.
            transport: ``auto``, ``unix`` or ``tcp``.
        """
        self._check_usable()
        if self._loop.in_thread():
            raise AgentClosed("a request from the I/O thread would wait for itself")
        endpoint, left = self._within(recipient, timeout)
        return accepted(self._client.request(endpoint, content, left, transport))

    def _within(self, target: str, timeout: float) -> tuple[str, float]:
        """The endpoint of a target, and the seconds that are left when it is known."""
        if "://" in checked_target(target):
            return endpoints.check(target), timeout
        found = self.find(target, timeout)
        return found.place.endpoint, found.left

    def send(self, recipient: str, content: object, timeout: float, *, transport: str = "auto") -> None:
        """Send a request that says of itself that it wants no answer; errors as `request`."""
        self._check_usable()
        endpoint, left = self._within(recipient, checked_wait(timeout))
        self._client.send(endpoint, content, left, transport)

    def exchange_later(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """As `exchange`, to a known peer, without waiting."""
        self._check_usable()
        return self._client.submit_to(peer, content, timeout)

    def peer(self, target: str, timeout: float = 30.0) -> Peer:
        """Who is behind an endpoint or name; errors as `request`."""
        self._check_usable()
        return self.find(target, timeout).peer

    def meet(self, endpoint: str, timeout: float) -> Peer:
        """As `peer`, with a new handshake whoever was met there before."""
        self._check_usable()
        self._client.forget(endpoint)
        return self._client.peer(endpoint, time.monotonic() + timeout)

    def choose(self, entry: Entry, timeout: float) -> str:
        """The address by which an agent is reached from here; errors as `dial`."""
        best = entry.addresses[0]
        if len(entry.addresses) == 1 or endpoints.is_loopback(best):
            return best
        return dial(entry.addresses, timeout, expecting(self._client, entry.agent))

    def answers(self, agent_id: str, endpoint: str) -> bool:
        """Whether an agent is still at an endpoint, and able to answer."""
        try:
            return self.meet(endpoint, ANSWER_TIMEOUT).agent_id == agent_id
        except PzcError:
            return False


def expecting(client: Client, agent_id: str) -> Meet:
    """For `dial`: a handshake that only the agent with that id, or any for an empty one, passes."""

    def meet(endpoint: str, deadline: float) -> None:
        client.forget(endpoint)
        peer = client.peer(endpoint, deadline)
        if agent_id and peer.agent_id != agent_id:
            client.forget(endpoint)
            raise PeerLost(f"another agent answers there, {peer.name or peer.agent_id}")

    return meet
