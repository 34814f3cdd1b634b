"""RemoteObject: what all references of one proxy share: the way to its server, and what that told."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ...delivery.policies import Policy
from ...discovery.records import Place
from ...protocol.contents import as_list, ps_message
from ...protocol.paths import Handle, Path, from_wire, text, to_wire
from ...transport.peer import Peer
from ...transport.wire import Protocol
from ..compat import pizco_client
from ..notification import Callback
from ..notifications.subscription import Subscription
from ..reply import Reply, accepted, reply_of
from ..signals import Slot
from . import answers, described
from .described import About, Entry
from .exchanges import repeated
from .handles import Leases
from .served import Lease, ServedObject
from .slots import SLOT_POLICY, Slots
from .terms import IDEMPOTENT, checked_target, checked_timeout, checked_transport

_DESCRIBED_PATHS = 4096
"""Paths into a served object of whose members a proxy remembers what it was told."""


logger = logging.getLogger("pzc.proxy")


Refer = Callable[["RemoteObject", Path, Entry, object], Any]
"""Makes what stands here for something: its path, what was told of it, and what keeps it there."""


class RemoteObject(ServedObject):
    """Members, calls, signals and lock of one served object; safe from any thread.

    ::

        described  event                                          next
        current    answered by another agent (restarted)          outdated: every holder forgets
        outdated   a member is looked up                          current: fetched again

    Args:
        lease: gives the agent that asks.
        target: endpoint or name of the server.
        timeout: default of a call in seconds; None takes ``PZC_TIMEOUT``.
        protocol: default `Protocol`.
        transport: default of a call; None takes ``PZC_TRANSPORT``.
        refer: makes references.

    Raises:
        CallTimeout, PeerLost, SignatureError, UnknownName: as `Agent.request`.
        ConfigError: for a target, timeout or transport that cannot be used.

    Attributes:
        root: path of the object in what is served: its name at a server of several objects, else empty.
        generation: changes when what was told may be out of date.
    """

    def __init__(
        self,
        lease: Lease,
        target: str,
        timeout: float | None,
        protocol: Protocol | None,
        transport: str | None,
        refer: Refer,
    ) -> None:
        checked_target(target)
        checked_timeout(timeout)
        checked_transport(transport)
        agent, self._release = lease(protocol)
        self.target = target
        self.root: Path = ()
        self.generation = 0
        self._refer = refer
        self._described: dict[Path, About] = {}
        self._holders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._outdated = False
        try:
            seconds: float = agent.settings["PZC_TIMEOUT"] if timeout is None else timeout
            found = agent.find(target, seconds)
        except BaseException:
            self._release()
            raise
        super().__init__(agent, found.peer, seconds, transport)
        self._slots = Slots(self._listen)
        self._leases = Leases(agent.loop.call, self.tell, self._alive)
        try:
            self._load()
            self.follower = agent.follow(target, found.place, self.move)
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        self.agent.check_usable()
        reply = repeated(partial(self._find_table, time.monotonic()), self.timeout, self.abort)
        _, told = answers.read(reply, self.endpoint, self.hide_traceback)
        native = self.peer.native
        about = described.read(told) if native else About(members=pizco_client.table_of(told, self.endpoint))
        serves = self.peer.details.get("serves")
        if not about.type and isinstance(serves, str):
            about = about._replace(type=serves)
        self.server = reply.sender
        self._forget()
        self._described[self.root] = about
        self._outdated = False
        if not native and self.completions is None:
            self.completions = pizco_client.Completions(self.agent.subscribe, self.endpoint)

    def _find_table(self, started: float) -> Reply:
        """Ask at the server's present place: it may move while it is looked for."""
        found = self.agent.reach(self.here, max(0.001, started + self.timeout - time.monotonic()))
        self.peer = peer = found.peer
        name = peer.object_at(self.target)  # that of one of several objects, perhaps
        self.root = (name,) if name else ()
        about: dict[str, Any] = {"on": to_wire(self.root)} if self.root else {}
        word = ps_message("describe", about) if peer.native else ps_message("inspect", {})
        answer, message, _ = self.client.exchange(
            peer.endpoint, word, self.timeout, started, self.transport, self.abort
        )
        return accepted(reply_of(message, answer))

    def about(self, path: Path) -> About:
        """What the server said about something, asked once."""
        if self._outdated:
            self._load()
        return self._described.get(path) or self._learn(path)

    def _learn(self, path: Path) -> About:
        generation = self.generation
        about = described.read(self.request("describe", {"on": to_wire(path)}, IDEMPOTENT))
        if generation == self.generation:  # else it may be out of date by now
            if len(self._described) >= _DESCRIBED_PATHS:
                self._described = {self.root: self._described.get(self.root, About())}
            self._described[path] = about
        return about

    def known(self, path: Path) -> About | None:
        """What was said about something, as far as it was asked already."""
        return None if self._outdated else self._described.get(path)

    def stop_of(self, options: dict[str, Any]) -> object:
        """As `ServedObject.stop_of`."""
        known, name = self.known(from_wire(options.get("on", ()))), str(options.get("name"))
        return None if known is None else known.members.get(name, {}).get("on_cancel")

    def entry(self, path: Path) -> Entry | None:
        """What was said about a member, by itself or by its class; None when nothing was. Asks nobody."""
        if (about := self.known(path[:-1])) is not None:
            return about.members.get(cast("str", path[-1]))
        root, entry = self.known(self.root), cast("Entry", {})
        members = {} if root is None else root.members
        for step in path[len(self.root) :]:
            is_item = not isinstance(step, str)
            entry = entry if is_item else members.get(step, {})
            of_type = entry.get("item" if is_item else "type", "")
            members = cast("Entry", root.types.get(of_type, {}).get("members", {})) if root else {}
        return entry or None

    @property
    def table(self) -> dict[str, Entry]:
        """What the server said about the members of the object, by name."""
        return self._described.get(self.root, About()).members

    def refresh(self, path: Path) -> None:
        """Ask again, when it is needed, what there is below a path."""
        if path == self.root:
            self._outdated = True
        for known in list(self._described):
            if known[: len(path)] == path:
                self._described.pop(known, None)
        self._tell_holders()

    def remember(self, holder: Any) -> None:
        """Call its ``_proxy_forget`` when what it remembers of members may be out of date."""
        with self._mutex:
            self._holders.add(holder)

    def _turn_to(self, peer: Peer, server: str) -> None:
        """Another agent, or another endpoint: its members may be others."""
        super()._turn_to(peer, server)
        self._outdated = True
        self._forget()

    def _forget(self) -> None:
        self._described = {}
        self._tell_holders()

    def _tell_holders(self) -> None:
        self.generation += 1
        with self._mutex:
            holders = list(self._holders)
        for holder in holders:
            holder._proxy_forget()

    def reference(self, about: Entry) -> Any:
        """As `ServedObject.reference`, kept at the server as long as it is held here."""
        path = from_wire(about.get("path"))
        leases: list[object] = [self._leases.take(str(handle)) for handle in as_list(about.get("handles"))]
        if path and isinstance(path[0], Handle):  # of one that came before, when this brought none
            leases.append(self._leases.find(path[0].id))
        return self.refer(path, described.entry_of(about), leases)

    def refer(self, path: Path, about: Entry, leases: object) -> Any:
        """What stands here for something at the server.

        Args:
            path: from what is served.
            about: what was told of it.
            leases: what keeps it there.
        """
        return self._refer(self, path, about, leases)

    def _alive(self) -> Callable[[], object]:
        return self.client.heartbeat.hold(self.peer)

    def instantiate(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make the server's object and learn its members."""
        self.request("instantiate", {"class": name, "args": args, "kwargs": kwargs})
        self._load()

    def connect(self, path: Path, slot: Slot, policy: Policy | None) -> Callable[[], None]:
        """As `Slots.connect`."""
        if self._closed:
            self._refuse_closed()
        self.agent.check_usable()
        self.find_signal(path)
        return self._slots.connect(text(path), slot, policy)

    def _listen(self, topic: str, callback: Callback | None = None, **options: Any) -> Subscription:
        """A subscription at the server as this proxy knows it, which comes along with that."""
        left, follower = self.timeout, self.follower
        if follower is None:
            return self.agent.subscribe(self.endpoint, topic, callback, timeout=left, **options)
        left = self.agent.reach(self.here, left).left  # it may be on the move
        place = Place(self.endpoint, follower.entry)
        subscription = self.agent.subscribe(place.endpoint, topic, callback, timeout=left, **options)
        self.agent.come_along(subscription, self.target, place)
        return subscription

    def find_signal(self, path: Path) -> None:
        """Have the server look at what holds a signal, where it would not find it by itself.

        Raises:
            TypeError: for a member that is no signal.
            MemberRefused: for one that is not there.
        """
        if not self.may_be_signal(path):
            kind = {"items": "mapping or sequence"}.get(told := self._kind_there(path), told)
            raise TypeError(f"{text(path)} of {self.target} is a {kind}, no signal")
        steps = range(len(self.root), len(path) - 1)
        still = all(isinstance(path[at], tuple) or self.kind(path[: at + 1]) == "reference" for at in steps)
        if not still and self.peer.native:
            self._learn(path[:-1])

    def _kind_there(self, path: Path) -> str:
        """Kind of what a path leads to, asked for where no table tells it."""
        kind = self.kind(path)
        if kind in ("", "property") and self.peer.native:
            return self._learn(path).kind
        return kind

    def may_be_signal(self, path: Path) -> bool:
        """Whether a path leads to a signal; a server that is not native does not tell what is one."""
        return self._kind_there(path) in ("", "signal", "remote")

    def disconnect(self, name: str, slot: Slot | None) -> None:
        """As `Slots.disconnect`."""
        self._slots.disconnect(name, slot)

    def subscribe(self, path: Path, policy: Policy | None) -> Subscription:
        """Notifications of a signal; returns once the server has confirmed.

        Raises:
            TypeError: for a member that is no signal.
            CallTimeout, PeerLost, AgentClosed: as `Agent.subscribe`.
        """
        if self._closed:
            self._refuse_closed()
        self.find_signal(path)
        subscription = self._listen(text(path), policy=policy or SLOT_POLICY)
        vars(subscription)["_pzc_owner"] = self.anchor and self.anchor()  # which keeps this open
        self.own(subscription)
        return subscription

    @property
    def name(self) -> str:
        """What the object is called; empty when it has no name."""
        return str(self.root[0]) if self.root else self.peer.name

    def kind(self, path: Path) -> str:
        """Kind of a member, as its table says; empty for what no table names."""
        if not path:
            return "reference"
        entry = self.about(path[:-1]).members.get(path[-1], {}) if isinstance(path[-1], str) else {}
        return str(entry.get("kind", ""))

    def stop_server(self) -> None:
        """Ask the server to stop; errors as `Agent.request`."""
        self.agent.request(self.endpoint, "stop", self.timeout)

    def dropped(self) -> None:
        """As `close`, of a proxy that nobody holds any longer: whose slots end with it is told."""
        if names := self._slots.names:
            logger.warning(
                "a proxy of %s is not held any longer, and with it end its slots of %s: keep it in a "
                "variable as long as they are to be called", self.target, ", ".join(names)
            )  # fmt: skip
        self.close()

    def close(self) -> None:
        """Let go of everything held for this proxy. Again: no effect."""
        with self._mutex:
            closed, self._closed = self._closed, True
        if closed:
            return
        super().close()
        self.exclusive.drop(self)
        self._slots.close()
        if self.completions is not None:
            self.completions.close(f"the proxy of {self.target} was closed")
        self._release()
