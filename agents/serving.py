"""Server: serves one object to proxies, one call at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..delivery.locks import Changed
from ..discovery.names import Style
from ..discovery.records import Entry
from ..protocol.contents import read_ps_message, shown
from ..protocol.errors import ConfigError, InstantiateRefused, LocalProtocolError, Refused
from ..protocol.keyring import Role
from ..protocol.paths import text
from ..transport.endpoints import RANDOM_TCP
from ..transport.threads import Future
from ..transport.wire import Protocol
from .agent import Agent
from .current import current
from .proxy import Proxy
from .server import process
from .server.answers import Answers
from .server.audit import Audit
from .server.audit_file import CALLS, AuditTopic
from .server.call import Call
from .server.coroutines import Coroutines
from .server.declared import apply, check_factory, classes, declared
from .server.exposed import ExposedObject
from .server.members import kind_of
from .server.polled import Poller
from .server.topics import Forwarding
from .server.tree import Tree

logger = logging.getLogger("pzc.server")


class Server(Agent):
    """Serves the public members of an object.

    Members beginning with ``_`` are never served. Calls run one at a time, in arrival order, those of
    several keys in turn: drivers are rarely thread-safe. ``info``, ``ping``, cancelling and the lock
    are answered meanwhile.

    Args:
        served_object: what proxies see; None until a proxy instantiates one. A dict of objects serves each
            under its name, by which it is found as well: `Proxy("psu")`.
        rep_endpoint: as `Agent`.
        pub_endpoint: as `Agent`.
        name: as `Agent`.
        protocol: as `Agent`.
        concurrency: calls that may run at the same time, for an object that is thread-safe.
        thread_affine: run every call in one and the same thread, for drivers that insist on it.
        expose: the only members that are served; None serves every public one.
        allow_instantiate: classes that a proxy with role admin may instantiate, when
            ``served_object`` is None.
        reads_while_locked: others may read while somebody holds the lock.
        audit: file that gets one JSON line per call; see `Audit`. The topic ``pzc/calls`` gets them, too.
        namespace: as `Agent`.
        partition: as `Agent`.
        discovery: as `Agent`.
        single_port: as `Agent`.
        remap: as `Agent`.
        names: as `Agent`.
        metadata: as `Agent`.
        stream: as `Agent`.
        urgent: methods that run beside whatever runs, as `pzc.urgent` marks them: names, or paths such as
            ``ch1.off``; ``channels.off`` is that of every channel.
        reading: methods that keys of role observer may call, as `pzc.reading` marks them.
        concurrent: members that may run beside a running call, as `pzc.concurrent` marks them.
        on_cancel: method that is called when a call of another one was cancelled, as `pzc.on_cancel` says.
        poll: seconds between two reads of members, which are published as topics of their paths, when they
            have changed and at least every ten periods; kept for ``subscribe(initial=True)``.
        lanes: of several objects: ``one`` for all, or one for ``each``.

    Raises:
        BindError, ConfigError: as `Agent`; also for a concurrency, a path of the audit log, or a member, that
            cannot be used.
    """

    def __init__(
        self,
        served_object: object,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = "",
        *,
        name: str | None = None,
        protocol: Protocol | None = None,
        concurrency: int = 1,
        thread_affine: bool = False,
        expose: Collection[str] | None = None,
        allow_instantiate: Iterable[type] = (),
        reads_while_locked: bool = False,
        audit: str | Path | None = None,
        namespace: str = "",
        partition: str | None = None,
        discovery: bool = True,
        single_port: bool | None = None,
        remap: Mapping[str, str] | Iterable[str] = (),
        names: Style = "pzc",
        metadata: Mapping[str, str] = MappingProxyType({}),
        urgent: Iterable[str] = (),
        reading: Iterable[str] = (),
        concurrent: Iterable[str] = (),
        on_cancel: Mapping[str, str] = MappingProxyType({}),
        poll: Mapping[str, float] = MappingProxyType({}),
        lanes: str = "one",
        stream: str = "",
    ) -> None:
        self.served_object = served_object
        self._declared = declared(urgent, reading, concurrent, on_cancel, poll, expose)
        if thread_affine and self._declared.concurrent:
            raise ConfigError("concurrent members run in other threads, which thread_affine excludes")
        self._tree = Tree(served_object, expose, lanes)
        self._lanes = self._tree.lanes
        if served_object is not None:
            apply(self._declared, self._tree)
        self._poller: Poller | None = None
        self._classes = classes(allow_instantiate)
        self._concurrency, self._affine = concurrency, thread_affine
        self._reads_while_locked = reads_while_locked
        self._audit = None if audit is None else Audit(audit)
        try:
            super().__init__(
                rep_endpoint, pub_endpoint, name=name, protocol=protocol, namespace=namespace,
                partition=partition, discovery=discovery, single_port=single_port, remap=remap, names=names,
                metadata=metadata, stream=stream,
            )  # fmt: skip
        except BaseException:
            if self._audit is not None:
                self._audit.close()
            raise

    def _prepare(self) -> None:
        answering = self._answering
        publisher = self._publishing.publisher
        self._coroutines = Coroutines(self.name)
        self._forwarding = Forwarding(publisher)
        own = type(self).return_as_remote is not Server.return_as_remote
        self._results = Answers(
            self._tree,
            self._coroutines,
            answering.presence,
            answering.lanes,
            answering.cache,
            answering.replies.pizco,
        )
        self._exposed = ExposedObject(
            self._tree,
            self.agent_id,
            self._coroutines,
            self._results,
            self._instantiate,
            self.return_as_remote if own else None,
        )
        self._control.words["release"] = self._on_release
        self._control.words["drop"] = self._on_drop
        answering.dispatcher.serve(self._exposed, type(self).on_request is not Server.on_request)
        if self._audit is not None:
            self._audit_topic = AuditTopic(publisher.publish, publisher.is_wanted, self.counters)
            self._audit.on_lines = self._audit_topic.send
            self._publishing.advertise(CALLS, secret=True)
            self._audit.event("started", server=self.name, endpoint=self.rep_endpoint, agent=self.agent_id)
            answering.dispatcher.audit = self._audit.note

    def _announce(self) -> None:
        if self.served_object is not None:
            self._poll()
        if self.served_object is not None or self._classes:  # else its object is made right now
            self._announcing.begin(self._entry(), self._objects())

    def _entry(self) -> Entry:
        single = self.served_object is not None and not self._tree.objects
        served = type(self.served_object).__name__ if single else ""
        return replace(super()._entry(), kind="service", type=served)

    def _objects(self) -> dict[str, str]:
        return {name: type(each).__name__ for name, each in self._tree.objects.items()}

    def role_needed(self, content: Any) -> Role:
        """The role that a signed request needs; override it to narrow or widen that.

        Reading needs observer, setting and calling operator, instantiating admin. It is asked about a batch,
        and about each call in it when its turn has come, as if that came by itself.
        """
        message = read_ps_message(content)
        return Role.OBSERVER if message is None else self._exposed.role(*message)

    _usual_role_needed = role_needed

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        """Answer a Proxy-Server message; any other content as `Agent.on_request`."""
        message = read_ps_message(content)
        if message is None:
            return super().on_request(sender, topic, content, msgid)
        call = current()
        if not isinstance(call, Call):
            raise Refused("a message of a proxy is answered within its call only")
        return self._answering.dispatcher.answer(call, *message)

    def _on_lock_change(self, change: Changed) -> None:
        super()._on_lock_change(change)
        if self._audit is not None:
            by = None if change.by is None else change.by.label
            self._audit.event(f"lock {change.kind}", owner=change.owner.label, by=by)

    def _on_drop(self, request: Call, content: dict[str, Any]) -> None:
        self._results.streams.drop(content.get("id"), request.caller)
        self._answering.replies.reply(request, {"pzc": "drop"})

    def _on_release(self, request: Call, content: dict[str, Any]) -> None:
        self._results.handles.release(content.get("handles"), request.caller.identity)
        self._answering.replies.reply(request, {"pzc": "release"})

    def _instantiate(self, options: dict[str, Any]) -> None:
        wanted = options.get("class")
        cls = self._classes.get(wanted) if isinstance(wanted, str) else None
        if cls is None:
            allowed = ", ".join(self._classes) or "none"
            raise InstantiateRefused(
                f"class {shown(wanted)} may not be instantiated here; allowed: {allowed}"
            )
        if self.served_object is not None:
            raise InstantiateRefused("this server already serves an object")
        self._take(cls(*options.get("args", ()), **options.get("kwargs", {})))
        self._begin()

    def on_subscribers(self) -> None:
        """Connect to the signals that somebody subscribed to, and to no others."""
        self._forwarding.follow(self._tree)

    def return_as_remote(self, attribute: object) -> bool:
        """True when a proxy gets a `Member` instead of the value; override it to customise.

        It is asked about everything but methods and signals, which are never sent by value; about what a
        property gives when that is read.
        """
        return kind_of(attribute) != "value"

    def describe(self) -> dict[str, Any]:
        """As `Agent.describe`, with the class of the served object, or of each."""
        objects = self._objects()
        told = {**super().describe(), "serves": type(self.served_object).__name__}
        return {**told, "serves": "", "objects": objects} if objects else told

    def statistics(self) -> dict[str, Any]:
        """As `Agent.statistics`, with open streams and the audit log."""
        audit = self._audit
        return {
            **super().statistics(),
            "streams": len(self._results.streams),
            "handles": len(self._results.handles),
            "audit": None if audit is None else {"written": audit.written, "dropped": audit.dropped},
        }

    def serve_object(
        self, factory: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Make the served object in a worker of the lane; ``thread_affine`` runs its calls there, too.

        Raises:
            Exception: whatever the factory raised.
        """
        made: Future[None] = Future()

        def make() -> None:
            try:
                made.set_result(self._take(factory(*args, **kwargs)))
            except BaseException as exc:
                made.set_exception(exc)

        self._answering.lanes[0].run(make)
        try:
            made.result()
        finally:
            made = Future()  # the one before holds the error, whose traceback holds what the factory opened
        self._begin()

    def _take(self, served_object: object) -> None:
        """Serve what was made, in its lane: members that are polled are read."""
        self._tree.serve(served_object)
        apply(self._declared, self._tree)
        self.served_object = served_object

    def _begin(self) -> None:
        self._poll()
        self.loop.run(self._on_filters)
        self._announcing.begin(self._entry(), self._objects())

    def serve_forever(self) -> None:
        """Wait until the server is stopped, by a proxy or by Ctrl-C, which stops it."""
        try:
            while not self.join(0.5):
                pass
        except KeyboardInterrupt:
            logger.info("%r stops after Ctrl-C", self)
        finally:
            self.stop()

    def _poll(self) -> None:
        periods = self._tree.periods
        for path in periods:
            self.advertise(text(path), keep_last=True)
        if periods:
            publisher = self._publishing.publisher
            self._poller = Poller(self.name, self._tree, self._answering.dispatcher.lane, publisher, periods)

    def _let_go(self) -> None:
        if self._poller is not None:
            self._poller.close()
        self._forwarding.close()
        self._results.streams.close()
        self._results.handles.close()

    def _after_calls(self) -> None:
        self._coroutines.close()
        if self._audit is not None:
            self._audit.event("stopped", server=self.name, agent=self.agent_id)
            self._audit.close()
            self._audit_topic.close()

    @classmethod
    def serve_in_thread(
        cls,
        served_cls: Callable[..., object],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = "",
        **options: Any,
    ) -> Proxy:
        """Make an object in a thread of its own, serve it, return a proxy.

        With ``thread_affine=True`` that thread runs all its calls, too.

        The server lives until `Proxy._proxy_stop_server` or the end of the process.

        Args:
            served_cls: class or factory.
            args: its positional arguments.
            kwargs: its keyword arguments.
            rep_endpoint: as `Agent`.
            pub_endpoint: as `Agent`.
            options: further arguments of the server, such as ``name`` or ``protocol``.

        Raises:
            Exception: whatever the factory raised.
            BindError, ConfigError: as `Agent`.
        """
        check_factory(served_cls, "serve_in_thread")
        server = cls(None, rep_endpoint, pub_endpoint, **options)
        try:
            server.serve_object(served_cls, args, kwargs or {})
            return Proxy(server.rep_endpoint, protocol=options.get("protocol"))
        except BaseException:
            server.stop()
            raise

    @classmethod
    def serve_in_process(
        cls,
        served_cls: type,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = "",
        **options: Any,
    ) -> Proxy:
        """Make and serve an object in a process of its own, return a proxy.

        The process dies with its parent, however that ends. Ctrl-C in the terminal, and the interrupt of
        a notebook, do not reach it.

        Args:
            served_cls: importable class or factory.
            args: its positional arguments.
            kwargs: its keyword arguments.
            rep_endpoint: as `Agent`.
            pub_endpoint: as `Agent`.
            options: further picklable arguments of the server, such as ``name``.

        Raises:
            Exception: whatever the factory raised.
            BindError, ConfigError: as `Agent`.
            PeerLost: when the process ended before it served.
        """
        if "protocol" in options:
            raise LocalProtocolError(
                "serve_in_process takes its protocol from the PZC_ variables, not an argument"
            )
        check_factory(served_cls, "serve_in_process")
        make = partial(cls, None, rep_endpoint, pub_endpoint, **options)
        return Proxy(process.start(make, served_cls, args, kwargs or {}))
