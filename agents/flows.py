"""Flows: topics that flow into other topics, as an agent connects them and subscribes to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..delivery.policies import Policy, drop
from ..protocol.contents import ps_message
from ..protocol.errors import CallTimeout
from ..transport.executor import Executor
from ..transport.threads import waited
from .client import answers
from .naming.connections import Connections
from .naming.naming import Naming
from .naming.watching import Flowing, Watching, followers, graph_of
from .notification import Callback
from .notifications.listening import check
from .notifications.merged import Make, Merged
from .notifications.subscribing import OnClose
from .notifications.subscription import Subscription
from .reply import Reply


class Flows:
    """The graph of topics as one agent changes and hears it.

    Args:
        naming: of the agent.
        callbacks: runs callbacks.
        follow: makes a subscription of others, as `Subscribing.follow`.
        ask: sends content to an endpoint, and waits for a time in seconds for the answer.
        join: subscribes to one publisher within a time in seconds, as `Listening.join`.
    """

    def __init__(
        self,
        naming: Naming,
        callbacks: Executor,
        follow: Callable[[Watching, Callable[[OnClose], Merged], float], Merged],
        ask: Callable[[str, object, float], Reply],
        join: Callable[[str, float, dict[str, Any]], Subscription],
    ) -> None:
        self._naming = naming
        self._ask = ask
        self._callbacks = callbacks
        self._follow = follow
        self._join = join

    def node(self, name: str) -> str:
        """The name of a node from the root.

        Raises:
            ConfigError: for what can be no name.
        """
        return self._naming.node(name)

    def _change(self, word: str, source: str, target: str, timeout: float) -> None:
        """``connect`` or ``disconnect``; returns when every `Flowing` of this process has followed."""
        until, graph, registering = time.monotonic() + timeout, self._graph, self._naming.own().registering
        source, target = self.node(source), self.node(target)
        if registering is None:
            getattr(graph, word)(source, target)
        else:
            revision = self._ask_registry(registering.endpoint, word, source, target, timeout)
            if followers(graph):
                _wait_for(graph, revision, until)
        late = {each.node for each in followers(graph) if not each.follow(until)}
        if late:
            raise CallTimeout(
                f"{word} {source!r} and {target!r} was done; this process's subscriptions to "
                f"{', '.join(sorted(late))} have not followed within {timeout:g} s, and go on trying"
            )

    @property
    def _graph(self) -> Connections:
        return graph_of(self._naming)

    def _ask_registry(self, endpoint: str, word: str, source: str, target: str, timeout: float) -> int:
        until = time.monotonic() + timeout
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            ("exec", {"name": word, "method": "__call__", "args": (source, target), "kwargs": {}}),
            ("getattr", {"name": "status"}),
        )
        value: Any = None
        for action, options in calls:
            left = max(0.001, until - time.monotonic())
            _, value = answers.read(self._ask(endpoint, ps_message(action, options), left), endpoint, True)
        return int(value["revision"])

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
        self._change("connect", source, target, timeout)

    def disconnect_topics(self, source: str, target: str, timeout: float = 10.0) -> None:
        """End a connection; arguments, and when it returns, as `connect_topics`.

        Raises:
            UnknownName: when there is none.
            CallTimeout, PeerLost, SignatureError, RoleRefused: as `connect_topics`.
        """
        self._change("disconnect", source, target, timeout)

    def topic_connections(self) -> list[tuple[str, str]]:
        """Every connection as (source, target), as far as it is known here."""
        return self._graph.connections()

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
            ConfigError: for what can be no name, and an argument that a subscription cannot have.
        """
        flowing = Flowing(self._naming, self._graph, self.node(node))
        check(node, node, callback, (policy,), timeout, executor, transport)
        executor = self._callbacks if executor is None else executor
        options: dict[str, Any] = {
            "policy": policy or drop(), "raw": False, "executor": executor, "transport": transport,
            "initial": False, "type": "", "callback": None, "key": None,
        }  # fmt: skip

        def join(source: str, make: Make) -> Subscription:
            publisher, _, topic = source.rpartition(" ")
            return self._join(publisher, timeout, {**options, "topic": topic, "make": make})

        def made(on_close: OnClose) -> Merged:
            return Merged(
                node, node, callback, options["policy"], None, executor, on_close, join=join,
                patience=options["policy"].keep or 0.0, takes_along=True,
            )  # fmt: skip

        return self._follow(flowing, made, timeout)


def _wait_for(graph: Connections, revision: int, until: float) -> None:
    """Wait until this process knows a revision of the registry's graph."""
    changed = threading.Event()
    unlisten = graph.listen(changed.set)
    try:
        while graph.snapshot()[0] < revision:
            if not waited(changed.wait, max(0.0, until - time.monotonic())):
                raise CallTimeout("the registry has changed its graph, and did not tell this process in time")
            changed.clear()
    finally:
        unlisten()
