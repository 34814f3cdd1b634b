"""The awaitable face of a proxy, over the same futures; its public name is `pzc.aio`.

A `Proxy` here holds one of `.proxy` and awaits the futures of its `RemoteObject`. No event loop is made,
kept or run, and none is blocked: what has to wait (a handshake, a lock, the confirmation of a
subscription, closing) does so in a thread of its own, bounded by the timeout of the proxy.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Any

from ..protocol.errors import ConfigError
from ..protocol.shown import shown
from ..transport.wire import Protocol, chosen
from . import proxy as synchronous
from .client import batches, locking, reference
from .client.awaitable.iteration import Call, Items, Notifications
from .client.awaitable.link import Link
from .client.awaitable.reference import RemoteReference
from .client.awaitable.slots import end_own
from .client.awaitable.threads import in_thread, outcome
from .client.reference import explained
from .client.terms import checked_target, checked_timeout, checked_transport
from .watching import watch

__all__ = ["Call", "Items", "Notifications", "Proxy", "RemoteReference", "batch", "close", "lock", "watch"]


@explained
class Proxy(RemoteReference):
    """Access to the object that a `Server` serves, for event loops: the names of `pzc.Proxy`, awaited.

    ``await proxy.attr``, ``await proxy.attr.set(v)``, ``await proxy.attr[k]``,
    ``await proxy.ch1.voltage``, ``await proxy.method(...)``, ``async for item in proxy.generator(...)``,
    ``async for notification in proxy.signal``. Any number of tasks, event loops and threads may use it.
    Making it does nothing yet: the first await connects it, as do ``await proxy``, ``async with`` and
    ``dir(proxy)``, which waits for that half a second at most. After a failed connection, the next await
    tries again.

    Args:
        target: endpoint or name of the server.
        timeout: of every call in seconds; default ``PZC_TIMEOUT``, else 30.
        transport: of what runs in a thread, as `pzc.Proxy`; awaited calls share one ZeroMQ socket.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    Raises:
        ConfigError: for an argument of a wrong kind.
        CallTimeout, PeerLost, SignatureError, UnknownName: from every await, as `pzc.Proxy`.
        AgentClosed: from every await after `close`.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout: float | None = None,
        transport: str | None = None,
        protocol: Protocol | None = None,
    ) -> None:
        checked_target(target)
        checked_timeout(timeout)
        checked_transport(transport)
        protocol = None if protocol is None else chosen(protocol)
        make = partial(synchronous.Proxy, target, timeout=timeout, transport=transport, protocol=protocol)
        RemoteReference.__init__(self, Link(target, make, partial(synchronous.revive, target)), ())

    def _child(self, step: Any) -> RemoteReference:
        return RemoteReference(self._link, (step,), None if isinstance(step, str) else self)

    def __dir__(self) -> list[str]:
        return sorted(self._link.members(()))

    def __repr__(self) -> str:
        return f"<awaitable Proxy of {self._link.target}>"

    def __reduce__(self) -> tuple[type[Proxy], tuple[str]]:
        return type(self), (self._link.target,)

    async def _proxy_connected(self) -> Proxy:
        await self._link.connect()
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
        remote = await self._link.connect()
        await in_thread(remote.stop_server)

    async def _proxy_stop_me(self) -> None:
        await close(self)


def _link_of(proxy: object, cls: type[RemoteReference] = RemoteReference) -> Link:
    if not isinstance(proxy, cls):
        raise ConfigError(f"{shown(proxy, 60)} is no awaitable proxy: expected what pzc.aio.Proxy(...) gave")
    return proxy._link  # pyright: ignore[reportPrivateUsage]


async def close(proxy: Proxy) -> None:
    """Close a proxy: its subscriptions, streams, threads and, with the last one, its sockets.

    Waits, as `pzc.close`, for a slot that is running, unless it is called there.

    Raises:
        ConfigError: for anything but an awaitable proxy.
    """
    link = _link_of(proxy, Proxy)
    end_own(link.remote)
    await in_thread(link.close)


class lock:  # noqa: N801 - it is used as the function of the same name
    """``async with lock(proxy, ttl=30): ...``; arguments and errors as `pzc.lock`.

    All tasks that use the proxy share its lock. A task that is cancelled while it waits for the lock
    does not keep it.
    """

    def __init__(self, proxy: RemoteReference, ttl: float = 30.0, **options: Any) -> None:
        self._link = _link_of(proxy)
        self._options = {"ttl": ttl, **options}
        self._held: list[locking.Lock] = []

    async def __aenter__(self) -> locking.Lock:
        await self._link.connect()
        assert self._link.proxy is not None
        take = partial(locking.lock, self._link.proxy, **self._options)
        held = await in_thread(take, locking.Lock.release)
        self._held.append(held)
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(partial(self._held.pop().__exit__, kind, error, trace))


class batch:  # noqa: N801 - it is used as the function of the same name
    """``async with batch(proxy) as b: b.voltage; b.ramp(1)``, then ``b.results``; as `pzc.batch`."""

    def __init__(self, proxy: RemoteReference, *, timeout: float | None = None, oneway: bool = False) -> None:
        self._link = _link_of(proxy)
        self._of: Any = proxy
        self._timeout = timeout
        self._oneway = oneway
        self._made: batches.Batch | None = None

    async def __aenter__(self) -> batches.Batch:
        remote = await self._link.connect()
        what = reference.RemoteReference(remote, self._of._place(remote), {}, self._of._leases)
        self._made = batches.batch(what, timeout=self._timeout, oneway=self._oneway)
        return self._made

    async def __aexit__(self, kind: type[BaseException] | None, *exc: Any) -> None:
        made = self._made
        if made is not None and batches.is_to_run(made, kind):
            batches.take(made, await outcome(batches.send_later(made)))
