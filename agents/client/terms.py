"""Terms: how a call is made, as one value from the member to the message; what users say is judged here."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...protocol.errors import ConfigError
from ...protocol.shown import shown
from .interfaces import Served

_TRANSPORTS = ("auto", "unix", "tcp")


def checked_target(target: object) -> str:
    """An endpoint or name.

    Raises:
        ConfigError: when it is no text.
    """
    if isinstance(target, str):
        return target
    port = f", perhaps tcp://127.0.0.1:{target}" if type(target) is int and 0 < target < 65536 else ""
    raise ConfigError(
        f"{shown(target, 60)} is no server: expected a name such as 'psu', or an endpoint such as "
        f"'tcp://127.0.0.1:5555'{port}"
    )


def remote_of(proxy: object) -> Any:
    """What a proxy, or something reached through one, asks with; it connects one that was sent.

    Raises:
        ConfigError: for anything else.
    """
    found = getattr(proxy, "_proxy_remote", None)
    if found is None:
        raise no_proxy(proxy)
    return found


def no_proxy(given: object) -> ConfigError:
    """The error for something else than a proxy of the synchronous face."""
    if hasattr(type(given), "__await__"):
        return ConfigError(
            f"{shown(given, 60)} is awaited: for a proxy of pzc.aio use pzc.aio.close, lock or batch"
        )
    return ConfigError(f"{shown(given, 60)} is no proxy: expected one that pzc.Proxy(...) gave")


class Terms(NamedTuple):
    """How a call is made.

    Attributes:
        timeout: seconds for everything; None for those of the proxy.
        transport: ``auto``, ``unix`` or ``tcp``; None for that of the proxy.
        idempotent: it is sent again, with back-off, when its reply was lost: it may then run twice; None for
            what its server declares.
        detached: it goes on when nobody waits for it any more.
        oneway: nobody learns what became of it; it is over once it was sent.
        keeps: what may not be let go before its peer has read it, when it is one-way.
    """

    timeout: float | None = None
    transport: str | None = None
    idempotent: bool | None = None
    detached: bool = False
    oneway: bool = False
    keeps: Sequence[object] = ()


USUAL = Terms()
IDEMPOTENT = Terms(idempotent=True)


def options(
    terms: Terms,
    served: Served | None,
    *,
    timeout: float | None = None,
    idempotent: bool | None = None,
    transport: str | None = None,
    detached: bool | None = None,
) -> Terms:
    """Terms with what a user wants otherwise, and without what is None.

    Args:
        terms: before.
        served: what is asked; None when it is not met yet.
        timeout: see `Terms`.
        idempotent: likewise.
        transport: likewise.
        detached: likewise.

    Raises:
        ConfigError: for a value that cannot be used.
        Refused: for what a server that is not native cannot do.
    """
    checked_timeout(timeout)
    checked_transport(transport)
    if served is not None:
        if idempotent:
            served.need("tell a call that it ran before from a new one")
        if transport == "unix":
            served.need("be called over unix")
        if detached:
            served.need("let a call go on without its caller")
    given = {"timeout": timeout, "idempotent": idempotent, "transport": transport, "detached": detached}
    return terms._replace(**{name: value for name, value in given.items() if value is not None})


def checked_timeout(seconds: float | None) -> float | None:
    """A timeout in seconds, or None.

    Raises:
        ConfigError: when it is no positive number, or one that no clock can wait for.
    """
    if seconds is None:
        return None
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not number or not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ConfigError(
            f"timeout={seconds!r} cannot be used: expected a positive number of seconds, "
            f"{threading.TIMEOUT_MAX:g} at most"
        )
    return seconds


def checked_transport(transport: str | None) -> str | None:
    """A transport, or None.

    Raises:
        ConfigError: when there is none of that name.
    """
    if transport == "inproc":
        raise ConfigError(
            "transport='inproc' is for notifications only: calls inside a process take 'auto' or 'unix'"
        )
    if transport is not None and transport not in _TRANSPORTS:
        raise ConfigError(f"transport={transport!r} cannot be used: expected one of {', '.join(_TRANSPORTS)}")
    return transport
