"""Watching: a gathering subscribes to whoever has a name that fits a pattern, for as long as that is there.

The pattern may be a name that nobody has yet; once somebody has it, the subscription stays and follows it.

::

    source     event                                     next
    absent     a name appears that fits                  joining
    joining    subscribed                                joined
    joining    not to be reached                         joining, again after `RETRY` seconds
    joining    refused by its publisher                  refused: told once, until the name is gone
    joined     its agent is at another endpoint          joined: it follows as any subscription by name
    joined     nobody has the name any more              away
    away       somebody has it again                     joined: it has followed
    away       for the seconds of `Merged.patience`     absent; of a single name never
    away       nobody wants it any more                  absent
    any other  nobody has the name any more              absent
    joining    refused, of a single name                 the subscription ends

The patience of lossy subscriptions is 0. Where publishers keep a mailbox it is as long as they keep it: to
leave one ends its mailbox, with all that it holds of a publisher that is frozen, or cut off.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from ...discovery.events import Conflict, Event
from ...discovery.names import Pattern, Target, is_pattern
from ...discovery.records import Entry
from ...protocol.errors import (
    AgentClosed,
    BindError,
    CallTimeout,
    PeerLost,
    PzcError,
    SubscriptionClosed,
    UnknownName,
)
from ...transport.tables import Table
from ...transport.threads import Condition, waited
from ..notifications.merged import Merged
from .connections import Connections
from .discovering import ANSWERED
from .naming import Naming

logger = logging.getLogger("pzc.names")

RETRY = 0.5
"""Seconds until a publisher that could not be reached is tried again."""

_PASSING = (PeerLost, CallTimeout, UnknownName, BindError)  # the last for want of a thread, or descriptors


class Watching:
    """Keeps the sources of a gathering equal to the names that fit.

    Args:
        naming: of the agent.
        pattern: of names, or one name.

    Raises:
        ConfigError: for what is neither.
    """

    def __init__(self, naming: Naming, pattern: str) -> None:
        self._naming = naming
        self._pattern = pattern
        self._fits = Pattern(pattern) if is_pattern(pattern) else None
        self._places = () if self._fits else tuple(naming.places(pattern))
        self._gathering: Merged | None = None
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._away: dict[str, float] = {}  # since when, monotonic
        self._refused: set[str] = set()
        self._idle = Condition(self._lock)
        self._closed = threading.Event()
        self._due = False

    def begin(self, sources: Merged, timeout: float) -> None:
        """Subscribe to those that are there, and from now on to those that come.

        Returns once those that answered at once are joined, at most ``timeout`` seconds later.
        """
        until = time.monotonic() + timeout
        self._gathering = sources
        self._naming.watch(self._pattern, self._on_event)
        waited(self._closed.wait, min(ANSWERED, timeout))
        self.follow(until)

    def close(self) -> None:
        """Watch no more; never waits."""
        self._closed.set()
        self._naming.unwatch(self._on_event)

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, Conflict) and self._concerns(event.entry):
            self._look_soon()

    def _look_soon(self) -> None:
        """Look once at all that comes and goes until then."""
        if not self._due:
            self._due = True
            self._naming.help(self._look)

    def _concerns(self, entry: Entry) -> bool:
        """Whether an entry that came, went or changed may be a source."""
        if self._fits is None:
            return entry.kind != "topic" and Target(entry.partition, entry.name) in self._places
        return entry.kind != "topic" and self._fits.matches(entry.name)

    def _there(self) -> set[str]:
        """The sources that there are now."""
        if self._fits is None:
            return {self._pattern} if self._naming.known(self._pattern) else set()
        entries = {f"@{entry.partition}@{entry.name}": entry for entry in self._naming.match(self._pattern)}
        if self._gathering is None or self._gathering.topic != "*":
            return set(entries)
        held = self._gathering.sources
        ordered = sorted(entries, key=lambda each: (each in held, -entries[each].number))
        # All topics of a server are the same under each of its names.
        return set({entries[each].agent or each: each for each in ordered}.values())

    def _unwanted(self, source: str) -> bool:
        """Whether a source that is away is left at once."""
        return False

    def follow(self, until: float) -> bool:
        """Wait until those that are there now are joined, or could not be; False at a time, monotonic."""
        self._look()
        with self._idle:
            return self._idle.wait_for(lambda: not self._busy, max(0.0, until - time.monotonic()))

    def _look(self) -> None:
        self._due, gathering = False, self._gathering
        if gathering is None or self._closed.is_set():
            return
        there = self._there()
        with self._lock:
            self._refused &= there
            new = there - set(gathering.sources) - self._busy - self._refused
            self._busy |= new
        for source in new:
            self._naming.help(partial(self._join, gathering, source), new=True)
        for source in self._over(set(gathering.sources) - there, gathering.patience):
            gathering.remove(source)

    def _over(self, away: set[str], patience: float) -> list[str]:
        """Those of the sources that are away now which have been so for too long."""
        now = time.monotonic()
        with self._lock:
            new = away - self._away.keys()
            self._away = {source: self._away.get(source, now) for source in away}
            over = [
                source
                for source, since in self._away.items()
                if since + patience <= now or self._unwanted(source)
            ]
        if new and 0 < patience < math.inf:
            self._naming.help(self._look, after=patience)
        return over

    def _join(self, gathering: Merged, source: str) -> None:
        again = False
        try:
            gathering.add(source)
            self._look_soon()  # it may have gone while it was joined
        except _PASSING as exc:
            logger.info("%s cannot be subscribed to yet: %s", source, exc)
            again = True
        except (AgentClosed, SubscriptionClosed):
            self.close()
        except PzcError as exc:
            if self._fits is None:
                gathering.refuse(exc)
                return
            logger.warning("%s is left out of %s of %s: %s", source, gathering.topic, self._pattern, exc)
            with self._lock:
                self._refused.add(source)
        finally:
            with self._idle:
                self._busy.discard(source)
                self._idle.notify_all()
        if again:
            self._naming.help(self._look, after=RETRY)


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

    A node of the graph is the name of a topic from the root (``/robot1/psu/voltage``: topic ``voltage`` of
    the agent ``/robot1/psu``), or a name that nobody publishes. Whoever subscribes to a node gets what is
    published there, and what is published on every node that leads to it, each message once::

        path      event                                      next
        absent    node connected, its publisher is there     joined
        joined    node disconnected, or its publisher gone   absent: what pends of it is dropped, counted
        joined    its publisher gone, of a mailbox           joined while it is kept, then absent

    The graph is kept by the registry (``PZC_REGISTRY``) for everybody of the partition, else by this process
    for itself. Circles are refused.

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

    def begin(self, sources: Merged, timeout: float) -> None:
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
        told = {
            ((entry.agent, entry.publisher), entry.topic) for entry in self._naming.own().match(node, "topic")
        }
        tellers = {agent for (agent, _), _ in told}
        self._tellers |= tellers  # before it is asked who they are: one that comes later is told of
        found = {
            f"@{owner.partition}@{owner.name} {topic}"
            for owner in (self._naming.match("**") if told else ())
            for publisher, topic in told
            if (owner.agent, owner.number) == publisher
        }
        parts = node.split("/")
        for end in range(2, len(parts)):
            for entry in self._naming.match("/".join(parts[:end])):
                if entry.agent not in tellers:
                    found.add(f"@{entry.partition}@{entry.name} {'/'.join(parts[end:])}")
        return found
