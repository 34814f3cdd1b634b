"""Proxy: a remote object, held as if it were local."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from ...protocol import portable, unpickle_rules, values
from ...protocol.errors import AgentClosed, DecodeError, MemberRefused
from ..serving.calls import current
from ..wire import Protocol
from .attributes import RemoteAttribute
from .remote import REMOTE, RemoteObject


class _Anchor:
    """Keeps one remote object open: the proxy, its methods, streams and unanswered calls refer to it."""

    __slots__ = ("__weakref__",)


class Proxy:
    """Access to the object that a `Server` serves.

    ``proxy.attr``, ``proxy.attr = v``, ``proxy.attr[k]``, ``proxy.method(...)``,
    ``proxy.signal.connect(slot)``, ``dir(proxy)``. Safe from any thread. It stays usable when the
    server is restarted at the same endpoint.

    Args:
        target: REP endpoint or name of the server.
        timeout: of every call in seconds; default ``PZC_TIMEOUT``, else 30.
        transport: how calls travel: ``auto``, ``inproc``, ``unix`` or ``tcp``; default
            ``PZC_TRANSPORT``, else ``auto``.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    It can be sent: as an argument, as a result, and in what holds it. What arrives is a proxy of the same
    target, with the receiver's settings, and connects at its first use: inside a call with the keys of the
    server that runs it, as a result with those of the proxy that was asked, else with the default `Protocol`.

    Raises:
        CallTimeout: no reply in time; every operation can raise it.
        PeerLost: nobody answers there.
        SignatureError: keys differ.
        UnknownName: nobody is known by that name.
        ConfigError: for an argument that cannot be used.
    """

    _proxy_remote: RemoteObject
    _proxy_anchor: _Anchor

    def __init__(
        self,
        target: str,
        *,
        timeout: float | None = None,
        transport: str | None = None,
        protocol: Protocol | None = None,
    ) -> None:
        self._proxy_open(target, timeout, transport, protocol)

    def _proxy_open(
        self, target: str, timeout: float | None, transport: str | None, protocol: Protocol | None
    ) -> None:
        remote = RemoteObject(target, timeout, protocol, transport)
        anchor = _Anchor()
        remote.anchor = weakref.ref(anchor)
        remote.on_outdated = partial(_forget_methods, weakref.ref(self))
        # The finaliser may run in any thread, the I/O thread included, which cannot wait for itself.
        finalizer = weakref.finalize(anchor, _close_later, remote)
        finalizer.atexit = False
        self.__dict__.update(_proxy_remote=remote, _proxy_anchor=anchor, _proxy_finalizer=finalizer)

    def _proxy_asks_with(self, protocol: Protocol) -> None:
        """Connect with that, if it is not connected yet."""
        later: _Later | None = self.__dict__.get("_proxy_later")
        if later is not None:
            later.protocol = protocol

    def _proxy_connect(self, later: _Later) -> None:
        with later.lock:
            if later.closed:
                raise AgentClosed(f"the proxy of {later.target} was closed")
            if "_proxy_later" in self.__dict__:
                call = current()
                self._proxy_open(later.target, None, None, later.protocol or (call and call.protocol))
                del self.__dict__["_proxy_later"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            later: _Later | None = self.__dict__.get("_proxy_later") if name in _HELD else None
            if later is not None:
                self._proxy_connect(later)
            if name in self.__dict__:  # also when another thread has connected it
                return self.__dict__[name]
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        remote = self._proxy_remote
        about = remote.member(name)
        kind = about.get("kind")
        if kind == "method":
            return self._proxy_method(name)
        if kind not in ("signal", "items", "remote"):
            value = remote.request("get", {"name": name})
            if value is not REMOTE:
                return value
        return RemoteAttribute(remote, name, about, self._proxy_anchor)

    def _proxy_method(self, name: str) -> RemoteAttribute:
        """A remote method, which the next access finds without coming here, until the server is restarted."""
        remote = self._proxy_remote
        generation = remote.generation
        method = RemoteAttribute(remote, name, remote.member(name), self._proxy_anchor)
        self.__dict__[name] = method
        if remote.generation != generation:  # fetched again meanwhile, by another thread
            self.__dict__.pop(name, None)
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        self._proxy_remote.request("setattr", {"name": name, "value": value})

    def __dir__(self) -> list[str]:
        return sorted(self._proxy_remote.table)

    def _proxy_target(self) -> str:
        later: _Later | None = self.__dict__.get("_proxy_later")
        return self._proxy_remote.target if later is None else later.target

    def __repr__(self) -> str:
        return f"<Proxy of {self._proxy_target()}>"

    def __reduce__(self) -> tuple[Callable[..., Proxy], tuple[Any, ...]]:
        own = () if type(self) is Proxy else (type(self),)
        return revive, (self._proxy_target(), *own)

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
        later: _Later | None = self.__dict__.get("_proxy_later")
        if later is not None:
            with later.lock:
                later.closed = True
            if "_proxy_later" in self.__dict__:
                return
        self.__dict__["_proxy_finalizer"].detach()
        self._proxy_remote.close()


_HELD = frozenset({"_proxy_remote", "_proxy_anchor", "_proxy_finalizer"})
_LONGEST = 1024  # characters of a target


class _Later:
    """What a proxy that was sent knows until its first use."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.protocol: Protocol | None = None
        self.lock = threading.Lock()
        self.closed = False


def revive(target: str, cls: type[Proxy] = Proxy) -> Proxy:
    """A proxy that connects at its first use.

    Args:
        target: endpoint or name of the server.
        cls: of the proxy.

    Raises:
        DecodeError: when that cannot be a target.
    """
    if not target or len(target) > _LONGEST or not target.isprintable():
        raise DecodeError("a proxy came without a usable target")
    proxy = cls.__new__(cls)
    proxy.__dict__["_proxy_later"] = _Later(target)
    return proxy


values.add(Proxy)
portable.add(Proxy, "proxy", Proxy._proxy_target, revive)  # pyright: ignore[reportPrivateUsage]
unpickle_rules.allow(revive)


def _forget_methods(of: weakref.ref[Proxy]) -> None:
    proxy = of()
    for name in () if proxy is None else list(vars(proxy)):
        if not name.startswith("_"):
            vars(proxy).pop(name, None)


def _close_later(remote: RemoteObject) -> None:
    thread = threading.Thread(target=remote.close, name="pzc-close", daemon=True)
    # Started by the I/O thread: the collector may run this while its thread starts another one.
    remote.agent.loop.call(thread.start)


def close(proxy: Proxy) -> None:
    """Close a proxy, without shadowing any remote member named close."""
    proxy._proxy_stop_me()  # pyright: ignore[reportPrivateUsage]
