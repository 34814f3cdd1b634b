"""Asking: what an agent offers to whoever asks others with it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from ...discovery.records import Entry
from ...protocol.errors import AgentClosed, CallTimeout, PeerLost, PzcError
from ..naming.naming import LOOK_FOR, Naming, Place
from ..sockets import endpoints
from ..sockets.loop import Loop
from ..wire import Protocol
from .bundles import Outbox
from .deferred import Deferred
from .dialling import dial, expecting
from .endings import Ending
from .keeper import Keeper
from .peers import Peer
from .quickway import QuickWay
from .reply import Reply
from .requests import Requester
from .trails import Trail

PATIENCE = 0.5
"""Seconds that a silent endpoint is waited for before it is asked again where its agent is."""

ANSWER_TIMEOUT = 0.5
"""Seconds within which an agent that is still there answers a ping."""


class Found(NamedTuple):
    """Where somebody is, who that is, and the seconds that are left of those given."""

    place: Place
    peer: Peer
    left: float


class Asking(ABC):
    """The asking side of an `Agent`, which makes what it needs."""

    loop: Loop
    protocol: Protocol
    keeper: Keeper
    _naming: Naming
    _requester: Requester
    _deferred: Deferred

    @abstractmethod
    def check_usable(self) -> None:
        """AgentClosed when it was stopped, or is the parent's of this forked process."""

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
        if "://" in target:
            return Place(endpoints.check(target))
        if self.loop.in_thread():
            raise AgentClosed("the I/O thread cannot wait for a name: give an endpoint")
        return self._naming.resolve(target, timeout)

    def find(self, target: str, timeout: float) -> Found:
        """Where an endpoint or name is, once somebody answers there; errors as `request`."""
        return self.reach(partial(self.place, target), timeout)

    def follow(self, target: str, place: Place, move: Callable[[str, str], object]) -> Trail | None:
        """Tell somebody whenever the agent of a name is elsewhere; as `Naming.follow`."""
        return self._naming.follow(target, place, move)

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
        return self.exchange(recipient, content, timeout).content

    def exchange(
        self,
        recipient: str,
        content: object,
        timeout: float,
        *,
        transport: str = "auto",
        idempotent: bool = False,
    ) -> Reply:
        """As `request`; the answer with its serializer and whether it was signed.

        Args:
            recipient: as `request`.
            content: as `request`.
            timeout: as `request`.
            transport: ``auto``, ``unix`` or ``tcp``.
            idempotent: send it again, with back-off, when the peer was lost: it may then run twice.
        """
        self.check_usable()
        if self.loop.in_thread():
            raise AgentClosed("a request from the I/O thread would wait for itself")
        endpoint, left = self._within(recipient, timeout)
        return self._requester.request(endpoint, content, left, transport, idempotent)

    def _within(self, target: str, timeout: float) -> tuple[str, float]:
        """The endpoint of a target, and the seconds that are left when it is known."""
        if "://" in target:
            return endpoints.check(target), timeout
        found = self.find(target, timeout)
        return found.place.endpoint, found.left

    def reach(self, where: Callable[[float], Place], timeout: float) -> Found:
        """Somebody who may be on the move, once met.

        Args:
            where: tells the place as it is known now, within a time in seconds.
            timeout: seconds.

        Raises:
            CallTimeout, PeerLost, SignatureError: as `request`; at the last place.
        """
        deadline = time.monotonic() + timeout
        while True:
            place = where(max(0.001, deadline - time.monotonic()))
            now = time.monotonic()
            until = deadline if place.settled else min(deadline, now + PATIENCE)
            try:
                peer = self._requester.peer(place.endpoint, max(until, now + 0.001))
                return Found(place, peer, max(0.001, deadline - time.monotonic()))
            except (PeerLost, CallTimeout):
                self._requester.forget(place.endpoint)
                left = deadline - time.monotonic()
                if place.settled or left <= 0.001:
                    raise
                self._requester.lines.closed.wait(min(PATIENCE / 10, left))  # a refusal comes at once

    def new_ending(self) -> Ending:
        """What ends the waits of one caller, who sets it; set as well when the agent has stopped."""
        return Ending(self._requester.lines.closed)

    def quick_way(self, peer: Peer, kind: str, closed: threading.Event) -> QuickWay:
        """The shortest way to a peer over ``unix`` or ``tcp``, for what can take it, until it is closed."""
        return self._requester.quick_way(peer, kind, closed)

    def send(self, recipient: str, content: object, timeout: float, *, transport: str = "auto") -> None:
        """Send a request that says of itself that it wants no answer; errors as `request`."""
        self.check_usable()
        endpoint, left = self._within(recipient, timeout)
        self._requester.send(endpoint, content, left, transport)

    def exchange_later(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """As `exchange`, to a known peer, without waiting."""
        self.check_usable()
        return self._deferred.submit(peer, content, timeout)

    def send_later(self, peer: Peer, content: object, timeout: float) -> Future[None]:
        """As `send`, to a known peer, without waiting, behind what was asked with `exchange_later`."""
        self.check_usable()
        return self._deferred.submit(peer, content, timeout, answered=False)

    def outbox(self, peer: Peer) -> Outbox | None:
        """Where calls gather that are sent to a peer together; None when it takes them one by one."""
        return self._deferred.outbox(peer, self.protocol, self.keeper.hold)

    def peer(self, target: str, timeout: float = 30.0) -> Peer:
        """Who is behind an endpoint or name; errors as `request`."""
        self.check_usable()
        return self.find(target, timeout).peer

    def meet(self, endpoint: str, timeout: float) -> Peer:
        """As `peer`, with a new handshake whoever was met there before."""
        self.check_usable()
        self._requester.forget(endpoint)
        return self._requester.peer(endpoint, time.monotonic() + timeout)

    def abandon(self, endpoint: str) -> None:
        """Whoever was at an endpoint is not any more: end the waits for its replies, with PeerLost."""
        self._requester.endings.abandon(endpoint)

    def _choose(self, entry: Entry, timeout: float) -> str:
        """The address by which an agent is reached from here; errors as `dial`."""
        best = entry.addresses[0]
        if len(entry.addresses) == 1 or endpoints.is_loopback(best):
            return best
        return dial(entry.addresses, timeout, expecting(self._requester, entry.agent))

    def _answers(self, agent_id: str, endpoint: str) -> bool:
        """Whether an agent is still at an endpoint, and able to answer."""
        try:
            return self.meet(endpoint, ANSWER_TIMEOUT).agent_id == agent_id
        except PzcError:
            return False
