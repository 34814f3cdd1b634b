"""The awaitable face of a proxy, over the same futures; its public name is `pzc.aio`.

A `Proxy` here holds one of `.proxy` and awaits the futures of its `RemoteObject`. No event loop is made,
kept or run, and none is blocked: what has to wait (a handshake, a lock, the confirmation of a
subscription, closing) does so in a thread of its own, bounded by the timeout of the proxy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from functools import partial
from types import TracebackType
from typing import Any

from ...delivery.policies import Policy
from ...protocol.errors import MemberRefused
from ..calling import batches, locking
from ..calling.contact import checked_timeout
from ..calling.futures import CallFuture
from ..calling.originals import instead
from ..calling.remote import REMOTE, RemoteObject
from ..calling.slots import SLOT_POLICY
from ..calling.streams import RemoteStream
from ..notifying.signals import Slot
from ..notifying.subscription import Notification, Subscription
from ..stubs.signatures import signature_of
from ..wire import Protocol
from .aio_iteration import Call, Items, Notifications
from .aio_link import Link
from .aio_slots import end_own, in_loop
from .awaiting import in_thread, outcome


class Proxy:
    """Access to the object that a `Server` serves, for event loops: the names of `pzc.Proxy`, awaited.

    ``await proxy.attr``, ``await proxy.attr.set(v)``, ``await proxy.attr[k]``,
    ``await proxy.method(...)``, ``async for item in proxy.generator(...)``,
    ``async for notification in proxy.signal``. Any number of tasks, event loops and threads may use it.
    Making it does nothing yet: the first await connects it, as do ``await proxy`` and ``async with``;
    from then on ``dir(proxy)`` names the members. After a failed connection, the next await tries again.

    Args:
        target: endpoint or name of the server.
        timeout: of every call in seconds; default ``PZC_TIMEOUT``, else 30.
        transport: of what runs in a thread, as `pzc.Proxy`; awaited calls share one ZeroMQ socket.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    Raises:
        CallTimeout, PeerLost, SignatureError, UnknownName: from every await, as `pzc.Proxy`.
        AgentClosed: from every await after `close`.
    """

    _proxy_link: Link

    def __init__(
        self,
        target: str,
        *,
        timeout: float | None = None,
        transport: str | None = None,
        protocol: Protocol | None = None,
    ) -> None:
        options = {"timeout": timeout, "transport": transport, "protocol": protocol}
        self.__dict__["_proxy_link"] = Link(target, options)

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        return Attribute(self._proxy_link, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise MemberRefused(f"{name!r} cannot be assigned here: await proxy.{name}.set(value)")

    def __dir__(self) -> list[str]:
        return sorted(self._proxy_link.table)

    def __repr__(self) -> str:
        return f"<awaitable Proxy of {self._proxy_link.target}>"

    def __reduce__(self) -> tuple[type[Proxy], tuple[str]]:
        return type(self), (self._proxy_link.target,)

    async def _proxy_connected(self) -> Proxy:
        await self._proxy_link.connect()
        return self

    def __await__(self) -> Generator[Any, Any, Proxy]:
        """The proxy itself, once it is connected."""
        return self._proxy_connected().__await__()

    async def __aenter__(self) -> Proxy:
        return await self._proxy_connected()

    async def __aexit__(self, *exc: object) -> None:
        await close(self)

    async def _proxy_stop_server(self) -> None:
        """Ask the server to stop; it answers first and stops 0.1 s later."""
        remote = await self._proxy_link.connect()
        await in_thread(remote.stop_server)

    async def _proxy_stop_me(self) -> None:
        await close(self)


async def close(proxy: Proxy) -> None:
    """Close a proxy: its subscriptions, streams, threads and, with the last one, its sockets.

    Waits, as `pzc.close`, for a slot that is running, unless it is called there.
    """
    link = proxy._proxy_link  # pyright: ignore[reportPrivateUsage]
    end_own(link.remote)
    await in_thread(link.close)


class lock:  # noqa: N801 - it is used as the function of the same name
    """``async with lock(proxy, ttl=30): ...``; arguments and errors as `pzc.lock`.

    All tasks that use the proxy share its lock. A task that is cancelled while it waits for the lock
    does not keep it.
    """

    def __init__(self, proxy: Proxy, ttl: float = 30.0, **options: Any) -> None:
        self._link = proxy._proxy_link  # pyright: ignore[reportPrivateUsage]
        self._options = {"ttl": ttl, **options}
        self._held: locking.Lock | None = None

    async def __aenter__(self) -> locking.Lock:
        await self._link.connect()
        assert self._link.proxy is not None
        take = partial(locking.lock, self._link.proxy, **self._options)
        self._held = await in_thread(take, locking.Lock.release)
        return self._held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        if held is not None:
            await in_thread(partial(held.__exit__, kind, error, trace))


class batch:  # noqa: N801 - it is used as the function of the same name
    """``async with batch(proxy) as b: b.voltage; b.ramp(1)``, then ``b.results``; as `pzc.batch`."""

    def __init__(self, proxy: Proxy, *, timeout: float | None = None) -> None:
        self._link = proxy._proxy_link  # pyright: ignore[reportPrivateUsage]
        self._timeout = timeout
        self._made: batches.Batch | None = None

    async def __aenter__(self) -> batches.Batch:
        await self._link.connect()
        assert self._link.proxy is not None
        self._made = batches.batch(self._link.proxy, timeout=self._timeout)
        return self._made

    async def __aexit__(self, *exc: Any) -> None:
        if self._made is not None:
            await in_thread(partial(self._made.__exit__, *exc))


class Attribute:
    """One member of a remote object; get it from a proxy. Nothing is asked before it is awaited.

    Every await raises what the remote member raised, or the errors of `Proxy`. A task that is cancelled
    while it awaits a call cancels the call at the server.
    """

    def __init__(self, link: Link, name: str, timeout: float | None = None, idempotent: bool = False) -> None:
        self._link = link
        self._timeout = timeout
        self._idempotent = idempotent
        self.__name__ = name
        self.__doc__ = str(self._about.get("doc") or "") or None

    @property
    def _about(self) -> dict[str, Any]:
        return self._link.table.get(self.__name__, {})

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":
            return signature_of(self._about.get("signature") or "")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        kind, signature = self._about.get("kind", "member"), self._about.get("signature", "")
        return f"<awaitable remote {kind} {self.__name__}{signature} of {self._link.target}>"

    async def _ask(self, action: str, options: dict[str, Any]) -> Any:
        remote = self._link.remote or await self._link.connect()
        options["name"] = self.__name__
        if self._idempotent:
            result = await self._repeatedly(remote, action, options)
        else:
            result = await outcome(remote.request_later(action, options, self._timeout))
        if result is REMOTE:
            return self
        return Items(result) if isinstance(result, RemoteStream) else result

    async def _repeatedly(self, remote: RemoteObject, action: str, options: dict[str, Any]) -> Any:
        ask = partial(remote.request, action, options, self._timeout, idempotent=True)
        result = await in_thread(ask)
        return await outcome(result) if isinstance(result, CallFuture) else result

    async def _exec(self, method: str, *args: Any) -> Any:
        remote = self._link.remote or await self._link.connect()
        if (do := instead(remote, method)) is not None:
            return do(await self._ask("get", {"force_as_object": True}), *args)
        return await self._ask("exec", _exec_options(method, args, {}))

    def __await__(self) -> Generator[Any, Any, Any]:
        """The value; of a method, signal or mapping, which is not sent by value, this object."""
        return self._ask("get", {}).__await__()

    async def set(self, value: Any) -> None:
        """Set the remote attribute."""
        await self._ask("setattr", {"value": value})

    def options(self, *, timeout: float | None = None, idempotent: bool | None = None) -> Attribute:
        """The same member, used in another way: ``await psu.ramp.options(timeout=60)(5.0)``.

        Args:
            timeout: of each use in seconds; None leaves it.
            idempotent: True sends a call again whose reply was lost, until its timeout; it then waits in a
                thread, and cancelling the task does not cancel the call. None leaves it.

        Raises:
            ConfigError: for a timeout that cannot be used.
        """
        checked_timeout(timeout)
        timeout = self._timeout if timeout is None else timeout
        again = self._idempotent if idempotent is None else idempotent
        return Attribute(self._link, self.__name__, timeout, again)

    def __call__(self, *args: Any, **kwargs: Any) -> Call:
        """Call the remote method: await the result, or iterate a generator's items with ``async for``."""
        what = f"{self.__name__} of {self._link.target}"
        return Call(self._ask("exec", _exec_options("__call__", args, kwargs)), what)

    async def oneway(self, *args: Any, **kwargs: Any) -> None:
        """Call the remote method and never learn what became of it; as `RemoteAttribute.oneway`."""
        remote = await self._link.connect()
        options = {"name": self.__name__, **_exec_options("__call__", args, kwargs)}
        await outcome(remote.send_later("exec", options, self._timeout))

    __iter__ = None  # else Python would ask for the items 0, 1, 2, ... and never wait for one
    __contains__ = None

    async def __getitem__(self, key: Any) -> Any:
        return await self._exec("__getitem__", key)

    async def set_item(self, key: Any, value: Any) -> None:
        """Set an item of a remote mapping or sequence."""
        await self._exec("__setitem__", key, value)

    async def delete_item(self, key: Any) -> None:
        """Delete an item of a remote mapping or sequence."""
        await self._exec("__delitem__", key)

    async def length(self) -> int:
        """Number of items of a remote mapping or sequence."""
        return await self._exec("__len__")

    async def contains(self, key: Any) -> bool:
        """Whether a key is in a remote mapping, or a value in a sequence."""
        return await self._exec("__contains__", key)

    async def keys(self) -> list[Any]:
        """Keys of a remote mapping."""
        return await self._exec("keys")

    async def values(self) -> list[Any]:
        """Values of a remote mapping."""
        return await self._exec("values")

    async def items(self) -> list[tuple[Any, Any]]:
        """Items of a remote mapping."""
        return await self._exec("items")

    async def get(self, key: Any, default: Any = None) -> Any:
        """Value of a key of a remote mapping, or the default."""
        return await self._exec("get", key, default)

    async def copy(self) -> Any:
        """A local copy of a remote mapping or sequence."""
        return await self._exec("copy")

    async def emit(self, value: Any = None, old_value: Any = None, other: Any = None) -> None:
        """Emit the remote signal at the server."""
        await self._exec("emit", value, old_value, other)

    async def subscribe(self, policy: Policy | None = None) -> Subscription:
        """Notifications of the remote signal from now on, for ``async for``; close it at the end.

        Args:
            policy: what happens when the reader is slower than the signal; default drop(10 000).

        Raises:
            TypeError: for a member that is no signal.
        """
        await self._link.connect()
        begin = partial(self._link.subscribe, self.__name__, policy or SLOT_POLICY)
        return await in_thread(begin, Subscription.close)

    def __aiter__(self) -> AsyncIterator[Notification]:
        """Notifications of the remote signal from the first wait on, with default policy."""
        return Notifications(self._link, self.__name__)

    async def connect(self, slot: Slot, policy: Policy | None = None) -> None:
        """Call ``slot`` at every emission of the remote signal, one call at a time, in order.

        Args:
            slot: callable of up to three arguments ``(value, old_value, other)``. A coroutine function
                runs in the event loop of the caller, as long as that exists; any other callable in a
                thread of this proxy.
            policy: what happens when the slots are slower than the signal; default drop(10 000).
        """
        remote = await self._link.connect()
        given = in_loop(slot, remote, self.__name__)
        connect = partial(remote.connect, self.__name__, given, policy)
        await in_thread(connect, lambda _: remote.disconnect(self.__name__, given))

    async def disconnect(self, slot: Slot | None = None) -> None:
        """Stop calling ``slot`` in this event loop, or every slot of this proxy.

        Raises:
            ValueError: when it was not connected through this proxy.
        """
        remote = await self._link.connect()
        given = None if slot is None else in_loop(slot, remote, self.__name__)
        end_own(remote, self.__name__, given)
        await in_thread(partial(remote.disconnect, self.__name__, given))


def _exec_options(method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"method": method}
    if args:
        options["args"] = args
    if kwargs:
        options["kwargs"] = kwargs
    return options
