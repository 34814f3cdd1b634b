"""Server: serves one object to proxies, one call at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...delivery.locks import Changed
from ...discovery.names import Style
from ...discovery.records import Entry
from ...protocol.errors import InstantiateRefused, LocalProtocolError, MemberRefused, Refused
from ...protocol.keyring import Role
from ..agent import Agent
from ..calling.proxy import Proxy
from ..messages import as_text, is_raised, ps_message, read_ps_message, shown, text_of
from ..sockets.endpoints import RANDOM_TCP
from ..wire import Protocol
from . import process
from .actions import Actions, calls_of, role_of
from .audit import Audit, CallRecord
from .audit_topic import AuditTopic
from .calls import Call, Caller, current
from .coroutines import Coroutines
from .forwarding import Forwarding
from .generators import Generators
from .lane import Turn
from .members import Members, kind_of
from .replies import Request

logger = logging.getLogger("pzc.server")


class Server(Agent):
    """Serves the public members of an object.

    Members beginning with ``_`` are never served. Calls run one at a time, in arrival order: drivers
    are rarely thread-safe. ``info``, ``ping``, cancelling and the lock are answered meanwhile.

    Args:
        served_object: what proxies see; None until a proxy instantiates one.
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

    Raises:
        BindError, ConfigError: as `Agent`; also for a concurrency, or a path of the audit log, that
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
    ) -> None:
        self.served_object = served_object
        self._expose = expose
        self._classes = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in allow_instantiate}
        self._concurrency, self._affine = concurrency, thread_affine
        self._reads_while_locked = reads_while_locked
        self._audit = None if audit is None else Audit(audit)
        try:
            super().__init__(
                rep_endpoint, pub_endpoint, name=name, protocol=protocol, namespace=namespace,
                partition=partition, discovery=discovery, single_port=single_port, remap=remap, names=names,
            )  # fmt: skip
        except BaseException:
            if self._audit is not None:
                self._audit.close()
            raise

    def _prepare(self) -> None:
        self._coroutines = Coroutines(self.name, self._answering.execution.calls)
        self._generators = Generators(self._answering.lane, self._coroutines, self._answering.holding)
        self._forwarding = Forwarding(self._publisher)
        self._actions = Actions(
            self.loop,
            self._publisher,
            self._answering.results,
            self._generators,
            self._coroutines,
            self._answering.holding,
            self.protocol.codec.serializer,
            self._instantiate,
            self.return_as_remote,
        )
        self._actions.members = self._members_of(self.served_object)
        self._control.words["drop"] = self._on_drop
        self._act = self._actions.answer if self._audit is None else self._act_audited
        if type(self).on_request is Server.on_request:
            self._answering.execution.act = self._act
        if self._audit is not None:
            self._audit_topic = AuditTopic(self._publisher.publish, self.counters)
            self._audit.on_lines = self._audit_topic.tell
            self._audit.event("started", server=self.name, endpoint=self.rep_endpoint, agent=self.agent_id)
            self._answering.execution.on_refused = self._audit_refusal

    def _announce(self) -> None:
        if self.served_object is not None or self._classes:  # else its object is made right now
            super()._announce()

    def _entry(self) -> Entry:
        served = "" if self.served_object is None else type(self.served_object).__name__
        return replace(super()._entry(), kind="service", type=served)

    def role_needed(self, content: Any) -> Role:
        """The role that a signed request needs; override it to narrow or widen that.

        Reading needs observer, setting and calling operator, instantiating admin. It is asked about a batch,
        and about each call in it as if that came by itself; the highest role counts.
        """
        message = read_ps_message(content)
        return Role.OBSERVER if message is None else role_of(*message)

    _usual_role_needed = role_needed

    def _role_needed(self, content: Any) -> Role:
        message = read_ps_message(content)
        needed = self.role_needed(content)
        if message is None or message[0] != "batch":
            return needed
        return max([needed, *(self.role_needed(ps_message(*call)) for call in calls_of(message[1]))])

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        """Answer a Proxy-Server message; any other content as `Agent.on_request`."""
        message = read_ps_message(content)
        if message is None:
            return super().on_request(sender, topic, content, msgid)
        call = current() or Call(msgid, Caller(sender, None, ""))
        return self._act(*message, call)

    def _act_audited(self, action: str, options: Any, call: Call) -> Any:
        started = time.perf_counter()
        answer = self._actions.answer(action, options, call)
        if self._audit is not None:
            seconds = time.perf_counter() - started
            self._audit.record(_record(call, action, options, is_raised(answer), seconds))
        return answer

    def _audit_refusal(self, call: Call, content: Any, error: BaseException) -> None:
        message = read_ps_message(content)
        if self._audit is not None and message is not None:
            self._audit.record(_record(call, *message, error, 0.0))

    def _on_lock_change(self, change: Changed) -> None:
        super()._on_lock_change(change)
        if self._audit is not None:
            by = None if change.by is None else change.by.label
            self._audit.event(f"lock {change.kind}", owner=change.owner.label, by=by)

    def _on_drop(self, request: Request, content: dict[str, Any]) -> None:
        self._generators.drop(content.get("id"), request.caller)
        self._answering.replies.reply(request, {"pzc": "drop"})

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
        self._serve(cls(*options.get("args", ()), **options.get("kwargs", {})))

    def on_subscribers(self) -> None:
        """Connect to the signals that somebody subscribed to, and to no others."""
        self._forwarding.follow(self._actions.members)

    def _members_of(self, served_object: object) -> Members:
        own = type(self).return_as_remote is not Server.return_as_remote
        return Members(served_object, self._expose, self.return_as_remote if own else None)

    def return_as_remote(self, attribute: object) -> bool:
        """True when a proxy gets a RemoteAttribute instead of the value; override it to customise.

        It is asked about everything but methods and signals, which are never sent by value; about what a
        property gives when that is read.
        """
        return kind_of(attribute) != "value"

    def inspect(self) -> tuple[set[str], set[str]]:
        """Names to be held as RemoteAttribute, and names always sent by value, as the original's."""
        return self._actions.inspect()

    def describe(self) -> dict[str, Any]:
        """As `Agent.describe`, with the class of the served object."""
        return {**super().describe(), "serves": type(self.served_object).__name__}

    def statistics(self) -> dict[str, Any]:
        """As `Agent.statistics`, with open streams and the audit log."""
        audit = self._audit
        return {
            **super().statistics(),
            "streams": len(self._generators),
            "audit": None if audit is None else {"written": audit.written, "dropped": audit.dropped},
        }

    def serve_object(
        self, factory: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Make the served object in a worker of the lane; ``thread_affine`` runs its calls there, too.

        Raises:
            Exception: whatever the factory raised.
        """
        made: Future[object] = Future()

        def make() -> None:
            try:
                made.set_result(factory(*args, **kwargs))
            except BaseException as exc:
                made.set_exception(exc)

        self._answering.lane.submit(Turn(make))
        try:
            self._serve(made.result())
        finally:
            made = Future()  # the one before holds the error, whose traceback holds what the factory opened

    def _serve(self, served_object: object) -> None:
        self.served_object = served_object
        self._actions.members = self._members_of(served_object)
        self.loop.run(self._on_filters)
        super()._announce()

    def serve_forever(self) -> None:
        """Wait until the server is stopped, by a proxy or by Ctrl-C, which stops it."""
        try:
            while not self.join(0.5):
                pass
        except KeyboardInterrupt:
            logger.info("%r stops after Ctrl-C", self)
        finally:
            self.stop()

    def _let_go(self) -> None:
        self._forwarding.close()
        self._generators.close()

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

        The process dies with its parent, however that ends.

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
        return Proxy(process.start(served_cls, args, kwargs or {}, rep_endpoint, pub_endpoint, options))


def _record(call: Call, action: str, options: Any, error: BaseException | None, seconds: float) -> CallRecord:
    given: dict[str, Any] = options if isinstance(options, dict) else {}
    member = as_text(given.get("name") or given.get("class") or "")
    method = given.get("method", "__call__")
    values = (given["value"],) if "value" in given else given.get("args", ())
    outcome = "ok" if error is None else _OUTCOMES.get(type(error).__name__, "raised")
    if isinstance(error, Refused | MemberRefused):
        outcome = "refused"
    return CallRecord(
        time.time(), call.id, call.caller.key_name, call.caller.agent, call.caller.address,
        action if method == "__call__" else f"{action} {method}", member,
        tuple(values) if isinstance(values, list | tuple) else (values,),
        dict(given.get("kwargs") or {}), outcome,
        "" if error is None else f"{type(error).__name__}: {text_of(error)}", seconds * 1000,
    )  # fmt: skip


_OUTCOMES = {"CallCancelled": "cancelled"}
