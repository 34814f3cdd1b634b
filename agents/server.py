"""Server: serves one object to proxies, one call at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from ..protocol.errors import InstantiateRefused, LocalProtocolError, RemoteProtocolError, SerializeError
from ..protocol.frames import PZC00
from ..protocol.keyring import Role
from . import process
from .agent import Agent
from .endpoints import RANDOM_TCP
from .members import Members, kind_of, options_of
from .messages import as_original, ps_message, raised, read_ps_message
from .proxy import Proxy
from .responder import Request
from .results import Results
from .wire import Protocol

logger = logging.getLogger("pzc.server")

FUTURE_TOPIC = "__future__"
"""Topic on which original proxies are told that a future is done."""

FUTURE_DELAY = 0.05
"""Seconds between the reply that names a future and its completion for an original proxy, which
forgets completions of futures that it has not registered yet."""

_NEEDS = {"setattr": Role.OPERATOR, "exec": Role.OPERATOR, "instantiate": Role.ADMIN}
_READS = frozenset(
    {"__getitem__", "__len__", "__contains__", "__iter__", "keys", "values", "items", "get", "copy"}
)
"""Operations of 'exec' that change nothing."""


class Server(Agent):
    """Serves the public members of an object.

    Members beginning with ``_`` are never served. Calls run one at a time, in arrival order, in
    one thread: drivers are rarely thread-safe. ``info`` and ``ping`` are answered meanwhile.

    Args:
        served_object: what proxies see; None until a proxy instantiates one.
        rep_endpoint: as `Agent`.
        pub_endpoint: as `Agent`.
        name: as `Agent`.
        protocol: as `Agent`.
        expose: the only members that are served; None serves every public one.
        allow_instantiate: classes that a proxy with role admin may instantiate, when
            ``served_object`` is None.

    Raises:
        BindError, ConfigError: as `Agent`.
    """

    def __init__(
        self,
        served_object: object,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = RANDOM_TCP,
        *,
        name: str | None = None,
        protocol: Protocol | None = None,
        expose: Collection[str] | None = None,
        allow_instantiate: Iterable[type] = (),
    ) -> None:
        self.served_object = served_object
        self._expose = expose
        self._members = Members(served_object, expose)
        self._classes = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in allow_instantiate}
        self._forwarders: dict[str, tuple[Any, Callable[..., None]]] = {}
        self._signals_open = True
        self._signals_lock = threading.Lock()
        super().__init__(rep_endpoint, pub_endpoint, name=name, protocol=protocol)

    def _prepare(self) -> None:
        self._results = Results(self.loop)
        self._control.words["future"] = self._ask_result

    def role_needed(self, content: Any) -> Role:
        """Reading needs observer, setting and calling operator, instantiating admin."""
        message = read_ps_message(content)
        if message is None:
            return Role.OBSERVER
        action, options = message
        method = options.get("method") if isinstance(options, dict) else None
        if action == "exec" and isinstance(method, str) and method in _READS:
            return Role.OBSERVER
        return _NEEDS.get(action, Role.OBSERVER)

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        """Answer a Proxy-Server message; any other content as `Agent.on_request`."""
        message = read_ps_message(content)
        if message is None:
            return super().on_request(sender, topic, content, msgid)
        action, options = message
        try:
            return self._act(action, options_of(options), sender, msgid)
        except BaseException as exc:  # a driver may call sys.exit or cancel an asyncio task
            logger.info(
                "%s %r of %s raised %s: %s", action, _name_in(options), sender, type(exc).__name__, exc
            )
            return raised(exc)

    def _act(self, action: str, options: dict[str, Any], sender: str, msgid: str) -> Any:
        if action == "exec":
            result = self._members.run(
                options.get("name"),
                options.get("method"),
                tuple(options.get("args", ())),
                dict(options.get("kwargs", {})),
            )
            return self._returned(result, sender, msgid)
        if action == "getattr":
            return self._returned(self._members.value(options.get("name")), sender, msgid)
        if action == "setattr":
            self._members.set(options.get("name"), options.get("value"))
            return ps_message("return", None)
        if action == "get":
            if options.get("force_as_object"):
                return self._returned(self._members.value(options.get("name")), sender, msgid)
            value = self._members.get(options.get("name"))
            return (
                ps_message("remote", None)
                if self.return_as_remote(value)
                else self._returned(value, sender, msgid)
            )
        if action == "inspect":
            return ps_message("return", self.inspect())
        if action == "describe":
            return ps_message("return", self._members.table())
        if action == "instantiate":
            return self._instantiate(options)
        raise RemoteProtocolError(f"unknown action {action!r:.60}")

    def _returned(self, result: Any, sender: str, msgid: str) -> Any:
        if not isinstance(result, Future):
            return ps_message("return", result)
        if not sender.startswith(("tcp://", "ipc://", "inproc://")):
            self._results.register(msgid, sender, result)
        else:
            result.add_done_callback(partial(self._tell_original, msgid))
        return ps_message("future_register", msgid)

    def _tell_original(self, msgid: str, future: Future[Any]) -> None:
        content: dict[str, Any] = {"msgid": msgid, "result": None, "exception": None}
        try:
            content["result"] = future.result()
        except BaseException as exc:
            content["exception"] = as_original(exc, self.protocol.codec.serializer)
        self.loop.call_later(FUTURE_DELAY, lambda: self._publish_completion(content))

    def _publish_completion(self, content: dict[str, Any]) -> None:
        try:
            self._publisher.publish(FUTURE_TOPIC, content, dialects=(PZC00,))
        except SerializeError as exc:
            logger.warning("the result of %s cannot be sent: %s", content["msgid"], exc)
            error = TypeError(str(exc))
            self._publisher.publish(
                FUTURE_TOPIC, {**content, "result": None, "exception": error}, dialects=(PZC00,)
            )

    def _instantiate(self, options: dict[str, Any]) -> Any:
        wanted = options.get("class")
        cls = self._classes.get(wanted) if isinstance(wanted, str) else None
        if cls is None:
            allowed = ", ".join(self._classes) or "none"
            raise InstantiateRefused(
                f"class {wanted!r:.100} may not be instantiated here; allowed: {allowed}"
            )
        if self.served_object is not None:
            raise InstantiateRefused("this server already serves an object")
        self._serve(cls(*options.get("args", ()), **options.get("kwargs", {})))
        return ps_message("return", None)

    def _ask_result(self, request: Request, content: dict[str, Any]) -> None:
        reply = partial(self._responder.reply, request)
        self._results.ask(str(content.get("id")), request.envelope.sender, reply)

    def on_subscribers(self) -> None:
        """Connect to the signals that somebody subscribed to, and to no others."""
        with self._signals_lock:
            signals = self._members.signals() if self._signals_open else {}
            for name, signal in signals.items():
                wanted = bool(self._publisher.dialects_of(name))
                if wanted and name not in self._forwarders:
                    forwarder = partial(self._forward, name)
                    self._forwarders[name] = (signal, forwarder)
                    self._try(name, signal.connect, forwarder)
                elif not wanted:
                    self._disconnect(name)

    def _disconnect(self, name: str) -> None:
        signal, forwarder = self._forwarders.pop(name, (None, None))
        if signal is not None:
            self._try(name, signal.disconnect, forwarder)

    def _try(self, name: str, function: Callable[[Any], object], forwarder: Any) -> None:
        try:
            function(forwarder)
        except Exception as exc:  # one signal that fails must not cost the others
            logger.warning("signal %s of %r: %s: %s", name, self, type(exc).__name__, exc)

    def _forward(self, topic: str, value: Any = None, old_value: Any = None, other: Any = None) -> None:
        self._publisher.publish(topic, (value, old_value, other))

    def return_as_remote(self, attribute: object) -> bool:
        """True when a proxy gets a RemoteAttribute instead of the value; override it to customise."""
        return kind_of(attribute) != "value"

    def inspect(self) -> tuple[set[str], set[str]]:
        """Names to be held as RemoteAttribute, and names always sent by value, as the original's."""
        kinds = {name: entry["kind"] for name, entry in self._members.table().items()}
        return {name for name, kind in kinds.items() if kind in ("method", "signal", "items")}, set()

    def describe(self) -> dict[str, Any]:
        """As `Agent.describe`, with the class of the served object."""
        return {**super().describe(), "serves": type(self.served_object).__name__}

    def serve_object(
        self, factory: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Make the served object in the thread that will run its calls.

        Raises:
            Exception: whatever the factory raised.
        """
        made: Future[object] = Future()

        def make() -> None:
            try:
                made.set_result(factory(*args, **kwargs))
            except BaseException as exc:
                made.set_exception(exc)

        self._lane.run(make)
        self._serve(made.result())

    def _serve(self, served_object: object) -> None:
        self.served_object = served_object
        self._members = Members(served_object, self._expose)
        self.loop.call(self.on_subscribers)

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
        with self._signals_lock:
            self._signals_open = False
            for name in list(self._forwarders):
                self._disconnect(name)

    @classmethod
    def serve_in_thread(
        cls,
        served_cls: Callable[..., object],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        rep_endpoint: str = RANDOM_TCP,
        pub_endpoint: str = RANDOM_TCP,
        **options: Any,
    ) -> Proxy:
        """Make an object in the thread that will run its calls, serve it, return a proxy.

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
        pub_endpoint: str = RANDOM_TCP,
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


def _name_in(options: object) -> str:
    return str(options.get("name", "")) if isinstance(options, dict) else ""
