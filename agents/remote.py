"""RemoteObject: what a proxy holds of one served object on another agent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from ..delivery.policies import Policy, drop
from ..protocol.errors import AgentClosed, PeerLost, RemoteProtocolError
from ..protocol.frames import PZC00
from . import client
from .dispatch import Executor
from .messages import is_word, ps_message, read_ps_message, read_raised
from .peers import Peer
from .requests import Reply
from .signals import Signal, Slot
from .subscription import Notification, Subscription
from .wire import Protocol

logger = logging.getLogger("pzc.proxy")

SLOT_POLICY = drop(10_000)
"""Default policy of a connected slot."""

FUTURE_TOPIC = "__future__"
"""Topic on which an original server tells that a future is done."""

REMOTE = object()
"""Answer of a server to 'get' for a member that is not sent by value."""

_ASK_TIMEOUT = 30.0
_EARLY = 1000


class RemoteObject:
    """Calls, futures and signals of one served object; safe from any thread.

    Args:
        target: endpoint or name of the server.
        timeout: default of a call in seconds; None takes ``PZC_TIMEOUT``.
        protocol: default `Protocol`.

    Raises:
        CallTimeout, PeerLost, SignatureError, UnknownName: as `Agent.request`.
    """

    def __init__(self, target: str, timeout: float | None, protocol: Protocol | None) -> None:
        self.agent = client.lease(protocol)
        self.protocol = protocol
        self.target = target
        self._executor = Executor("pzc-slots")
        self._lock = threading.Lock()
        self._signals: dict[tuple[str, Policy], tuple[Signal, Subscription]] = {}
        self._futures: dict[str, Future[Any]] = {}
        self._early: dict[str, dict[str, Any]] = {}
        self._completions: Subscription | None = None
        self._closed = False
        try:
            settings = self.agent.settings
            self.timeout: float = settings["PZC_TIMEOUT"] if timeout is None else timeout
            self.hide_traceback: bool = settings["PZC_HIDE_TRACEBACK"]
            self.endpoint = self.agent.resolve(target)
            self._load()
        except BaseException:
            self._executor.close()
            client.release(self.agent)
            raise

    def _load(self) -> None:
        peer = self.agent.peer(self.endpoint, self.timeout)
        if peer.dialect == PZC00:
            remotes, _ = self.request("inspect", {})
            self.table: dict[str, dict[str, Any]] = {name: {"kind": "remote"} for name in remotes}
            if self._completions is None:
                self._completions = self.agent.subscribe(self.endpoint, FUTURE_TOPIC, self._on_completion)
                self._completions.on_lost = self._lose_futures
        else:
            self.table = self.request("describe", {})
        self._table_of = peer.agent_id

    def member(self, name: str) -> dict[str, Any]:
        """What the server said about a member; empty for one that it did not name."""
        peer = self.agent.peer(self.endpoint, self.timeout)
        if peer.agent_id != self._table_of:
            self._load()
        return self.table.get(name, {})

    def instantiate(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make the server's object and learn its members."""
        self.request("instantiate", {"class": name, "args": args, "kwargs": kwargs})
        self._load()

    def request(self, action: str, options: dict[str, Any], timeout: float | None = None) -> Any:
        """One call; the result, a Future, or `REMOTE` when the member is to be held remotely.

        Raises:
            Exception: what the remote member raised.
            CallTimeout, PeerLost, SignatureError, SerializeError: as `Agent.request`.
        """
        self._check_open()
        timeout = self.timeout if timeout is None else timeout
        return self._read(self.agent.exchange(self.endpoint, ps_message(action, options), timeout))

    def request_later(
        self, action: str, options: dict[str, Any], timeout: float | None = None
    ) -> Future[Any]:
        """As `request`, without waiting."""
        self._check_open()
        timeout = self.timeout if timeout is None else timeout
        peer = self.agent.peer(self.endpoint, timeout)
        reply = self.agent.exchange_later(peer, ps_message(action, options), timeout)
        return _then(reply, partial(self._read, peer=peer))

    def _check_open(self) -> None:
        if self._closed:
            raise AgentClosed(f"the proxy of {self.target} was closed")

    def _read(self, reply: Reply, peer: Peer | None = None) -> Any:
        message = read_ps_message(reply.content)
        if is_word(reply.content, ""):
            raise RemoteProtocolError(f"{self.endpoint} could not read the request (empty reply)")
        if message is None:
            raise RemoteProtocolError(f"{self.endpoint} serves no object: it answered {reply.content!r:.200}")
        action, options = message
        if action == "return":
            return options
        if action == "remote":
            return REMOTE
        if action == "raise":
            raise read_raised(options, self.endpoint, reply.serializer, reply.trusted, self.hide_traceback)
        if action == "future_register":
            return self._future(str(options), peer or self.agent.peer(self.endpoint, self.timeout))
        raise RemoteProtocolError(f"{self.endpoint} serves no object: it answered with action {action!r:.60}")

    def _future(self, call_id: str, peer: Peer) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        if peer.dialect != PZC00:
            self._ask(peer, call_id, future)
            return future
        with self._lock:
            early = self._early.pop(call_id, None)
            if early is None:
                self._futures[call_id] = future
        if early is not None:
            _complete(future, early)
        return future

    def _ask(self, peer: Peer, call_id: str, future: Future[Any]) -> None:
        asked = self.agent.exchange_later(peer, {"pzc": "future", "id": call_id}, _ASK_TIMEOUT)
        asked.add_done_callback(partial(self._on_answer, peer, call_id, future))

    def _on_answer(self, peer: Peer, call_id: str, future: Future[Any], asked: Future[Reply]) -> None:
        try:
            reply = asked.result()
            message = read_ps_message(reply.content)
            if message is not None and message[0] == "pending":
                self._ask(peer, call_id, future)
                return
            future.set_result(self._read(reply))
        except Exception as exc:
            future.set_exception(exc)

    def _on_completion(self, notification: Notification) -> None:
        content = cast("dict[str, Any]", notification.content)
        with self._lock:
            future = self._futures.pop(content["msgid"], None)
            if future is None:
                self._early[content["msgid"]] = content
                if len(self._early) > _EARLY:
                    self._early.pop(next(iter(self._early)))
                return
        _complete(future, content)

    def _lose_futures(self, reason: str) -> None:
        with self._lock:
            lost, self._futures = self._futures, {}
        for future in lost.values():
            future.set_exception(PeerLost(f"the result will not come: {reason}"))

    def connect(self, name: str, slot: Slot, policy: Policy | None) -> None:
        """Call ``slot`` at every emission of a remote signal; returns once the server confirmed.

        Raises:
            TypeError: when the slot cannot be called.
            CallTimeout, PeerLost: as `Agent.subscribe`.
        """
        self._check_open()
        if not callable(slot):
            raise TypeError(f"a slot must be callable, not {type(slot).__name__}")
        key = (name, policy or SLOT_POLICY)
        with self._lock:
            entry = self._signals.get(key)
            if entry is None:
                signal = Signal()
                emit = partial(_emit, signal)
                subscription = self.agent.subscribe(
                    self.endpoint, name, emit, policy=key[1], timeout=self.timeout, executor=self._executor
                )
                entry = self._signals[key] = (signal, subscription)
            entry[0].connect(slot)

    def disconnect(self, name: str, slot: Slot | None) -> None:
        """Stop calling ``slot``, or all slots of this proxy.

        Raises:
            ValueError: when the slot was not connected through this proxy.
        """
        with self._lock:
            mine = [(key, entry) for key, entry in self._signals.items() if key[0] == name]
            holders = [entry[0] for _, entry in mine if slot is None or slot in entry[0].slots]
            if slot is not None and not holders:
                raise ValueError(f"{slot!r} is not connected to {name} through this proxy")
            for signal in holders:
                signal.disconnect(slot)
            empty = [key for key, entry in mine if not entry[0].slots]
            subscriptions = [self._signals.pop(key)[1] for key in empty]
        for subscription in subscriptions:
            subscription.close()

    def stop_server(self) -> None:
        """Ask the server to stop; errors as `Agent.request`."""
        self.agent.request(self.endpoint, "stop", self.timeout)

    def close(self) -> None:
        """Let go of everything held for this proxy. Again: no effect."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            subscriptions = [subscription for _, subscription in self._signals.values()]
            self._signals.clear()
        if self._completions is not None:
            subscriptions.append(self._completions)
        for subscription in subscriptions:
            subscription.close()
        self._lose_futures(f"the proxy of {self.target} was closed")
        self._executor.close()
        client.release(self.agent)


def _emit(signal: Signal, notification: Notification) -> None:
    signal.emit(*notification.content)


def _complete(future: Future[Any], content: dict[str, Any]) -> None:
    error = content.get("exception")
    if isinstance(error, BaseException):
        future.set_exception(error)
    else:
        future.set_result(content.get("result"))


def _then(source: Future[Any], read: Callable[[Any], Any]) -> Future[Any]:
    """A future of ``read(result)``, unpacked once more when that is itself a future."""
    target: Future[Any] = Future()
    target.set_running_or_notify_cancel()

    def settle(done: Future[Any]) -> None:
        try:
            result = read(done.result())
        except Exception as exc:
            target.set_exception(exc)
            return
        if isinstance(result, Future):
            cast("Future[Any]", result).add_done_callback(pass_on)
        else:
            target.set_result(result)

    def pass_on(done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            target.set_exception(error)
        else:
            target.set_result(done.result())

    source.add_done_callback(settle)
    return target
