"""Exceptions as plain data: the one form in which a raised exception, and one that is a value, travels.

========= =============================================================================================
``type``  qualified name of its class
``base``  the nearest of Python's own exceptions, such as ``ValueError``
``text``  ``str(error)``, at most `MOST` characters
``notes`` its notes
``more``  MessagePack of arguments, attributes, cause, context, whether the context is hidden, members
          of a group; what does not fit into `MOST` bytes, or has no kind, is there as text or not at all
========= =============================================================================================

A receiver that has the class makes an exception of it without calling its constructor, which may take other
arguments than those that it keeps. Any other receiver makes a `RemoteError` that is also of the base, so that
``except ValueError`` works. Whatever an exception carries, its type and text arrive.
"""

from __future__ import annotations

import builtins
import functools
from typing import Any, cast

from . import kinds, msgpack, msgpack_check
from .errors import DecodeError, RemoteError
from .lazily import is_array
from .shown import shown

MOST = 1 << 16
"""Bytes that an exception carries beside its text, and characters of that."""

_LEVELS = 8
_ITEM = 16
_BASES = {
    name: cls
    for name, cls in vars(builtins).items()
    if isinstance(cls, type)
    and issubclass(cls, Exception)
    # A RemoteError is one of the first two; the others need arguments, or steer an iteration.
    and not issubclass(RemoteError, cls)
    and not issubclass(cls, UnicodeError | StopIteration | StopAsyncIteration | BaseExceptionGroup)
}


def text_of(error: BaseException) -> str:
    """Return ``str(error)``, cut to `MOST` characters, also for an exception that cannot say what it is."""
    try:
        text = str(error)
    except Exception as exc:
        return f"<no text: {type(exc).__name__}>"
    return text if len(text) <= MOST else f"{text[:MOST]}... ({len(text)} characters)"


def args_of(error: BaseException) -> tuple[object, ...]:
    """Return the arguments of an exception, also where its class has another ``args``."""
    return cast("Any", BaseException.args).__get__(error)


def write(error: BaseException, levels: int = _LEVELS) -> dict[str, object]:
    """Return an exception as plain data.

    Args:
        error: of any class.
        levels: causes, contexts and members inside one another that are kept.
    """
    cls = type(error)
    base = next((each.__name__ for each in cls.__mro__ if _BASES.get(each.__name__) is each), "")
    return {
        "type": kinds.qualified(cls),
        "base": base,
        "text": text_of(error),
        "notes": _notes(error),
        "more": _more(error, levels - 1),
    }


def _notes(error: BaseException) -> list[str]:
    notes: object = vars(error).get("__notes__", [])
    room, kept = MOST, list[str]()
    for note in cast("list[object]", notes) if isinstance(notes, list) else [shown(notes)]:
        if isinstance(note, str) and room > 0:
            kept.append(note[:room])
            room -= len(note)
    return kept


def _more(error: BaseException, levels: int) -> bytes:
    raised, attributes = cast("Any", error), cast("dict[str, object]", vars(error))
    # The name of a file stands beside the arguments of an OSError.
    args: tuple[Any, ...] = (
        cast("Any", OSError).__reduce__(raised)[1] if isinstance(error, OSError) else args_of(error)
    )
    members: list[Any] = []
    if isinstance(error, BaseExceptionGroup):
        args, members = args[:1], [write(each, levels) for each in raised.exceptions if levels > 0]
    cause, context, hidden = error.__cause__, error.__context__, error.__suppress_context__
    chain = [
        None if each is None or levels <= 0 else write(each, levels)
        for each in (cause, None if context is cause else context)
    ]
    kept = [_kept(arg) for arg in args[: MOST // _ITEM]]
    state = {name: _kept(value) for name, value in attributes.items() if _settable(raised, name)}
    text = [text_of(raised)]
    forms: list[list[Any]] = [
        [kept, state, *chain, hidden, members],
        [text, {}, *chain, hidden, members],
        [text, {}, None, None, hidden, []],
    ]
    for parts in forms:
        packed = msgpack.pack(parts)
        if len(packed) <= MOST:
            return packed
    return b""


def _kept(value: object) -> object:
    """A value that is small and has a kind; of all others what they look like."""
    try:
        if _size(value, MOST) <= MOST and len(msgpack.pack(value)) <= MOST:
            return value
    except Exception:  # a value of a class that lies about itself, or one without a kind
        return shown(value, 1000)
    return shown(value, 1000)


def _size(value: Any, room: int) -> int:
    """Roughly the bytes of a value, or more than ``room``; the work is bounded by that."""
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() >> 3
    if is_array(value):
        return value.nbytes
    if isinstance(value, dict | list | tuple | set | frozenset):
        held = cast("Any", value)
        size = _ITEM * len(held)
        if size > room:
            return size
        for each in [*held, *held.values()] if isinstance(value, dict) else held:
            if (size := size + _size(each, room - size)) > room:
                return size
        return size
    return _ITEM


def _settable(error: BaseException, name: str) -> bool:
    """Whether an attribute of that name may be set without running code."""
    there = getattr(type(error), name, None)
    # A property would run its setter; `args` would turn its value into a tuple, whatever its size.
    return not (name.startswith("__") or name == "args" or callable(there) or isinstance(there, property))


def read(form: object) -> Exception:
    """Return the exception that `write` described.

    Raises:
        ValueError, TypeError, DecodeError: the form is malformed.
    """
    fields = cast("dict[str, Any]", form)
    name, text, notes = fields["type"], str(fields["text"]), fields["notes"]
    args, state, cause, context, suppress, members = _unpacked(fields["more"], text)
    if {type(each) for each in (notes, args, members)} != {list}:  # a range may be endless
        raise DecodeError("malformed exception")
    held = [read(member) for member in members]
    error = _rebuilt(str(name), args, state, held)
    if error is None:
        error = remote_error(str(fields["base"]), str(name), text)
    elif text not in text_of(error):
        error.add_note(text)
    for note in cast("list[object]", notes):
        error.add_note(str(note))
    error.__cause__ = None if cause is None else read(cause)
    error.__context__ = error.__cause__ if context is None else read(context)
    error.__suppress_context__ = bool(suppress)
    return error


def _unpacked(packed: object, text: str) -> list[Any]:
    # A longer one, which `write` never makes, could hold ever shorter ones: each would be copied.
    raw = cast("bytes", packed)
    if isinstance(packed, bytes | bytearray | memoryview) and len(raw) <= MOST:
        try:
            msgpack_check.check(raw)
            args, state, cause, context, hidden, members = msgpack.unpack(raw)
        except Exception:  # an argument whose class is not here, or what a stranger made up
            return [[text], {}, None, None, False, []]
        return [args, state, cause, context, hidden, members]
    return [[text], {}, None, None, False, []]


def _rebuilt(name: str, args: Any, state: Any, members: list[Exception]) -> Exception | None:
    """An exception of a class that this process has; None where there is none, or code would run."""
    cls = kinds.loaded(name)
    if cls is None or not issubclass(cls, Exception):
        return None
    for special in ("__new__", "__setattr__"):
        home = next(base for base in cls.__mro__ if special in vars(base))
        if home.__module__ != "builtins":
            return None
    base: Any = next(each for each in cls.__mro__ if each.__module__ == "builtins")
    try:
        args = (args[0], members) if issubclass(cls, BaseExceptionGroup) else args
        made: Exception = cast("Any", cls).__new__(cls, *args)
        base.__init__(made, *args)
        for attribute, value in state.items():
            if _settable(made, attribute):
                setattr(made, attribute, value)
    except Exception:
        return None
    return made


def remote_error(base: str, name: str, text: str, trace: str = "") -> RemoteError:
    """Return a `RemoteError`, which is also of one of Python's own exceptions where ``base`` names one."""
    cls = _BASES.get(base)
    return (RemoteError if cls is None else _remote_class(cls))(name, text, trace)


@functools.cache
def _remote_class(cls: type[Exception]) -> type[RemoteError]:
    def reduce(error: RemoteError) -> tuple[Any, ...]:
        return remote_error, (cls.__name__, error.type_name, error.text, error.remote_traceback)

    names = {"__module__": RemoteError.__module__, "__str__": RemoteError.__str__, "__reduce__": reduce}
    return type("RemoteError", (RemoteError, cls), names)


kinds.add(Exception, "exception", write, read)
