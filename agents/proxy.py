"""Proxy: a remote object, held as if it were local."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ..protocol.errors import MemberRefused
from .attributes import RemoteAttribute
from .remote import REMOTE, RemoteObject
from .wire import Protocol


class Proxy:
    """Access to the object that a `Server` serves.

    ``proxy.attr``, ``proxy.attr = v``, ``proxy.attr[k]``, ``proxy.method(...)``,
    ``proxy.signal.connect(slot)``, ``dir(proxy)``. Safe from any thread. It stays usable when the
    server is restarted at the same endpoint.

    Args:
        target: REP endpoint or name of the server.
        timeout: of every call in seconds; default ``PZC_TIMEOUT``, else 30.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    Raises:
        CallTimeout: no reply in time; every operation can raise it.
        PeerLost: nobody answers there.
        SignatureError: keys differ.
        UnknownName: nobody is known by that name.
    """

    _proxy_remote: RemoteObject

    def __init__(
        self, target: str, *, timeout: float | None = None, protocol: Protocol | None = None
    ) -> None:
        remote = RemoteObject(target, timeout, protocol)
        self.__dict__["_proxy_remote"] = remote
        # The finaliser may run in any thread, the I/O thread included, which cannot wait for itself.
        self.__dict__["_proxy_finalizer"] = weakref.finalize(self, _close_later, remote)
        self.__dict__["_proxy_finalizer"].atexit = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        remote = self._proxy_remote
        about = remote.member(name)
        if about.get("kind") in ("method", "signal", "items", "remote"):
            return RemoteAttribute(remote, name, about, self)
        value = remote.request("get", {"name": name})
        return RemoteAttribute(remote, name, about, self) if value is REMOTE else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        self._proxy_remote.request("setattr", {"name": name, "value": value})

    def __dir__(self) -> list[str]:
        return sorted(self._proxy_remote.table)

    def __repr__(self) -> str:
        return f"<Proxy of {self._proxy_remote.target}>"

    def __reduce__(self) -> tuple[type[Proxy], tuple[str]]:
        return type(self), (self._proxy_remote.target,)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self._proxy_stop_me()

    def _proxy_instantiate(self, cls: type | str, *args: Any, **kwargs: Any) -> None:
        """Make the object of a server that serves none yet.

        Args:
            cls: class, or its qualified name; on the server's ``allow_instantiate`` list.
            args: positional arguments of the class.
            kwargs: keyword arguments of the class.

        Raises:
            InstantiateRefused: for any other class, or when the server has an object.
            Exception: what the class raised.
        """
        name = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
        self._proxy_remote.instantiate(name, args, kwargs)

    def _proxy_stop_server(self) -> None:
        """Ask the server to stop; it answers first and stops 0.1 s later."""
        self._proxy_remote.stop_server()

    def _proxy_stop_me(self) -> None:
        """Close this proxy: its subscriptions, threads and, with the last one, its sockets."""
        self.__dict__["_proxy_finalizer"].detach()
        self._proxy_remote.close()


def _close_later(remote: RemoteObject) -> None:
    thread = threading.Thread(target=remote.close, name="pzc-close", daemon=True)
    # Started by the I/O thread: the collector may run this while its thread starts another one.
    remote.agent.loop.call(thread.start)


def close(proxy: Proxy) -> None:
    """Close a proxy, without shadowing any remote member named close."""
    proxy._proxy_stop_me()  # pyright: ignore[reportPrivateUsage]
