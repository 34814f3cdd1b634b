"""Proxy: a remote object, held as if it were local; and the agent behind proxies."""

from __future__ import annotations

import copyreg
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ..protocol import kinds, values
from ..protocol.errors import DecodeError, PzcError
from ..protocol.paths import Path, parse, text
from ..transport.helpers import aside
from ..transport.tables import Leases
from ..transport.wire import Protocol, chosen
from .agent import Agent
from .client.described import About
from .client.member import Member, refer
from .client.reference import Later, RemoteReference, explained
from .client.remote import RemoteObject
from .client.terms import no_proxy, remote_of
from .stub import Remote, stub_text

_agents: Leases[Agent] = Leases()


def lease(protocol: Protocol | None) -> tuple[Agent, Callable[[], None]]:
    """The process's agent for a protocol, gone with its last user, and what gives it back, to be called once.

    Raises:
        ConfigError, BindError: as `Agent`.
    """
    protocol = chosen(protocol)
    agent = _agents.lease(protocol.fingerprint, partial(Agent, name="", protocol=protocol))
    return agent, partial(_release, agent)


def _release(agent: Agent) -> None:
    if _agents.release(agent):
        agent.stop()


_LONGEST = 1024  # characters of a target


class Anchor:
    """Keeps one remote object open: the proxy, its members, streams and unanswered calls refer to it."""

    __slots__ = ("__weakref__",)


@explained
class Proxy(RemoteReference):
    """Access to the object that a `Server` serves.

    ``proxy.attr``, ``proxy.attr = v``, ``proxy.attr[k]``, ``proxy.method(...)``,
    ``proxy.signal.connect(slot)``, ``dir(proxy)``. What is no value stays at the server:
    ``proxy.ch1.voltage = 3`` works with its channel, of which ``proxy.ch1`` is a `RemoteReference`. Safe from
    any thread. It stays usable when the server is restarted at the same endpoint. As a context manager it is
    closed at the end.

    Args:
        target: REP endpoint or name of the server.
        timeout: of every call in seconds; default ``PZC_TIMEOUT``, else 30.
        transport: how calls travel: ``auto``, ``unix`` or ``tcp``; default ``PZC_TRANSPORT``, else ``auto``.
        protocol: default `Protocol`, which reads the ``PZC_`` variables.

    It can be sent: as an argument, as a result, and in what holds it. What arrives is a proxy of the same
    target, with the receiver's settings, and connects at its first use: inside a call with the keys of the
    server that runs it, as a result with those of the proxy that was asked, else with the default `Protocol`.
    As an argument of a call to its own server it is the served object itself.

    Raises:
        CallTimeout: no reply in time; every operation can raise it.
        PeerLost: nobody answers there; a new proxy tells it after 3 s where no agent can be, because
            connections are refused, say. A call of one that has worked waits until its timeout for its server
            to come back, and says so in the log.
        SignatureError: keys differ.
        UnknownName: nobody is known by that name.
        ConfigError: for an argument that cannot be used.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout: float | None = None,
        transport: str | None = None,
        protocol: Protocol | None = None,
    ) -> None:
        vars(self).update(_opened(target, protocol, timeout, transport))

    def __repr__(self) -> str:
        if "_proxy_later" in vars(self):
            return f"<Proxy of {self._proxy_target()}>"
        remote = self._proxy_remote
        who = ": ".join(filter(None, (remote.name, self._proxy_type())))
        return f"<Proxy of {who} at {remote.endpoint}>" if who else f"<Proxy of {remote.endpoint}>"

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
        later: Later | None = vars(self).get("_proxy_later")
        if later is not None:
            with later.lock:
                later.closed = True
            if "_proxy_later" in vars(self):
                return
        vars(self)["_proxy_finalizer"].detach()
        self._proxy_remote.close()


def _opened(
    target: str, protocol: Protocol | None, timeout: float | None = None, transport: str | None = None
) -> dict[str, Any]:
    """What a connected proxy has; further arguments and errors as `Proxy`."""
    remote = RemoteObject(lease, target, timeout, protocol, transport, refer)
    anchor = Anchor()
    remote.anchor = weakref.ref(anchor)
    finalizer = weakref.finalize(anchor, aside, remote.agent.loop, remote.dropped)
    finalizer.atexit = False
    return {
        "_proxy_remote": remote,
        "_proxy_anchor": anchor,
        "_proxy_finalizer": finalizer,
        "_proxy_path": remote.root,
    }


def _unconnected(cls: type[RemoteReference], target: str) -> RemoteReference:
    if not target or len(target) > _LONGEST or not target.isprintable():
        raise DecodeError("a proxy came without a usable target")
    made = cls.__new__(cls)
    vars(made)["_proxy_later"] = Later(target, _opened)
    return made


def revive(target: str, cls: type[Proxy] = Proxy) -> Proxy:
    """A proxy that connects at its first use.

    Args:
        target: endpoint or name of the server.
        cls: of the proxy.

    Raises:
        DecodeError: when that cannot be a target.
    """
    made = _unconnected(cls, target)
    assert isinstance(made, Proxy)
    return made


def refer_later(target: str, path: Path) -> RemoteReference:
    """A reference that connects at its first use.

    Args:
        target: endpoint or name of the server.
        path: from what is served.

    Raises:
        DecodeError: when that cannot be a target.
    """
    made = _unconnected(RemoteReference, target)
    vars(made)["_proxy_path"] = path
    return made


def revive_reference(written: str) -> RemoteReference:
    """As `refer_later`, by what `_written` gave.

    Args:
        written: target and path, with a space between.

    Raises:
        DecodeError: when it cannot be used.
    """
    target, _, path = written.partition(" ")
    try:
        return refer_later(target, parse(path))
    except PzcError as exc:
        raise DecodeError(f"a reference came without a usable path: {exc}") from exc


def _written(reference: RemoteReference) -> str:
    of: Any = reference
    return f"{of._proxy_target()} {text(of._proxy_path)}"


def _reduced(reference: RemoteReference) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return revive_reference, (_written(reference),)


for _sent in (Proxy, RemoteReference, Member):
    values.add(_sent)
kinds.add(Proxy, "proxy", Proxy._proxy_target, revive)  # pyright: ignore[reportPrivateUsage]
for _sent in (RemoteReference, Member):
    copyreg.pickle(_sent, _reduced)
    kinds.add(_sent, "remote", _written, revive_reference)


def close(proxy: Proxy | Remote) -> None:
    """Close a proxy, without shadowing any remote member named close.

    Raises:
        ConfigError: for anything but a proxy.
    """
    given = cast(object, proxy)
    if not isinstance(given, Proxy):
        raise no_proxy(proxy)
    given._proxy_stop_me()  # pyright: ignore[reportPrivateUsage]


def path(reference: RemoteReference | Remote) -> str:
    """Where something is, as commands write it: ``dac.ch1``, ``dac.channels[0]``, ``dac`` of a proxy.

    Args:
        reference: a proxy, or what was reached through one.

    Returns:
        Name of the server, or its endpoint where it has none, and the path; ``@`` begins that of what a
        method returned, which only this process can use.

    Raises:
        ConfigError: for anything else.
    """
    remote = remote_of(reference)
    steps = text(vars(reference)["_proxy_path"][len(remote.root) :])
    return f"{remote.name or remote.endpoint}{'' if not steps or steps[0] in '[@' else '.'}{steps}"


def refresh(reference: RemoteReference | Remote) -> None:
    """Ask the server again, at the next use, what members there are in a proxy or reference, and below.

    Raises:
        ConfigError: for anything else.
    """
    remote_of(reference).refresh(vars(reference)["_proxy_path"])


def stubs(proxy: RemoteReference | Remote) -> str:
    """Text of a stub file (``.pyi``) for the object behind a proxy, and what is in it.

    Args:
        proxy: of a server; one of an original Pizco tells less.

    Raises:
        ConfigError: for anything but a proxy.
        CallTimeout, PeerLost: as `Agent.request`, when the server has been replaced.
    """
    remote = remote_of(proxy)
    about: About = remote.about(remote.root)  # reads it again when another server is there now
    name = about.type or "RemoteObject"
    told = {**about._asdict(), "doc": f"{name} as {remote.target} serves it."}
    return stub_text(name, told, about.types)
