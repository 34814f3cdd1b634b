"""Agent: REP, PUB, one SUB and one REQ per peer, behind one object.

::

    state      event                                     next
    running    stop(), or a 'stop' request (0.1 s later) stopping: waiting requests are refused
    stopping   running request answered (at most 2 s),   stopped
               sockets closed, threads ended
    any        used in a forked child                    AgentClosed is raised
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from ..delivery.locks import Changed
from ..discovery.names import Style
from ..discovery.records import Entry, labels_of
from ..protocol.errors import AgentClosed
from ..protocol.keyring import Role
from ..protocol.version import VERSION
from ..transport import endpoints, loops, threads, timers
from ..transport.counters import Counters
from ..transport.endpoints import RANDOM_TCP
from ..transport.executor import STALLED_CALLBACKS, Executor
from ..transport.helpers import aside
from ..transport.inherited import Stays, check_own, forked_since, forks
from ..transport.settings import load
from ..transport.tables import Table
from ..transport.wire import Protocol, chosen
from .client.client import Client
from .client.named_client import NamedClient
from .flows import Flows
from .naming.announcing import Announcing
from .naming.follower import follow
from .naming.naming import Naming
from .notifications.listening import Listening
from .notifications.publishing import Publishing
from .notifications.subscribing import Subscribing
from .parts import method
from .server.answering import Answering
from .shown import agent_page

logger = logging.getLogger("pzc.agent")


class Agent(Stays):
    """Something that can be asked, can publish, ask others, and subscribe.

    Args:
        rep_endpoint: where to answer requests: ``tcp://HOST:PORT`` (port 0: any free one),
            ``ipc://PATH`` or ``inproc://NAME``.
        pub_endpoint: where to publish; same forms, default any free port of the same address.
        name: by which others find it; default none.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.
        namespace: what stands before its name, and before those it looks for; default ``PZC_NAMESPACE``.
        partition: among whom it is found; default ``PZC_PARTITION``.
        discovery: False to be found by its endpoint only, and to find others by ``PZC_PEERS`` only.
        single_port: open no port but that of the REP endpoint, for NAT; default ``PZC_SINGLE_PORT``.
        remap: names to be used in the place of others, ``{"old": "new"}`` or ``["old:=new"]``: for its own
            name, those it looks for, and those of its topics and of the topics it connects. Default none.
        names: ``pzc`` (default), or ``gz``: a name with ``/`` in front is not in the namespace.
        metadata: short texts by name that everybody sees beside its name, such as ``{"room": "B12"}``.
        stream: TCP endpoint where calls arrive over connections of their own, faster than through the REP
            endpoint; default any free port of the same address, none with a single port.

    Raises:
        BindError: naming the endpoint and the reason.
        ConfigError: for an endpoint, setting, name or rule that cannot be used.
    """

    _concurrency = 1
    _affine = False
    _lanes = 1
    _reads_while_locked = False

    def __init__(
        self,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = "",
        *,
        name: str | None = None,
        protocol: Protocol | None = None,
        namespace: str = "",
        partition: str | None = None,
        discovery: bool = True,
        single_port: bool | None = None,
        remap: Mapping[str, str] | Iterable[str] = (),
        names: Style = "pzc",
        metadata: Mapping[str, str] = MappingProxyType({}),
        stream: str = "",
    ) -> None:
        self._labels = labels_of(metadata)
        self.settings = load()
        self.protocol = chosen(protocol, self.settings)
        self.agent_id = os.urandom(16).hex()
        self.counters = Counters()
        self._forks = forks()
        self._naming = Naming(
            self.settings, self.protocol, name or "", namespace, partition, discovery, self._answers,
            self._choose, remap, names,
        )  # fmt: skip
        self.name = self._naming.called
        self._callbacks = Executor(f"pzc-callbacks {self.name}".strip(), spare=STALLED_CALLBACKS)
        self._stopping = threading.Lock()
        self._stopped = threading.Event()
        self.loop = loops.acquire()
        try:
            single = self.settings["PZC_SINGLE_PORT"] if single_port is None else single_port
            endpoints.check(rep_endpoint)
            pub = "" if single else pub_endpoint or endpoints.beside(rep_endpoint)
            self._open(rep_endpoint, pub, "" if single else stream or None)
        except BaseException:
            if self in _running.agents:  # it has more than that
                self._end()
            else:
                loops.release(self.loop)
            raise

    def _open(self, rep_endpoint: str, pub_endpoint: str, stream: str | None) -> None:
        owner, protocol, counters = self.loop, self.protocol, self.counters
        answering = self._answering = Answering(
            owner, rep_endpoint, stream, protocol, self.agent_id, self.name, counters,
            concurrency=self._concurrency, affine=self._affine, lanes=self._lanes,
            reads_while_locked=self._reads_while_locked,
            role_needed=self.role_needed, on_request=self.on_request, on_lock_change=self._on_lock_change,
        )  # fmt: skip
        answering.dispatcher.ask_always(type(self).role_needed is not type(self)._usual_role_needed)
        try:
            self._publishing = Publishing(
                owner, pub_endpoint, protocol, self.agent_id, self.name, counters, answering.replies,
                self._on_filters, self.check_usable, self._callbacks,
                self._naming.partition,
            )  # fmt: skip
        except BaseException:
            answering.abandon()
            raise
        _running.agents.add(self)
        publisher = self._publishing.publisher
        self._control = answering.attach_control(
            publisher, self.describe, partial(aside, self.loop, self.stop)
        )
        self._control.words["statistics"] = lambda request, _: answering.replies.reply(
            request, self.statistics()
        )
        self._control.words.update(self._publishing.words)
        self.client = Client(owner, protocol, self.agent_id, counters, self.rep_endpoint)
        self._named = NamedClient(owner, self.client, self._naming.resolve, self.check_usable)
        self._subscribing = Subscribing(protocol, counters, self.client, self.settings, self.name)
        self._listening = Listening(
            self._subscribing, self._callbacks, self._named, self._naming, self.name, self.check_usable
        )
        self._flows = Flows(
            self._naming, self._callbacks, self._subscribing.follow, self.exchange, self._listening.join
        )
        subscribers = self._publishing.subscribers
        self._announcing = self._publishing.announcer = Announcing(
            owner, self._naming, subscribers.numbers, subscribers.routes.about, publisher.declared.names
        )  # fmt: skip
        subscribers.on_topic = self._announcing.publish
        if not protocol.signed:
            endpoints.warn_unsigned(self.rep_endpoint)
        self._prepare()
        self._publishing.start()  # first: whoever is answered may have a link inside this process
        owner.run(answering.start)
        self._announce()

    def _announce(self) -> None:
        """Tell others of this agent, if it has a name."""
        self._announcing.begin(self._entry())

    def _entry(self) -> Entry:
        """What others are told of this agent, with endpoints as they are bound."""
        return Entry(
            "agent", self.name, agent=self.agent_id, epoch=self.epoch, started=time.time_ns() // 1_000_000,
            addresses=(self.rep_endpoint,), pub_addresses=tuple(filter(None, [self.pub_endpoint])),
            dialects=tuple(self.protocol.codec.accept), labels=self._labels,
        )  # fmt: skip

    def _prepare(self) -> None:
        """What a subclass makes before the first request can come."""

    def __repr__(self) -> str:
        state = " (stopped)" if self._stopped.is_set() else ""
        return f"<{type(self).__name__} {self.name or self.agent_id[:8]} at {self.rep_endpoint}{state}>"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def rep_endpoint(self) -> str:
        """Where it answers, with the real port."""
        return self._answering.zmq.endpoint

    @property
    def pub_endpoint(self) -> str:
        """Where it publishes, with the real port; empty with a single port."""
        return self._publishing.endpoint

    @property
    def stream_endpoint(self) -> str:
        """Where calls arrive over TCP streams, with the real port; empty without."""
        return self._answering.stream.endpoint

    @property
    def epoch(self) -> int:
        """32-bit number of this start."""
        return self.protocol.epoch

    def check_usable(self) -> None:
        """AgentClosed when it was stopped, or is the parent's of this forked process."""
        check_own(self._forks, self)
        if self._stopped.is_set():
            raise AgentClosed(f"{self!r} was stopped")

    def disown(self) -> None:
        """The process was forked: in the child, nothing is asked or published with this agent."""
        self.client.unusable = "this agent belongs to the parent of this forked process: make a new one here"
        self._publishing.publisher.closed = True

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        """Answer a request; override it. Runs in the lane, one request at a time.

        Requests ``'info'``, ``'ping'`` and ``'stop'`` are answered before they come here. The
        default echoes the content.

        Args:
            sender: agent id, or REP endpoint of an original Pizco.
            topic: empty with PZC01.
            content: decoded.
            msgid: the request's id.
        """
        return content

    def role_needed(self, content: Any) -> Role:
        """The role that a signed request needs; override it with `on_request`."""
        return Role.OBSERVER

    _usual_role_needed = role_needed

    def statistics(self) -> dict[str, Any]:
        """What this agent saw: counts by name, topics, subscriptions."""
        check_own(self._forks, self)
        return {
            "counts": self.counters.as_dict(), "calls": self._answering.statistics(),
            **self._publishing.statistics(), "subscriptions": self._subscribing.statistics(),
            "discovery": self._naming.statistics(),
        }  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """What the handshake tells every peer."""
        codec = self.protocol.codec
        return {
            "version": VERSION, "agent_id": self.agent_id, "epoch": self.epoch, "name": self.name,
            "partition": self._naming.partition, "kind": type(self).__name__, "host": socket.gethostname(),
            "pid": os.getpid(), "rep_endpoint": self.rep_endpoint, "pub_endpoint": self.pub_endpoint,
            "dialects": list(codec.accept), "serializers": sorted(codec.accept_serializers),
            "signed": self.protocol.signed, "suites": codec.suites, "publishes": self.protocol.publishing_key,
            "stream_endpoint": self.stream_endpoint, "stream_name": self._answering.stream.name,
            "pipelined": True, "lane": self._answering.unix.name, "lock": self._answering.presence.describe(),
        }  # fmt: skip

    _repr_html_ = agent_page
    resolve = method("_named", NamedClient.resolve)
    place = method("_named", NamedClient.place)
    find = method("_named", NamedClient.find)
    follow = method("_naming", follow)
    request = method("_named", NamedClient.request)
    exchange = method("_named", NamedClient.exchange)
    reach = method("client", Client.reach)
    send = method("_named", NamedClient.send)
    exchange_later = method("_named", NamedClient.exchange_later)
    send_later = method("client", Client.send_to)
    peer = method("_named", NamedClient.peer)
    meet = method("_named", NamedClient.meet)
    publish = method("_publishing", Publishing.publish)
    loan = method("_publishing", Publishing.loan)
    advertise = method("_publishing", Publishing.advertise)
    withdraw = method("_publishing", Publishing.withdraw)
    on_readers = method("_publishing", Publishing.on_readers)
    wait_for_subscribers = method("_publishing", Publishing.wait_for_subscribers)
    subscribe = method("_listening", Listening.subscribe)
    come_along = method("_listening", Listening.come_along)
    on = method("_listening", Listening.on)
    unsubscribe = method("_listening", Listening.unsubscribe)
    connect_topics = method("_flows", Flows.connect_topics)
    disconnect_topics = method("_flows", Flows.disconnect_topics)
    topic_connections = method("_flows", Flows.topic_connections)
    subscribe_graph = method("_flows", Flows.subscribe_graph)

    @property
    def topology(self) -> Flows:
        """The graph of connected topics."""
        return self._flows

    def _answers(self, agent_id: str, endpoint: str) -> bool:
        return self._named.answers(agent_id, endpoint)

    def _choose(self, entry: Entry, timeout: float) -> str:
        return self._named.choose(entry, timeout)

    def _on_lock_change(self, change: Changed) -> None:
        by = "" if change.by is None or change.by == change.owner else f" by {change.by.label}"
        logger.info("%r: the lock of %s was %s%s", self, change.owner.label, change.kind, by)

    def _on_filters(self) -> None:
        try:
            self.on_subscribers()
        except Exception:  # whoever subscribes is not told: it can do nothing about it
            logger.exception("%r could not act upon a change of its subscribers", self)
        self._control.on_filters()

    def on_subscribers(self) -> None:
        """The set of subscribed topics changed; override it. Runs in the I/O thread."""

    def stop(self) -> None:
        """End everything the agent holds: sockets, threads, subscriptions. Again: no effect.

        Called by the request that runs, or in the I/O thread, it returns at once and another thread
        does the work: those two cannot wait for themselves. `join` waits for the end.
        """
        if forked_since(self._forks):
            return
        if self._answering.in_call() or self.loop.in_thread():
            aside(self.loop, self.stop)
        elif self._stopping.acquire(blocking=False):
            self._end()

    def _end(self) -> None:
        run = self.loop.run
        for step in (
            self._announcing.close,
            self._let_go,
            self._publishing.close_links,
            self._listening.close,
            self.client.close,
            self._naming.close,
            partial(self._answering.finish_calls, self._after_calls),
            partial(run, self._answering.close),
            self._publishing.close,
            self._subscribing.close_socket,
            self._callbacks.close,
            partial(loops.release, self.loop),
        ):
            try:
                step()
            except Exception:
                logger.exception("%r could not let go of everything", self)
        _running.agents.discard(self)
        self._stopped.set()

    def _let_go(self) -> None:
        """Give back what a subclass holds of others; the sockets are still open."""

    def _after_calls(self) -> None:
        """Cancel what a subclass can of the calls that still run, and give back what they used."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the agent was stopped; False after ``timeout`` seconds."""
        check_own(self._forks, self)
        return threads.waited(self._stopped.wait, None if timeout is None else timers.checked_wait(timeout))


class _Running(Table):
    """Agents of this process that were not stopped."""

    def begin(self) -> None:
        super().begin()
        self.agents: set[Agent] = set()

    def forget(self) -> None:
        for agent in self.agents:
            agent.disown()


_running = _Running()


@atexit.register
def _stop_all() -> None:
    for agent in list(_running.agents):
        agent.stop()
