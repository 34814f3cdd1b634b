"""Topology: topics that flow into other topics, and subscriptions that follow that while it changes.

A node of the graph is the name of a topic from the root (``/robot1/psu/voltage``: topic ``voltage`` of the
agent ``/robot1/psu``), or a name that nobody publishes. Whoever subscribes to a node gets what is published
there, and what is published on every node that leads to it, each message once::

    path       event                                       next
    absent     node connected, its publisher is there      joined
    joined     node disconnected, or its publisher gone    absent: what is pending of it is dropped, counted
    joined     its publisher gone, of a mailbox            joined for the seconds that it is kept, then absent

The graph is kept by the registry (``PZC_REGISTRY``) for everybody of the partition, else by this process for
itself. Circles are refused.
"""

from __future__ import annotations

from collections.abc import Callable

from ...discovery.records import Entry
from ...transport.tables import Table
from ..interfaces import Sources
from .connections import Connections
from .naming import Naming
from .watching import Watching


class _Here(Table):
    """Who follows a graph in this process; and its own graphs, by partition, where there is no registry."""

    def begin(self) -> None:
        super().begin()
        self.graphs: dict[str, Connections] = {}
        self.flowing: dict[Flowing, None] = {}

    def of(self, partition: str) -> Connections:
        with self.lock:
            return self.graphs.setdefault(partition, Connections())


_here = _Here()


def graph_of(naming: Naming) -> Connections:
    """The graph that an agent sees: the registry's as it is known here, else that of this process."""
    registering = naming.own().registering
    return _here.of(naming.partition) if registering is None else registering.graph


def followers(graph: Connections) -> list[Flowing]:
    """Who follows a graph in this process."""
    return [each for each in _here.flowing.copy() if each.graph is graph]


class Flowing(Watching):
    """Keeps the sources of a `Sources` equal to the publishers of all nodes that lead to one.

    Args:
        naming: of the agent.
        graph: that it follows.
        node: name from the root.

    Attributes:
        node: as given.
        graph: who keeps the graph that it follows.
    """

    def __init__(self, naming: Naming, graph: Connections, node: str) -> None:
        super().__init__(naming, "**")
        self.node, self.graph = node, graph
        self._unlisten: Callable[[], object] | None = None
        self._led: dict[str, set[str]] = {}  # from a source to the nodes that it was found as
        self._tellers: set[str] = set()  # agents that announced a topic as one of the nodes

    def begin(self, sources: Sources, timeout: float) -> None:
        """As `Watching.begin`."""
        self._unlisten = self.graph.listen(self._look_soon)
        _here.flowing[self] = None
        super().begin(sources, timeout)

    def close(self) -> None:
        """As `Watching.close`."""
        if self._unlisten is not None:
            self._unlisten()
        _here.flowing.pop(self, None)
        super().close()

    def _nodes(self) -> frozenset[str]:
        return self.graph.upstream(self.node) | {self.node}

    def _concerns(self, entry: Entry) -> bool:
        if entry.agent in self._tellers:
            return True
        return any(node.startswith(f"{entry.name}/") or node == entry.name for node in self._nodes())

    def _there(self) -> set[str]:
        found: dict[str, set[str]] = {}
        for node in self._nodes():
            for source in self._sources_of(node):
                found.setdefault(source, set()).add(node)
        held = () if self._gathering is None else self._gathering.sources
        self._led = {source: self._led[source] for source in held if source in self._led} | found
        return set(found)

    def _unwanted(self, source: str) -> bool:
        return self._nodes().isdisjoint(self._led.get(source, ()))

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
