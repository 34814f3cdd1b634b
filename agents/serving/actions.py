"""Actions: what the Proxy-Server messages do with a served object.

::

    action        reply                         role       while somebody else holds the lock
    get getattr   return | remote               observer   if the server says so
    inspect       return                        observer   yes
    describe      return                        observer   yes
    setattr       return                        operator   no
    exec          return | future_register |    operator   no; operations that only read: as get
                  stream
    next          items                         as exec    the stream's reader goes on
    batch         batch                         the highest of its calls, each judged as by itself
    instantiate   return                        admin      no
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from ...protocol import limits
from ...protocol.errors import PzcError, Refused, RemoteProtocolError, SerializeError
from ...protocol.frames import PZC00
from ...protocol.keyring import Role
from ...protocol.shown import printable
from ...protocol.values import PLAIN
from ..messages import PS, as_original, ps_message, raised, read_ps_message, shown, text_of
from ..notifying.publisher import Publisher
from ..sockets.loop import Loop
from .calls import Call
from .coroutines import Coroutines
from .generators import Generators, is_stream
from .holding import Holding
from .members import Members, options_of
from .references import by_value
from .results import Results

logger = logging.getLogger("pzc.actions")

FUTURE_TOPIC = "__future__"
"""Topic on which original proxies are told that a future is done."""

FUTURE_DELAY = 0.05
"""Seconds between the reply that names a future and its completion for an original proxy, which
forgets completions of futures that it has not registered yet."""

_NEEDS = {"setattr": Role.OPERATOR, "exec": Role.OPERATOR, "instantiate": Role.ADMIN, "next": Role.OPERATOR}
_READS = frozenset(
    {"__getitem__", "__len__", "__contains__", "__iter__", "keys", "values", "items", "get", "copy"}
)
"""Operations of 'exec' that change nothing."""


def role_of(action: str, options: Any) -> Role:
    """The role that an action takes; see the table."""
    if action == "exec":
        return Role.OBSERVER if _only_reads(action, options) else Role.OPERATOR
    if action == "batch":
        return max((role_of(*call) for call in calls_of(options)), default=Role.OBSERVER)
    return _NEEDS.get(action, Role.OBSERVER)


def _only_reads(action: str, options: Any) -> bool:
    if action == "exec":
        method = options.get("method") if isinstance(options, dict) else None
        return isinstance(method, str) and method in _READS
    return action in ("get", "getattr")


def calls_of(options: Any) -> list[tuple[str, Any]]:
    """Action and options of each call of a batch.

    Raises:
        RemoteProtocolError: when it is no batch.
    """
    calls = options.get("calls") if isinstance(options, dict) else None
    if not isinstance(calls, list | tuple) or len(calls) > limits.current.batch_calls:
        raise RemoteProtocolError(f"a batch has a list of at most {limits.current.batch_calls} calls")
    found: list[tuple[str, Any]] = []
    for call in calls:
        if not isinstance(call, list | tuple) or len(call) != 2 or not isinstance(call[0], str):
            raise RemoteProtocolError(f"a call of a batch is an action and its options, not {shown(call)}")
        if call[0] == "batch":
            raise RemoteProtocolError("a batch has no batches inside")
        found.append((call[0], call[1]))
    return found


class Actions:
    """Executes the messages of proxies on one served object.

    Args:
        loop: for timers.
        publisher: tells original proxies of their futures.
        results: keeps futures.
        generators: keeps streams.
        coroutines: runs ``async def`` methods.
        holding: judges by the lock.
        serializer: of what original proxies are told.
        instantiate: makes the served object out of a class name and arguments.
        return_as_remote: whether a member is held remotely instead of being sent by value.
    """

    def __init__(
        self,
        loop: Loop,
        publisher: Publisher,
        results: Results,
        generators: Generators,
        coroutines: Coroutines,
        holding: Holding,
        serializer: str,
        instantiate: Callable[[dict[str, Any]], None],
        return_as_remote: Callable[[object], bool],
    ) -> None:
        self._loop = loop
        self._publisher = publisher
        self._results = results
        self._generators = generators
        self._coroutines = coroutines
        self._holding = holding
        self._serializer = serializer
        self._instantiate = instantiate
        self._return_as_remote = return_as_remote
        self.members = Members(None)

    def answer(self, action: str, options: Any, call: Call) -> Any:
        """The reply to one message; an exception of the served object becomes a ``raise`` reply."""
        try:
            return self._act(action, options if type(options) is dict else options_of(options), call)
        except BaseException as exc:  # a driver may call sys.exit or cancel an asyncio task
            self._log(action, options, call, exc)
            return raised(exc)

    def _log(self, action: str, options: Any, call: Call, error: BaseException) -> None:
        name = shown(options.get("name", "")) if isinstance(options, dict) else ""
        ours = isinstance(error, PzcError | AttributeError)
        logger.log(
            logging.INFO if ours else logging.WARNING,
            "%s %s of %s raised %s: %s",
            action, name, printable(call.caller.agent), type(error).__name__, printable(text_of(error)),
            exc_info=None if ours else error,
        )  # fmt: skip

    def _act(self, action: str, options: dict[str, Any], call: Call) -> Any:
        holding = self._holding
        if (holding.lock.owner is not None or "lock" in options) and action not in _UNLOCKED:
            reads = _only_reads(action, options)
            holding.check(call.caller, options.get("lock"), reads, options.get("as"))
        if action == "exec":
            result = self.members.run(
                options.get("name"),
                options.get("method"),
                options.get("args", ()),
                options.get("kwargs", _NO_KWARGS),
            )
            if type(result) in PLAIN:
                return PS, "return", result
            return self._returned(result, call, options.get("name"))
        if action == "get" and not options.get("force_as_object"):
            value = self.members.get(options.get("name"))
            if self._return_as_remote(value):
                return ps_message("remote", None)
            return self._returned(value, call, options.get("name"), read=True)
        if action in ("getattr", "get"):
            name = options.get("name")
            return self._returned(self.members.value(name), call, name, read=True)
        if action == "setattr":
            self.members.set(options.get("name"), options.get("value"))
            return ps_message("return", None)
        return self._act_rarely(action, options, call)

    def _act_rarely(self, action: str, options: dict[str, Any], call: Call) -> Any:
        if action == "next":
            return self._generators.advance(options.get("id"), options.get("credit"), call.caller)
        if action == "batch":
            return self._batch(options, call)
        if action == "inspect":
            return ps_message("return", self.inspect())
        if action == "describe":
            return ps_message("return", self.members.table())
        if action == "instantiate":
            self._instantiate(options)
            return ps_message("return", None)
        raise RemoteProtocolError(f"unknown action {shown(action, 60)}")

    def _batch(self, options: dict[str, Any], call: Call) -> Any:
        results: list[Any] = []
        for action, inner in calls_of(options):
            given = options_of(inner)
            given = {**given, **{key: options[key] for key in ("lock", "as") if key in options}}
            try:
                message = read_ps_message(self._act(action, given, call))
                if message is not None and message[0] == "stream":
                    self._generators.drop(message[1]["id"], call.caller)
                if message is None or message[0] not in ("return", "remote"):
                    raise Refused("a batch cannot hold futures and streams: call that method by itself")
            except BaseException as exc:
                self._log(action, inner, call, exc)
                return ps_message("batch", {"results": results, "raised": raised(exc)[2]})
            results.append(message[1])
        return ps_message("batch", {"results": results, "raised": None})

    def _returned(self, result: Any, call: Call, name: object, *, read: bool = False) -> Any:
        if type(result) in PLAIN:
            return ps_message("return", result)
        if inspect.iscoroutine(result):
            return self._returned(self._coroutines.run(result), call, name)
        original = "://" in call.caller.agent
        if is_stream(result) and not original:
            return self._generators.open(result, call.caller, name)
        if not isinstance(result, Future):
            return ps_message("return", result if original else by_value(result, name, read=read))
        future = cast("Future[Any]", result)
        if original:
            future.add_done_callback(partial(self._tell_original, call.id))
        else:
            self._results.register(call, future, name)
        return ps_message("future_register", call.id)

    def _tell_original(self, msgid: str, future: Future[Any]) -> None:
        content: dict[str, Any] = {"msgid": msgid, "result": None, "exception": None}
        try:
            content["result"] = future.result()
        except BaseException as exc:
            content["exception"] = as_original(exc, self._serializer)
        self._loop.call_later(FUTURE_DELAY, lambda: self._publish_completion(content))

    def _publish_completion(self, content: dict[str, Any]) -> None:
        try:
            self._publisher.publish(FUTURE_TOPIC, content, dialects=(PZC00,))
        except SerializeError as exc:
            logger.warning("the result of %s cannot be sent: %s", content["msgid"], exc)
            error = TypeError(str(exc))
            self._publisher.publish(
                FUTURE_TOPIC, {**content, "result": None, "exception": error}, dialects=(PZC00,)
            )

    def inspect(self) -> tuple[set[str], set[str]]:
        """Names to be held as RemoteAttribute, and names always sent by value, as the original's."""
        kinds = {name: entry["kind"] for name, entry in self.members.table().items()}
        return {
            name for name, kind in kinds.items() if kind in ("method", "signal", "items", "remote")
        }, set()


_UNLOCKED = frozenset({"inspect", "describe", "next", "batch"})
_NO_KWARGS: dict[str, Any] = {}
