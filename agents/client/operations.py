"""Operations: the one table of what can be done with something remote, from which both faces are made.

A face is a class whose methods this table names: `pzc.Proxy` and what it leads to, where an operation gives
its result, and the same of `pzc.aio`, where it is awaited. Operations differ in their ``handler``:

=============  =========================================================================================
handler        a face does
=============  =========================================================================================
``exec``       asks the server to do it, with the arguments that the pattern gives
anything else  what its method ``_do_NAME`` does, with the arguments as they are
=============  =========================================================================================
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from ...delivery.policies import Policy
from ..signals import Slot

Cls = TypeVar("Cls", bound=type)


class Operation(NamedTuple):
    """One row.

    Attributes:
        name: at the synchronous face, and at the server.
        awaited: at the awaitable face; empty where that has none.
        handler: see the module.
        kinds: of the members that offer it under its name.
        pattern: has its signature and documentation, and gives its arguments as they are sent.
    """

    name: str
    awaited: str
    handler: str
    kinds: tuple[str, ...]
    pattern: Callable[..., Any]


class Patterns:
    """Signatures and documentation; each gives its arguments as they are sent."""

    def getitem_(self, key: Any) -> Any:
        """An item of a remote mapping or sequence."""
        return (key,)

    def setitem_(self, key: Any, value: Any) -> Any:
        """Set an item of a remote mapping or sequence."""
        return key, value

    def delitem_(self, key: Any) -> Any:
        """Delete an item of a remote mapping or sequence."""
        return (key,)

    def len_(self) -> Any:
        """Number of items of a remote mapping or sequence."""
        return ()

    def contains_(self, key: Any) -> Any:
        """Whether a key is in a remote mapping, or a value in a sequence."""
        return (key,)

    def enter_(self) -> Any:
        """Enter a remote context manager."""
        return ()

    def exit_(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> Any:
        """Leave a remote context manager."""
        return (None, None, None) if error is None else (type(error).__qualname__, str(error), None)

    def keys(self) -> Any:
        """Keys of a remote mapping."""
        return ()

    def values(self) -> Any:
        """Values of a remote mapping."""
        return ()

    def items(self) -> Any:
        """Items of a remote mapping."""
        return ()

    def get(self, key: Any, default: Any = None) -> Any:
        """Value of a key of a remote mapping, or the default."""
        return key, default

    def copy(self) -> Any:
        """A local copy of a remote mapping or sequence."""
        return ()

    def emit(self, *values: Any, **named: Any) -> Any:
        """Emit the remote signal at the server, with what it declares."""

    def call_(self, *args: Any, **kwargs: Any) -> Any:
        """Call it.

        Returns:
            Its result; a `PendingCall` when it returned a future, a `RemoteStream` when it is a generator, a
            `RemoteReference` for what is no value.
        """

    def future(self, *args: Any, **kwargs: Any) -> Any:
        """Call it without waiting for its result; ``cancel()`` cancels the call at the server."""

    def oneway(self, *args: Any, **kwargs: Any) -> Any:
        """Call it and never learn what became of it; over once the call was sent.

        Raises:
            Refused: when an original Pizco is there.
        """

    def options(
        self,
        *,
        timeout: float | None = None,
        idempotent: bool | None = None,
        transport: str | None = None,
        detached: bool | None = None,
    ) -> Any:
        """The same member, used in another way: ``psu.ramp.options(timeout=60)(5.0)``.

        Args:
            timeout: of each use in seconds; None leaves it.
            idempotent: True sends a call again whose reply was lost, until its timeout; None leaves it.
            transport: ``auto``, ``unix`` or ``tcp``; None leaves it.
            detached: True lets a call go on when its caller is gone; `attach` fetches it. None leaves it.

        Raises:
            ConfigError: for a value that cannot be used.
            Refused: when an original Pizco is there, for anything but a timeout.
        """

    def set(self, value: Any) -> Any:
        """Set the remote attribute."""

    def connect(self, slot: Slot, policy: Policy | None = None) -> Any:
        """Call ``slot`` at every emission of the remote signal, one call at a time, in order.

        Args:
            slot: callable of as many arguments as it wants; runs in a thread of this proxy. At the awaitable
                face a coroutine function runs in the event loop of the caller, as long as that exists.
            policy: what happens when the slots are slower than the signal; default drop(10 000).
        """

    def disconnect(self, slot: Slot | None = None) -> Any:
        """Stop calling ``slot``, or every slot of this proxy.

        Raises:
            ValueError: when it was not connected through this proxy.
        """

    def subscribe(self, policy: Policy | None = None) -> Any:
        """Notifications of the remote signal from now on, as a `Subscription`; close it at the end.

        Args:
            policy: what happens when the reader is slower than the signal; default drop(10 000).

        Raises:
            TypeError: for a member that is no signal.
        """


_CALLED, _ITEMS, _SIGNAL = ("method", "remote"), ("items", "remote"), ("signal", "remote")

OPERATIONS: tuple[Operation, ...] = (
    Operation("__call__", "__call__", "call", _CALLED, Patterns.call_),
    Operation("future", "", "future", _CALLED, Patterns.future),
    Operation("oneway", "oneway", "oneway", _CALLED, Patterns.oneway),
    Operation("options", "options", "options", ("method", "items", "remote"), Patterns.options),
    Operation("", "set", "set", ("property", "value", "remote"), Patterns.set),
    Operation("__getitem__", "__getitem__", "exec", _ITEMS, Patterns.getitem_),
    Operation("__setitem__", "set_item", "exec", _ITEMS, Patterns.setitem_),
    Operation("__delitem__", "delete_item", "exec", _ITEMS, Patterns.delitem_),
    Operation("__len__", "length", "exec", _ITEMS, Patterns.len_),
    Operation("__contains__", "contains", "exec", _ITEMS, Patterns.contains_),
    Operation("__iter__", "", "iter", _ITEMS, Patterns.len_),
    Operation("keys", "keys", "exec", _ITEMS, Patterns.keys),
    Operation("values", "values", "exec", _ITEMS, Patterns.values),
    Operation("items", "items", "exec", _ITEMS, Patterns.items),
    Operation("get", "get", "exec", _ITEMS, Patterns.get),
    Operation("copy", "copy", "exec", _ITEMS, Patterns.copy),
    Operation("__enter__", "__aenter__", "exec", (), Patterns.enter_),
    Operation("__exit__", "__aexit__", "exec", (), Patterns.exit_),
    Operation("connect", "connect", "connect", _SIGNAL, Patterns.connect),
    Operation("disconnect", "disconnect", "disconnect", _SIGNAL, Patterns.disconnect),
    Operation("subscribe", "subscribe", "subscribe", _SIGNAL, Patterns.subscribe),
    Operation("emit", "emit", "emit", _SIGNAL, Patterns.emit),
)  # fmt: skip

AWAITED = {each.awaited: each for each in OPERATIONS if each.awaited}
"""Rows by their name at the awaitable face."""

CALLED = {each.name: each for each in OPERATIONS if each.name in ("future", "oneway", "options")}
"""What something that can be called offers beside its members, where none of these has the name."""


def offered(kind: object, *, awaited: bool = False) -> set[str]:
    """Names of the operations that a member of a kind offers; of all for an unknown kind."""
    known = any(kind in each.kinds for each in OPERATIONS)
    rows = [each for each in OPERATIONS if not known or kind in each.kinds]
    return {each.awaited if awaited else each.name for each in rows} - {""}


def special(name: str) -> bool:
    """True for what Python itself calls, as ``len`` and ``[]`` do."""
    return name.startswith("__")


def made_of(rows: Iterable[Operation], *, awaited: bool = False) -> Callable[[Cls], Cls]:
    """Class decorator: gives a face the methods of some rows.

    The class has ``_do_exec(operation, args)``, which does the work of rows of that handler, and a method
    ``_do_NAME`` for every other one.
    """

    def make(cls: Cls) -> Cls:
        for row in rows:
            name = row.awaited if awaited else row.name
            if name and name not in vars(cls):
                setattr(cls, name, _method(cls, name, row))
        return cls

    return make


def _method(cls: type, name: str, row: Operation) -> Callable[..., Any]:
    handler: Any = getattr(cls, f"_do_{row.handler}")
    if row.handler == "exec":
        pattern = row.pattern

        def operate(self: Any, *args: Any, **kwargs: Any) -> Any:
            return handler(self, row, pattern(self, *args, **kwargs))

        made: Any = operate
    else:
        made = types.FunctionType(
            handler.__code__, handler.__globals__, name, handler.__defaults__, handler.__closure__
        )
        made.__kwdefaults__ = handler.__kwdefaults__
    made.__name__, made.__qualname__ = name, f"{cls.__qualname__}.{name}"
    made.__module__, made.__doc__, made.__wrapped__ = cls.__module__, row.pattern.__doc__, row.pattern
    return made
