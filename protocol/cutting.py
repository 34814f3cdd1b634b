"""Cutting: an exception is sent with its text whatever it carries, so what it carries is bounded first.

::

    carried                              kept
    numbers, texts, bytes                up to `MOST` bytes together; what exceeds that is cut
    arrays                               likewise, else a text that says dtype and shape
    tuples, lists, dicts, sets           likewise by their items, else a text that shows the first ones
    causes, contexts, members of groups  up to 16 deep, each of them cut
    anything else                        as it is

An exception whose class makes its text in Python keeps its arguments: that text may need any of them.
"""

from __future__ import annotations

import operator
from collections import deque
from types import FunctionType
from typing import Any, cast

from .errors import RemoteError
from .exceptions import args_of, qualified, settable
from .lazily import numpy_kind
from .shown import shown
from .weighing import ATOMS

MOST = 1 << 16
"""Bytes that an exception carries at most, and characters of its text."""

_LEVELS = 16
_TEXTS = (str, bytes, bytearray)
_CONTAINERS = (tuple, list, dict, set, frozenset, deque)
_LARGE_BITS = 1024
_ITEM = 8


def cut(error: BaseException) -> BaseException:
    """The exception itself, or a copy that carries less."""
    return _Cut().exception(error, _LEVELS) or error


def text_of(error: BaseException) -> str:
    """``str(error)``, cut to `MOST` characters, also for an exception that cannot say what it is."""
    try:
        text = str(error)
    except Exception as exc:
        return f"<no text: {type(exc).__name__}>"
    return text if len(text) <= MOST else f"{text[:MOST]}... ({len(text)} characters)"


def parts_of(error: BaseException) -> dict[str, object]:
    """Arguments and attributes of an exception for `exceptions.rebuilt`, cut, as atoms and lists of these."""
    cutter = _Cut()
    state = {
        name: _atoms(cutter.value(value, _LEVELS))
        for name, value in vars(error).items()
        if settable(error, name, value)
    }
    return {"args": [_atoms(cutter.value(arg, _LEVELS)) for arg in args_of(error)], "state": state}


def _atoms(value: object) -> object:
    if type(value) in (list, tuple):
        return [_atoms(item) for item in cast("list[object]", value)]
    return value if type(value) in ATOMS else shown(value, 1000)


class _Cut:
    def __init__(self) -> None:
        self._left = MOST
        self._made: dict[int, BaseException | None] = {}

    def exception(self, error: BaseException | None, levels: int) -> BaseException | None:
        if error is None or not levels:
            return None
        if id(error) in self._made:  # None while it is under way: a cycle ends here
            return self._made[id(error)]
        self._made[id(error)] = None
        self._made[id(error)] = made = self._exception(error, levels - 1)
        return made

    def _exception(self, error: BaseException, levels: int) -> BaseException:
        cause, context = error.__cause__, error.__context__
        args, state = args_of(error), vars(error)
        if not isinstance(type(error).__str__, FunctionType):
            args = tuple(self.value(each, levels) for each in args[: MOST // _ITEM])
            state = {name: self.value(value, levels) for name, value in state.items()}
        if not isinstance(notes := state.get("__notes__", []), list):
            state = {**state, "__notes__": [shown(notes)]}
        chain = self.exception(cause, levels), self.exception(context, levels)
        now = (*chain, *args, *state.values())
        before = (cause, context, *args_of(error), *vars(error).values())
        if len(now) == len(before) and all(map(operator.is_, now, before)):
            return error
        made = _copy(error, args, state)
        made.__cause__, made.__context__ = chain
        made.__suppress_context__ = error.__suppress_context__
        return made.with_traceback(error.__traceback__)

    def value(self, value: Any, levels: int) -> Any:
        kind = cast("type[Any]", type(value))
        if isinstance(value, BaseException):
            return self.exception(value, levels) or shown(value)
        if kind in _TEXTS:
            kept = value if len(value) <= self._left else value[: self._left // 2]  # room for the next ones
            self._left -= len(kept)
            return kept
        if kind is int:
            return value if value.bit_length() <= _LARGE_BITS else shown(value)
        if kind in _CONTAINERS:
            return self._container(value, levels)
        if numpy_kind(kind):
            self._left -= (size := min(value.nbytes, self._left + 1))
            return value if size == value.nbytes and self._left >= 0 else shown(value)
        return value

    def _container(self, value: Any, levels: int) -> Any:
        if not levels or len(value) * _ITEM > self._left:
            return shown(value)
        self._left -= len(value) * _ITEM
        kind: object = cast("object", type(value))
        items: list[Any] = [*value, *value.values()] if kind is dict else [*value]
        kept: Any = [self.value(each, levels - 1) for each in items]
        if all(a is b for a, b in zip(items, kept, strict=True)):
            return value
        return tuple(kept) if kind is tuple else kept if kind is list else shown(value)


def _copy(error: BaseException, args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    cls = type(error)
    base: Any = next(each for each in cls.__mro__ if each.__module__ == "builtins")
    if isinstance(error, OSError) and args == args_of(error):  # which keeps the name of a file elsewhere
        args = cast("tuple[Any, ...]", OSError.__reduce__(error)[1])
    try:
        made = cls.__new__(cls, *args)
        base.__init__(made, *args)  # the class's own constructor may take other arguments
        vars(made).update(state)
    except Exception:
        return RemoteError(qualified(cls), text_of(error))
    return made
