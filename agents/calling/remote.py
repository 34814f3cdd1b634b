"""RemoteObject: what a proxy holds of one served object on another agent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ...delivery.policies import Policy
from ...protocol.errors import CallTimeout, PeerLost
from ...protocol.frames import PZC00
from ..messages import ps_message
from ..notifying.signals import Slot
from ..serving.completions import Completions
from ..wire import Protocol
from . import answers, client, originals
from .answers import REMOTE
from .contact import Contact, checked_timeout, checked_transport
from .futures import CallFuture
from .peers import Peer
from .reply import Reply
from .retries import Repeating
from .slots import SLOT_POLICY, Slots

__all__ = ["REMOTE", "SLOT_POLICY", "RemoteObject"]

_repeating = Repeating(PeerLost, threading.Event())


class RemoteObject(Contact):
    """Members, calls, signals and lock of one served object; safe from any thread.

    ::

        table      event                                          next
        current    answered by another agent (restarted)          outdated: `on_outdated` is called
        outdated   a member is looked up                          current: fetched again

    Args:
        target: endpoint or name of the server.
        timeout: default of a call in seconds; None takes ``PZC_TIMEOUT``.
        protocol: default `Protocol`.
        transport: default of a call; None takes ``PZC_TRANSPORT``.

    Raises:
        CallTimeout, PeerLost, SignatureError, UnknownName: as `Agent.request`.
        ConfigError: for a timeout or transport that cannot be used.

    Attributes:
        table: what the server said about its members, by name.
        generation: changes with the table, and when it may be out of date.
        on_outdated: called, in any thread, when the table may be out of date.
    """

    def __init__(
        self, target: str, timeout: float | None, protocol: Protocol | None, transport: str | None = None
    ) -> None:
        checked_timeout(timeout)
        checked_transport(transport)
        agent = client.lease(protocol)
        self.target = target
        self.table: dict[str, dict[str, Any]] = {}
        self.generation = 0
        self.on_outdated: Callable[[], None] | None = None
        self._outdated = False
        self._completions: Completions | None = None
        try:
            settings = agent.settings
            seconds: float = settings["PZC_TIMEOUT"] if timeout is None else timeout
            found = agent.find(target, seconds)
            super().__init__(
                agent,
                found.peer,
                seconds,
                settings["PZC_HIDE_TRACEBACK"],
                transport or settings["PZC_TRANSPORT"],
            )
            self._slots = Slots(agent, self.target)
            self._load()
            self.trail = agent.follow(target, found.place, self.move)
        except BaseException:
            client.release(agent)
            raise

    def _load(self) -> None:
        if self.trail is None:
            self.peer = self.agent.peer(self.endpoint, self.timeout)
            reply = self._ask_table(self.timeout, idempotent=True)
        else:
            find = partial(self._find_table, time.monotonic() + self.timeout)
            reply = _repeating.call(find, self.timeout)
        original = self.peer.dialect == PZC00
        _, told = answers.read(reply, self.endpoint, self.hide_traceback)
        self.table = originals.table_of(told, self.endpoint) if original else dict(told)
        self.server = reply.sender
        self._outdated = False
        self.generation += 1
        if self.on_outdated is not None:
            self.on_outdated()
        if original and self._completions is None:
            self._completions = Completions(self.agent, self.endpoint)

    def _find_table(self, deadline: float) -> Reply:
        """Ask at the server's present place: it may move while it is looked for."""
        found = self.agent.reach(self._place, max(0.001, deadline - time.monotonic()))
        self.peer = found.peer
        return self._ask_table(found.left)

    def _ask_table(self, seconds: float, idempotent: bool = False) -> Reply:
        word = ps_message("inspect" if self.peer.dialect == PZC00 else "describe", {})
        try:
            return self.agent.exchange(
                self.peer.endpoint, word, seconds, transport=self.transport, idempotent=idempotent
            )
        except CallTimeout as exc:
            self.name_call(exc)
            raise

    def member(self, name: str) -> dict[str, Any]:
        """What the server said about a member; empty for one that it did not name."""
        if self._outdated:
            self._load()
        return self.table.get(name, {})

    def _turn_to(self, peer: Peer, server: str) -> None:
        """Another agent, or another endpoint: its members may be others."""
        super()._turn_to(peer, server)
        self._outdated = True
        self.generation += 1
        if self.on_outdated is not None:
            self.on_outdated()

    def await_original(self, call_id: str, future: CallFuture) -> None:
        """Finish the future when the original Pizco tells the result of a call."""
        if self._completions is None:
            super().await_original(call_id, future)
        else:
            self._completions.expect(call_id, future)

    def instantiate(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make the server's object and learn its members."""
        self.request("instantiate", {"class": name, "args": args, "kwargs": kwargs})
        self._load()

    def connect(self, name: str, slot: Slot, policy: Policy | None) -> None:
        """As `Slots.connect`, within the timeout."""
        if self._closed:
            self._refuse_closed()
        self._slots.connect(name, slot, policy, self.timeout)

    def disconnect(self, name: str, slot: Slot | None) -> None:
        """As `Slots.disconnect`."""
        self._slots.disconnect(name, slot)

    def stop_server(self) -> None:
        """Ask the server to stop; errors as `Agent.request`."""
        self.agent.request(self.endpoint, "stop", self.timeout)

    def close(self) -> None:
        """Let go of everything held for this proxy. Again: no effect."""
        with self._mutex:
            closed, self._closed = self._closed, True
        if closed:
            return
        super().close()
        self.exclusive.drop(self)
        self._slots.close()
        if self._completions is not None:
            self._completions.close(f"the proxy of {self.target} was closed")
        client.release(self.agent)
