"""Topology: topics that flow into other topics, and subscriptions that follow that while it changes.

A node of the graph is the name of a topic from the root (``/robot1/psu/voltage``: topic ``voltage`` of the
agent ``/robot1/psu``), or a name that nobody publishes. Whoever subscribes to a node gets what is published
there, and what is published on every node that leads to it, each message once::

    path       event                                       next
    absent     node connected, its publisher is there      joined
    joined     node disconnected, or its publisher gone    absent: what is pending of it is dropped, counted

The graph is kept by the registry (``PZC_REGISTRY``) for everybody of the partition, else by this process for
itself. Circles are refused.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any

from ...delivery.graph import TopicGraph
from ...delivery.policies import Policy, drop
from ...discovery.records import Entry as Named
from ...protocol.errors import CallTimeout
from ..dispatch import Executor
from ..notifying.entries import Entry, done
from ..notifying.gathering import Gathering, Make
from ..notifying.subscribing import Subscribing
from ..notifying.subscription import Callback, Subscription
from ..wire import Protocol
from .connections import Connections
from .naming import Naming
from .registering import Registering
from .watching import Watching


class _Here:
    """Who follows a graph in this process; and its own graphs, by partition, where there is no registry."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.graphs: dict[str, Connections] = {}
        self.flowing: dict[Flowing, None] = {}

    def of(self, partition: str) -> Connections:
        with self.lock:
            return self.graphs.setdefault(partition, Connections())


_here = _Here()
os.register_at_fork(after_in_child=_here.forget)


class Topology:
    """The graph as one agent sees and changes it; any thread.

    Args:
        naming: of the agent.
        protocol: of the agent.
    """

    def __init__(self, naming: Naming, protocol: Protocol) -> None:
        self._naming = naming
        self._protocol = protocol
        self._registering: Registering | None = naming.own().registering

    def node(self, name: str) -> str:
        """The name from the root.

        Raises:
            ConfigError: for what can be no name.
        """
        return self._naming.node(name)

    def change(self, word: str, source: str, target: str, timeout: float) -> None:
        """``connect`` or ``disconnect``; returns when every `Flowing` of this process has followed.

        Raises:
            CallTimeout: when one has not; the graph is changed all the same.
            PzcError: further ones as `Topological.connect_topics`.
        """
        until = time.monotonic() + timeout
        registering = self._registering
        if registering is None:
            getattr(_here.of(self._naming.partition), word)(source, target)
        else:
            revision = self._ask_registry(registering, word, source, target, timeout)
            if self._followers():
                self._wait_for(registering, revision, until)
        late = {each.node for each in self._followers() if not each.follow(until)}
        if late:
            raise CallTimeout(
                f"{word} {source!r} and {target!r} was done; this process's subscriptions to "
                f"{', '.join(sorted(late))} have not followed within {timeout:g} s, and go on trying"
            )

    def _followers(self) -> list[Flowing]:
        """Who follows the same graph in this process."""
        return [each for each in _here.flowing.copy() if each.graph is self.graph]

    def _wait_for(self, registering: Registering, revision: int, until: float) -> None:
        """Wait until this process knows a revision of the registry's graph."""
        changed = threading.Event()
        unlisten = self.listen(changed.set)
        try:
            while registering.revision is None or registering.revision < revision:
                if not changed.wait(max(0.0, until - time.monotonic())):
                    raise CallTimeout(
                        "the registry has changed its graph, and did not tell this process in time"
                    )
                changed.clear()
        finally:
            unlisten()

    def _ask_registry(
        self, registering: Registering, word: str, source: str, target: str, timeout: float
    ) -> int:
        """Have the registry change its graph; which revision that is in."""
        from ..calling.proxy import Proxy, close  # which stands on agents, as this module's users do

        proxy = Proxy(registering.endpoint, timeout=timeout, protocol=self._protocol)
        try:
            getattr(proxy, word)(source, target)
            return int(proxy.status["revision"])
        finally:
            close(proxy)

    def connections(self) -> list[tuple[str, str]]:
        """Every connection as (source, target), as far as it is known here."""
        return self._graph().connections()

    def upstream(self, node: str) -> frozenset[str]:
        """The other nodes that lead to a node."""
        return self._graph().upstream(node)

    @property
    def graph(self) -> Registering | Connections:
        """Who keeps the graph: one and the same object for all who share it."""
        return self._registering or _here.of(self._naming.partition)

    def _graph(self) -> TopicGraph | Connections:
        registering = self._registering
        return _here.of(self._naming.partition) if registering is None else registering.edges

    def listen(self, listener: Callable[[], object]) -> Callable[[], object]:
        """Call a function after every change; returns what ends that."""
        registering = self._registering
        if registering is not None:
            listeners = registering.on_edges
            listeners.append(listener)
            return lambda: listeners.remove(listener) if listener in listeners else None
        return _here.of(self._naming.partition).listen(listener)


class Flow(Gathering):
    """A subscription to a node; a source is ``PUBLISHER TOPIC``, and takes with it what is pending of it."""

    def __init__(self, *args: object, **options: Any) -> None:
        super().__init__(*args, **options)
        self._seen: dict[Subscription, set[tuple[str, int]]] = {}

    def take(self, entries: Sequence[Entry], member: Subscription) -> Subscription | None:
        """Notifications of a member; returns as `admit`."""
        with self._mutex:
            gone = member.closed
            if gone:
                self._inbox.lose(len(entries))
            else:
                self._seen.setdefault(member, set()).update((entry.topic, entry.epoch) for entry in entries)
        if not gone:
            return super().take(entries, member)
        for entry in entries:
            done(entry)
        return None

    def remove(self, source: str) -> None:
        """As `Gathering.remove`; what is pending of the source is dropped and counted."""
        member = self._members.get(source)
        super().remove(source)
        if member is None:
            return
        with self._mutex:
            gone = self._seen.pop(member, set[tuple[str, int]]())
            left = set[tuple[str, int]]().union(*self._seen.values())
            self._inbox.forget(lambda entry: (entry.topic, entry.epoch) in gone - left)
        self._end_refused()


class Flowing(Watching):
    """Keeps the sources of a `Flow` equal to the publishers of all nodes that lead to one.

    Args:
        naming: of the agent.
        topology: of the agent.
        node: name from the root.

    Attributes:
        node: as given.
        graph: who keeps the graph that it follows.
    """

    def __init__(self, naming: Naming, topology: Topology, node: str) -> None:
        super().__init__(naming, "**")
        self._topology = topology
        self.node, self.graph = node, topology.graph
        self._unlisten: Callable[[], object] | None = None
        self._tellers: set[str] = set()  # agents that announced a topic as one of the nodes

    def begin(self, gathering: Gathering, timeout: float) -> None:
        """As `Watching.begin`."""
        self._unlisten = self._topology.listen(self._on_edges)
        _here.flowing[self] = None
        super().begin(gathering, timeout)

    def close(self) -> None:
        """As `Watching.close`."""
        if self._unlisten is not None:
            self._unlisten()
        _here.flowing.pop(self, None)
        super().close()

    def _on_edges(self) -> None:
        self._naming.help(self._look)

    def _nodes(self) -> frozenset[str]:
        return self._topology.upstream(self.node) | {self.node}

    def _concerns(self, entry: Named) -> bool:
        if entry.agent in self._tellers:
            return True
        return any(node.startswith(f"{entry.name}/") or node == entry.name for node in self._nodes())

    def _there(self) -> set[str]:
        return {source for node in self._nodes() for source in self._sources_of(node)}

    def _sources_of(self, node: str) -> set[str]:
        """Every topic announced as the node, and of every other agent whose name it begins with the rest."""
        told = {(entry.agent, entry.topic) for entry in self._naming.own().match(node, "topic")}
        tellers = {agent for agent, _ in told}
        self._tellers |= tellers  # before it is asked who they are: one that comes later is told of
        found = {
            f"@{owner.partition}@{owner.name} {topic}"
            for owner in (self._naming.match("**") if told else ())
            for agent, topic in told
            if owner.agent == agent
        }
        parts = node.split("/")
        for end in range(2, len(parts)):
            for entry in self._naming.match("/".join(parts[:end])):
                if entry.agent not in tellers:
                    found.add(f"@{entry.partition}@{entry.name} {'/'.join(parts[end:])}")
        return found


class Topological(ABC):
    """The side of an `Agent` that connects topics."""

    protocol: Protocol
    _naming: Naming
    _subscribing: Subscribing
    _callbacks: Executor
    _join: Callable[[str, float, dict[str, Any]], Subscription]

    @property
    def topology(self) -> Topology:
        """The graph of connected topics."""
        return Topology(self._naming, self.protocol)

    def connect_topics(self, source: str, target: str, timeout: float = 10.0) -> None:
        """Let what is published on one topic reach whoever subscribes to another one as a node.

        Returns when every subscription of this process has followed: it gets what is published from then on.
        Other processes follow as soon as the registry tells them.

        Args:
            source: name of a topic, such as ``robot1/psu/voltage``; from the agent's namespace or the root.
            target: the same; also a name that nobody publishes.
            timeout: seconds for the registry, and for the subscriptions of this process.

        Raises:
            CycleRefused: when that would lead messages back to where they came from.
            ConfigError: for what can be no name.
            Refused: when there are too many connections, or the key's role may not.
            CallTimeout: also when a subscription of this process has not followed in time; the topics are
                connected all the same.
            CallTimeout, PeerLost, SignatureError: when the registry cannot be reached.
        """
        topology = self.topology
        topology.change("connect", topology.node(source), topology.node(target), timeout)

    def disconnect_topics(self, source: str, target: str, timeout: float = 10.0) -> None:
        """End a connection; arguments, and when it returns, as `connect_topics`.

        Raises:
            UnknownName: when there is none.
            CallTimeout, PeerLost, SignatureError, RoleRefused: as `connect_topics`.
        """
        topology = self.topology
        topology.change("disconnect", topology.node(source), topology.node(target), timeout)

    def topic_connections(self) -> list[tuple[str, str]]:
        """Every connection as (source, target), as far as it is known here."""
        return self.topology.connections()

    def subscribe_graph(
        self,
        node: str,
        callback: Callback | None = None,
        *,
        policy: Policy | None = None,
        timeout: float = 5.0,
        executor: Executor | None = None,
        transport: str | None = None,
    ) -> Subscription:
        """Get what is published on a node of the graph, and on every node that leads to it.

        Returns once the publishers that answered at once are joined; later ones, and changes of the graph,
        are followed. ``Notification.topic`` and ``name`` tell where each one was published.

        Args:
            node: as the names of `connect_topics`.
            callback: as `Agent.subscribe`.
            policy: as `Agent.subscribe`; holds for all publishers together.
            timeout: seconds to wait for those that are there.
            executor: as `Agent.subscribe`.
            transport: as `Agent.subscribe`.

        Raises:
            ConfigError: for what can be no name, or a policy that a subscription cannot have.
        """
        topology = self.topology
        flowing = Flowing(self._naming, topology, topology.node(node))
        executor = executor or self._callbacks
        way: dict[str, Any] = {
            "policy": policy or drop(), "raw": False, "executor": executor, "transport": transport,
            "initial": False, "type": "", "callback": None, "key": None,
        }  # fmt: skip

        def join(source: str, make: Make) -> Subscription:
            publisher, _, topic = source.rpartition(" ")
            return self._join(publisher, timeout, {**way, "topic": topic, "make": make})

        def on_close(flow: Subscription) -> None:
            self._subscribing.gatherings.pop(flow, None)
            flowing.close()

        flow = Flow(node, node, callback, way["policy"], None, executor, on_close, join=join)
        self._subscribing.gatherings[flow] = None
        try:
            flowing.begin(flow, timeout)
        except BaseException:
            flow.close()
            raise
        return flow
