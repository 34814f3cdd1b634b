"""RemoteAttribute: a method, signal, or mapping of a remote object."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from ...delivery.policies import Policy
from ..notifying.signals import Slot
from .contact import checked_timeout, checked_transport
from .futures import CallFuture
from .originals import instead
from .remote import RemoteObject

_CALLS = ("__call__", "future", "oneway", "options")
_ITEMS = ("__getitem__", "__setitem__", "__delitem__", "__iter__", "__len__", "__contains__",
          "copy", "get", "items", "keys", "options", "values")  # fmt: skip
_OFFERED = {"method": _CALLS, "signal": ("connect", "disconnect", "emit"), "items": _ITEMS}
_ALWAYS = ("__doc__", "__name__", "__qualname__", "__signature__")


class _Signature:
    """Descriptor of ``__signature__``: parsed when somebody looks at it; the class itself has none."""

    def __get__(self, attribute: RemoteAttribute | None, owner: object = None) -> inspect.Signature | None:
        if attribute is None:
            raise AttributeError("__signature__")
        from ..stubs.signatures import signature_of

        return signature_of(attribute._about.get("signature") or "")  # pyright: ignore[reportPrivateUsage]


class RemoteAttribute:
    """Stands for one member of a remote object; get it from a proxy, never directly.

    Call it (method), index and iterate it (mapping, sequence), or connect to it (signal). Every
    operation raises what the remote member raised, or the errors of `Agent.request`.
    """

    __signature__ = _Signature()

    def __init__(self, remote: RemoteObject, name: str, about: dict[str, Any], owner: object = None) -> None:
        self._remote = remote
        self._request = remote.request
        self._owner = owner  # what keeps the remote object open
        self._about = about
        self._timeout: float | None = None
        self._transport: str | None = None
        self._idempotent = bool(about.get("idempotent"))
        self.__name__ = name
        self.__qualname__ = f"{remote.peer.details.get('serves') or 'remote'}.{name}"
        # Never empty: help() would describe this class instead of the remote method.
        self.__doc__ = str(about.get("doc") or "") or "(The server has no documentation of it.)"

    def __get__(self, instance: object, owner: object = None) -> RemoteAttribute:
        """Itself: help() shows the signature of what has this method, as of every routine."""
        return self

    def __repr__(self) -> str:
        kind, signature = self._about.get("kind", "member"), self._about.get("signature", "")
        return f"<remote {kind} {self.__name__}{signature} of {self._remote.target}>"

    def __dir__(self) -> list[str]:
        offered = _OFFERED.get(str(self._about.get("kind")))
        names = offered if offered is not None else {name for each in _OFFERED.values() for name in each}
        return sorted({*_ALWAYS, *names})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the remote method.

        Returns:
            Its result; a `CallFuture` when it returned a future, a `RemoteStream` when it is a generator.
        """
        options: dict[str, Any] = {"name": self.__name__, "method": "__call__"}
        if args:
            options["args"] = args
        if kwargs:
            options["kwargs"] = kwargs
        return self._request("exec", options, self._timeout, self._transport, self._idempotent)

    def _exec(self, method: str, *args: Any) -> Any:
        if (do := instead(self._remote, method)) is not None:
            copied = {"name": self.__name__, "force_as_object": True}
            return do(self._request("get", copied, self._timeout, self._transport), *args)
        options: dict[str, Any] = {"name": self.__name__, "method": method}
        if args:
            options["args"] = args
        return self._request("exec", options, self._timeout, self._transport)

    def _call_options(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"name": self.__name__, "method": "__call__"}
        if args:
            options["args"] = args
        if kwargs:
            options["kwargs"] = kwargs
        return options

    def future(self, *args: Any, **kwargs: Any) -> CallFuture:
        """Call the remote method without waiting for its result; ``cancel()`` cancels it at the server."""
        return self._remote.request_later("exec", self._call_options(args, kwargs), self._timeout)

    def oneway(self, *args: Any, **kwargs: Any) -> None:
        """Call the remote method and never learn what became of it; returns once the call was sent.

        Raises:
            Refused: when an original Pizco is there.
        """
        self._remote.send("exec", self._call_options(args, kwargs), self._timeout, self._transport)

    def options(
        self, *, timeout: float | None = None, idempotent: bool | None = None, transport: str | None = None
    ) -> RemoteAttribute:
        """The same member, called in another way: ``psu.ramp.options(timeout=60)(5.0)``.

        Args:
            timeout: of a call in seconds; None leaves it.
            idempotent: True sends a call again whose reply was lost, until its timeout; None leaves it.
            transport: ``auto``, ``inproc``, ``unix`` or ``tcp``; None leaves it.

        Raises:
            ConfigError: for a value that cannot be used.
            Refused: when an original Pizco is there, for anything but a timeout.
        """
        checked_timeout(timeout)
        checked_transport(transport)
        if idempotent:
            self._remote.need("tell a call that it ran before from a new one")
        if transport in ("inproc", "unix"):
            self._remote.need(f"be called over {transport}")
        twin = RemoteAttribute(self._remote, self.__name__, self._about, self._owner)
        twin._timeout = self._timeout if timeout is None else timeout
        twin._transport = self._transport if transport is None else transport
        twin._idempotent = self._idempotent if idempotent is None else idempotent
        return twin

    def __getitem__(self, key: Any) -> Any:
        return self._exec("__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._exec("__setitem__", key, value)

    def __delitem__(self, key: Any) -> None:
        self._exec("__delitem__", key)

    def __len__(self) -> int:
        return self._exec("__len__")

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: Any) -> bool:
        return self._exec("__contains__", key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._exec("__iter__"))

    def keys(self) -> list[Any]:
        """Keys of a remote mapping."""
        return self._exec("keys")

    def values(self) -> list[Any]:
        """Values of a remote mapping."""
        return self._exec("values")

    def items(self) -> list[tuple[Any, Any]]:
        """Items of a remote mapping."""
        return self._exec("items")

    def get(self, key: Any, default: Any = None) -> Any:
        """Value of a key of a remote mapping, or the default."""
        return self._exec("get", key, default)

    def copy(self) -> Any:
        """A local copy of a remote mapping or sequence."""
        return self._exec("copy")

    def connect(self, slot: Slot, policy: Policy | None = None) -> None:
        """Call ``slot`` at every emission of the remote signal, in connection order.

        Args:
            slot: callable of up to three arguments ``(value, old_value, other)``; runs in a
                thread of this proxy.
            policy: what happens when the slots are slower than the signal; default drop(10 000).
        """
        self._remote.connect(self.__name__, slot, policy)

    def disconnect(self, slot: Slot | None = None) -> None:
        """Stop calling ``slot``, or every slot of this proxy.

        Raises:
            ValueError: when it was not connected through this proxy.
        """
        self._remote.disconnect(self.__name__, slot)

    def emit(self, value: Any = None, old_value: Any = None, other: Any = None) -> None:
        """Emit the remote signal at the server."""
        self._exec("emit", value, old_value, other)
