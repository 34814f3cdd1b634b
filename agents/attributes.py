"""RemoteAttribute: a method, signal, or mapping of a remote object."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from ..delivery.policies import Policy
from .remote import RemoteObject
from .signals import Slot


class RemoteAttribute:
    """Stands for one member of a remote object; get it from a proxy, never directly.

    Call it (method), index and iterate it (mapping, sequence), or connect to it (signal). Every
    operation raises what the remote member raised, or the errors of `Agent.request`.
    """

    def __init__(self, remote: RemoteObject, name: str, about: dict[str, Any], owner: object = None) -> None:
        self._remote = remote
        self._owner = owner  # the proxy: it must not be collected while its method runs
        self._about = about
        self.__name__ = name
        self.__doc__ = str(about.get("doc") or "")

    def __repr__(self) -> str:
        kind, signature = self._about.get("kind", "member"), self._about.get("signature", "")
        return f"<remote {kind} {self.__name__}{signature} of {self._remote.target}>"

    def _exec(self, method: str, *args: Any, **kwargs: Any) -> Any:
        result = self._remote.request("exec", self._options(method, args, kwargs))
        return self._owned(result) if isinstance(result, Future) else result

    def _owned(self, future: Future[Any]) -> Future[Any]:
        future.__dict__["_pzc_owner"] = self._owner
        return future

    def _options(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"name": self.__name__, "method": method}
        if args:
            options["args"] = args
        if kwargs:
            options["kwargs"] = kwargs
        return options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the remote method; a method that returned a future gives a future here."""
        return self._exec("__call__", *args, **kwargs)

    def future(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the remote method without waiting for its result."""
        return self._owned(self._remote.request_later("exec", self._options("__call__", args, kwargs)))

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
