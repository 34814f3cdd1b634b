"""Which exceptions may be rebuilt from bytes nobody signed, how, and their form without pickle."""

from __future__ import annotations

import binascii
import builtins
import concurrent.futures
import decimal
import json
import operator
import queue
import struct
import sys
from types import FunctionType, ModuleType
from typing import Any, cast

from . import errors
from .errors import DecodeError, RemoteError

_MOST_PARTS = 32
"""Parts of the qualified name of a class; to look for more takes time in the square of them."""


def _standard() -> dict[str, type[Exception]]:
    found: list[type[Exception]] = [
        concurrent.futures.CancelledError,
        concurrent.futures.InvalidStateError,
        concurrent.futures.BrokenExecutor,
        json.JSONDecodeError,
        struct.error,
        binascii.Error,
        queue.Empty,
        queue.Full,
        decimal.InvalidOperation,
        decimal.DivisionByZero,
    ]
    for module in (builtins, errors):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Exception):
                found.append(value)
    return {qualified(cls): cls for cls in found}


def qualified(cls: type) -> str:
    """Return ``module.qualname`` of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def build(cls: type[Exception], args: tuple[object, ...]) -> Exception:
    """Return ``cls(*args)`` for arguments that came from the wire.

    Raises:
        DecodeError: arguments that no pickled exception has, or that the class does not take.
    """
    # Some constructors turn an argument into a tuple; a range of 1e10 must not get that far.
    if any(type(arg) is range for arg in args):
        raise DecodeError(f"a range cannot be an argument of {cls.__name__}")
    try:
        return cls(*args)
    except Exception as error:
        raise DecodeError(f"{cls.__name__} cannot be rebuilt: {type(error).__name__}") from error


def set_state(error: Exception, state: object) -> None:
    """Set the instance attributes that a pickled exception carries.

    Raises:
        DecodeError: not a dict of plain attribute names, or a name that is a method or special.
    """
    if type(state) is not dict:
        raise DecodeError("the state of an exception must be a dict")
    for name, value in cast("dict[object, object]", state).items():
        if type(name) is not str:
            raise DecodeError("the name of an attribute must be a string")
        if name == "args" and _are_args(error, value):
            continue  # from Python 3.12 on, an AttributeError tells them twice
        if not settable(error, name, value):
            raise DecodeError(f"attribute {name[:40]!r} of {type(error).__name__} cannot be set")
        setattr(error, name, value)


def _are_args(error: BaseException, value: object) -> bool:
    """True for the very arguments that it was made of."""
    if type(value) is not tuple:
        return False
    told = cast("tuple[object, ...]", value)
    return len(told) == len(error.args) and all(map(operator.is_, told, error.args))


def settable(error: BaseException, name: str, value: object) -> bool:
    """Whether an attribute of that name and value may be set without running code."""
    if name == "__notes__":
        return type(value) is list and all(type(note) is str for note in cast("list[object]", value))
    there = getattr(type(error), name, None)
    # `args` would turn its value into a tuple, whatever its size; a property would run its setter.
    return not (name.startswith("__") or name == "args" or callable(there) or isinstance(there, property))


def to_portable(error: Exception) -> dict[str, object]:
    """Return the exception as plain data: ``type``, ``text``, ``args`` and ``state``.

    Arguments that are not plain become their ``repr``.
    """
    name = qualified(type(error))
    args: tuple[object, ...] = error.args
    if REBUILT.get(name) is type(error):
        args = cast("tuple[type, tuple[object, ...]]", error.__reduce__())[1]
    return {
        "type": name,
        "text": str(error),
        "args": [_plain(arg) for arg in args],
        "state": {n: _plain(value) for n, value in vars(error).items() if settable(error, n, value)},
    }


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str, bytes, Exception)):
        return value
    if type(value) in (list, tuple):
        return [_plain(item) for item in cast("list[object]", value)]
    return repr(value)


def formats(cls: type[Exception]) -> bool:
    """Whether the constructor of a class makes a text of its arguments, as only those in Python do."""
    return isinstance(cls.__init__, FunctionType)


def loaded(name: str) -> type | None:
    """A class by its qualified name, when this process has it already; nothing is imported, no code runs."""
    parts = name.split(".")
    if len(parts) > _MOST_PARTS:
        return None
    for cut in range(len(parts) - 1, 0, -1):
        found: object = sys.modules.get(".".join(parts[:cut]))
        if found is not None:
            for part in parts[cut:]:
                found = vars(found).get(part) if isinstance(found, (type, ModuleType)) else None
            return found if isinstance(found, type) and qualified(found) == name else None
    return None


def args_of(error: BaseException) -> tuple[object, ...]:
    """Arguments of an exception, also where its class has another ``args``."""
    return cast("Any", BaseException.args).__get__(error)


def rebuilt(name: str, parts: dict[str, object]) -> Exception | None:
    """An exception of a class that this process has, as it was; None where there is none, or code would run.

    Its constructor is not called: many take other arguments than those that they keep.

    Raises:
        DecodeError: as `set_state`.
    """
    cls, args, state = loaded(name), parts.get("args"), parts.get("state")
    if cls is None or not issubclass(cls, Exception) or not isinstance(args, (list, tuple)):
        return None
    for special in ("__new__", "__setattr__"):
        home = next(base for base in cls.__mro__ if special in vars(base))
        if home.__module__ != "builtins":
            return None
    error = cls.__new__(cls, *cast("list[object]", args))
    BaseException.__init__(error, *cast("list[object]", args))
    set_state(error, state)
    return error


def from_portable(form: object) -> Exception:
    """Return the exception that :func:`to_portable` described.

    A class that is not in the table gives a :class:`RemoteError` with its name and text.

    Raises:
        DecodeError: the form is malformed.
    """
    if not isinstance(form, dict):
        raise DecodeError("an exception must be an object")
    fields = cast("dict[str, object]", form)
    name, text, args, state = (fields.get(key) for key in ("type", "text", "args", "state"))
    if not (
        isinstance(name, str) and isinstance(text, str) and isinstance(args, list) and isinstance(state, dict)
    ):
        raise DecodeError("malformed exception")
    cls = REBUILT.get(name)
    if cls is None:
        return RemoteError(name, text)
    error = build(cls, tuple(cast("list[object]", args)))
    set_state(error, cast("dict[str, object]", state))
    return error


REBUILT: dict[str, type[Exception]] = _standard()
"""Exceptions that come back as themselves, by qualified name; ``register_class`` adds to it."""
