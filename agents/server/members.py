"""Members: what there is of one object, and what may be done with it.

::

    kind       what it is                                    a peer may
    method     function, or a class                          call
    signal     has connect, disconnect and emit              subscribe, emit
    items      mutable mapping or sequence attribute         get and set items, len, iterate
    property   descriptor on the class                       get, set
    value      anything else that goes by value              get, set
    reference  anything else                                 use its members; call it, when it can be called

Classification looks at the class and the instance dictionary and never runs a property: reading one may move
hardware.

What is not there cannot be set. There is what the class, its bases, slots or the instance have, what the
object names in ``dir``, and, when its class has a ``__getattr__`` or ``__getattribute__`` of its own, what
that answers to. A ``__setattr__`` alone says nothing of which names there are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, cast

from ...protocol.errors import MemberRefused, OperationRefused
from ...protocol.keyring import Key, Keyring
from ...protocol.shown import hint, shown
from ...protocol.values import PLAIN, TRAVELLING, first_reference
from ...transport.settings import Settings
from ...transport.wire import Protocol

logger = logging.getLogger("pzc.members")

METHOD_MAKERS = (staticmethod, classmethod, functools.partialmethod, functools.singledispatchmethod)
_FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType,
    functools.partial, type,
)  # fmt: skip
CLOSED: tuple[type[Any], ...] = (
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.FrameType,
    types.CodeType, types.TracebackType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType,
    functools.partial, Key, Keyring, Protocol, Settings,
)  # fmt: skip
"""Types whose attributes lead out of an instrument, or to secrets."""

_SIGNAL = ("connect", "disconnect", "emit")

MISSING = object()
_NOTHING: dict[str, object] = {}
_MOST_KNOWN = 4096

_settable: dict[tuple[type, str], None] = {}


def kind_of(value: object) -> str:
    """Kind of an attribute's value for those that read no references: ``reference`` is method or value."""
    if type(value) in TRAVELLING:  # whose attributes are somebody else's
        return "value"
    if is_signal(value):
        return "signal"
    if isinstance(value, MutableMapping | MutableSequence) and not isinstance(value, bytearray):
        return "items"
    return "method" if callable(value) else "value"


def kind_told(value: object) -> str:
    """Kind of an attribute's value; see the table."""
    kind = kind_of(value)
    if kind == "method":
        return "method" if isinstance(value, _FUNCTIONS) else "reference"
    if kind == "value" and type(value) not in PLAIN and first_reference(value) is not None:
        return "reference"
    return kind


def is_signal(value: object) -> bool:
    """True for what can be connected to; nothing of it runs, and what answers to every name is none."""
    return all(callable(inspect.getattr_static(value, name, None)) for name in _SIGNAL)


def items_of(value: object) -> str:
    """``mapping`` or ``sequence`` for what has items, else empty."""
    cls = type(value)
    if not hasattr(cls, "__getitem__") or isinstance(value, type):
        return ""
    is_mapping = isinstance(value, Mapping) or (hasattr(cls, "keys") and not isinstance(value, Sequence))
    return "mapping" if is_mapping else "sequence"


def check_missing(target: object, name: str, error: AttributeError) -> None:
    """Judge what reading a member raised; the name is one that peers may use.

    Raises:
        MemberRefused: when there is no such member, with the nearest names.
    """
    if is_dynamic(type(target)) or inspect.getattr_static(target, name, MISSING) is not MISSING:
        return
    raise missing(target, name, "") from error


def put(target: object, name: str, value: object) -> None:
    """Set a member of an object; the name is one that peers may use.

    Raises:
        MemberRefused: for a method or signal, which a peer may not replace, for what is not there, with the
            nearest names, for what has no members of its own, and for a value in the place of what is held.
        Exception: what setting it raised.
    """
    if (type(target), name) not in _settable:
        _check_put(target, name, value)
    setattr(target, name, value)


def _check_put(target: object, name: str, value: object) -> None:
    if isinstance(target, CLOSED) or type(target) in PLAIN:
        raise MemberRefused(f"a {type(target).__name__} has no members that can be set, such as {name!r}")
    cls = type(target)
    static: object = getattr(cls, name, MISSING)
    if isinstance(static, property):
        if static.fset is not None:
            if len(_settable) >= _MOST_KNOWN:
                _settable.clear()
            _settable[cls, name] = None
        return
    if not is_dynamic(cls) and type(getattr(target, "__dict__", _NOTHING).get(name, MISSING)) in PLAIN:
        return
    kind = _kind_to_put(target, name)
    if kind in ("method", "signal"):
        raise MemberRefused(f"{name!r} is a {kind} and cannot be set")
    if kind == "reference" and not hasattr(type(static), "__set__") and first_reference(value) is None:
        held = getattr(target, name)
        how = f"; to give it a value, call it: {name}({shown(value, 20)})" if callable(held) else ""
        raise MemberRefused(f"{name!r} is a {type(held).__name__}, which no value can take the place of{how}")


def _kind_to_put(target: object, name: str) -> str:
    static = inspect.getattr_static(target, name, MISSING)
    if static is not MISSING:
        try:
            return _kind(target, name, static, kind_told)
        except AttributeError:  # a slot that is empty
            return "value"
    value = getattr(target, name, MISSING) if is_dynamic(type(target)) else MISSING
    if value is not MISSING:
        return kind_told(value)
    if name in dir(target):
        return "value"
    raise missing(target, name, " cannot be set")


def missing(target: object, name: str, what: str) -> MemberRefused:
    """The error that says that there is no such member, and which names are nearest."""
    near = hint(name, names(target), most=3, otherwise="it has")
    return MemberRefused(f"{name!r}{what}: {type(target).__name__} has no such member; {near}")


_CANNOT = {
    "__call__": "which cannot be called",
    "__getitem__": "which has no items",
    "__setitem__": "which has no items that can be set",
    "__delitem__": "which has no items that can be deleted",
    "__len__": "which has no length",
    "__iter__": "which cannot be iterated over",
    "__contains__": "in which nothing can be looked for",
    "__enter__": "which is no context manager",
}


def not_allowed(name: str, thing: object, method: object) -> MemberRefused:
    """The error that says that this cannot be done with a thing."""
    what, kind = repr(name) if name else "what is served", kind_told(thing)
    cannot = _CANNOT.get(method, "") if isinstance(method, str) else ""
    offers = "; it has connect, disconnect, emit, subscribe" if kind == "signal" else ""
    return (OperationRefused if cannot else MemberRefused)(
        f"{what} is a {type(thing).__name__ if kind in ('reference', 'value') else kind}, "
        f"{cannot or f'which does not allow {shown(method, 60)}'}{offers}"
    )


def names(target: object) -> list[str]:
    """Public names of an object in alphabetical order."""
    return [name for name in dir(target) if not name.startswith("_")]


def is_computed(target: object, name: str) -> bool:
    """True when reading a member runs code of its class, so that what it gives is a copy, or made for it."""
    static = inspect.getattr_static(target, name, MISSING)
    return static is MISSING or _runs(static)


def _runs(static: object) -> bool:
    computed = inspect.isdatadescriptor(static) or (hasattr(type(static), "__get__") and not callable(static))
    return computed and not inspect.ismemberdescriptor(static)


def _kind(target: object, name: str, static: object, of: Callable[[object], str]) -> str:
    if isinstance(static, METHOD_MAKERS):
        return "method"
    return "property" if _runs(static) else of(getattr(target, name))


def kinds(target: object, among: Iterable[str], of: Callable[[object], str]) -> dict[str, str]:
    """Kinds of the members of those names, without running a property; what cannot be looked at is left out.

    Args:
        target: whose members.
        among: their names.
        of: `kind_told`, or `kind_of` for those that read no references.
    """
    found: dict[str, str] = {}
    for name in among:
        try:
            found[name] = _kind(target, name, inspect.getattr_static(target, name), of)
        except Exception as exc:  # a member that cannot be looked at must not hide the others
            logger.debug("member %s cannot be classified: %r", name, exc)
    return found


def still(target: object, name: str) -> object:
    """A member as it can be had without running any code; `MISSING` when it cannot."""
    static = inspect.getattr_static(target, name, MISSING)
    if inspect.ismemberdescriptor(static):
        with contextlib.suppress(AttributeError):  # empty
            return static.__get__(target)  # getattr would run a __getattribute__ of its class
        return MISSING
    return MISSING if static is MISSING or _runs(static) else static


def bare(static: object) -> object:
    """The function that a method is made of."""
    while isinstance(static, staticmethod | classmethod | functools.partialmethod | types.MethodType):
        made = cast(Any, static)
        static = made.func if isinstance(static, functools.partialmethod) else made.__func__
    return static


def is_dynamic(cls: type) -> bool:
    """True when a class answers to names that nobody lists."""
    own = cls.__getattribute__ is not object.__getattribute__
    return own or hasattr(cls, "__getattr__")
