"""What an unsigned pickle may name, and how each name is built from arguments that nobody vouches for.

Every rule takes the running machine (for its budget) and the argument tuple, checks types exactly, and builds
with public constructors only. A class without a rule may be mentioned but not called.
"""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, TypeVar, cast

from . import data_libraries, exceptions, portable, unpickle_numpy
from .errors import ConfigError, DecodeError, SerializerRefused
from .lazily import is_array, np
from .unpickle_base import Args, Draft, Meter, Name, Rule, expect
from .unpickle_enums import COMPARED, member

C = TypeVar("C", bound=type)

_MAX_DIGITS = 4300
_INSTANCE = 256  # what a library takes to make one of its instances
_RATIO = re.compile(r"-?\d{1,4300}(/\d{1,4300})?")


def register_class(
    cls: C, *, encode: Callable[[Any], object] | None = None, decode: Callable[[Any], object] | None = None
) -> C:
    """Have instances of ``cls`` go by value, also in pickles that nobody signed; usable as a decorator.

    The constructor, ``__setstate__`` and ``__hash__`` of the class, or ``decode``, then run on arguments that
    anybody on the network can choose: register data classes, not classes that touch files or devices.

    Args:
        cls: a class that is importable by its module and qualified name. An exception class is from then on
            also rebuilt from json and msgpack.
        encode: gives what json and msgpack send for an instance: plain data, or anything else that they send.
            Default none: these two refuse instances, and pickle takes them as they are.
        decode: gives the instance back; both sides need it.

    Raises:
        ConfigError: not a class, or one made inside a function; one hook without the other; or hooks of a
            class that json and msgpack send as what it is derived from, such as a subclass of dict.
    """
    if not isinstance(cast(object, cls), type) or "<locals>" in cls.__qualname__:
        raise ConfigError(f"{cls!r} is not a class that a pickle can name")
    if encode is not None and decode is not None:
        portable.add_class(cls, exceptions.qualified(cls), encode, decode)
    elif encode is not None or decode is not None:
        raise ConfigError(f"register_class({cls.__qualname__}) needs both encode and decode, or neither")
    REGISTERED[cls.__module__, cls.__qualname__] = cls
    if issubclass(cls, Exception):
        exceptions.REBUILT[exceptions.qualified(cls)] = cls
    return cls


def allow(function: Callable[[str], object]) -> None:
    """Let unsigned pickles call a function of one text, which anybody on the network can choose then."""

    def build(_meter: Meter, args: Args) -> object:
        expect(args, str)
        return function(cast(str, args[0]))

    module, name = function.__module__, function.__qualname__
    _ALLOWED[module, name] = Name(f"{module}.{name}", build)


def find(module: str, name: str) -> object:
    """Return what a pickle may name so: a class or a :class:`Name`. Only exact names are looked up.

    Raises:
        SerializerRefused: nothing of that name is allowed.
    """
    module = _OLD_MODULES.get(module, module)
    name = _OLD_NAMES.get((module, name), name)
    if module.partition(".")[0] == "numpy":
        _allow_numpy()
    found = _ALLOWED.get((module, name)) or REGISTERED.get((module, name))
    if found is None:
        found = exceptions.REBUILT.get(f"{module}.{name}") or _loaded_enum(f"{module}.{name}")
    if found is None:
        raise SerializerRefused(
            f"an unsigned pickle may not contain {module[:80]}.{name[:80]}; "
            "sign messages with a key, or allow the class with register_class"
        )
    return found


def _loaded_enum(name: str) -> object:
    cls = exceptions.loaded(name)
    if cls is None or not issubclass(cls, enum.Enum):
        return None
    return Name(name, lambda _meter, args: member(cls, args, COMPARED))


_NONE = type(None)
_PATHS = (pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
_ADDRESSES = (
    ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network,
    ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network,
)  # fmt: skip
_TIMES = (dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone)
_TIME_ARGUMENTS = (bytes, str, int, _NONE, dt.timezone, dt.timedelta, zoneinfo.ZoneInfo)


def _encode(_meter: Meter, args: Args) -> object:
    expect(args, str, str)
    text, encoding = cast("tuple[str, str]", args)
    if encoding not in ("latin1", "latin-1"):
        raise DecodeError("only latin1 is used inside pickles")
    return text.encode("latin-1")


def _bytes(_meter: Meter, args: Args) -> object:
    if args:
        expect(args, bytes)
    return bytes(*cast("tuple[bytes, ...]", args))


def _bytearray(meter: Meter, args: Args) -> object:
    if len(args) == 2:
        args = (_encode(meter, args),)
    if args:
        expect(args, (bytes, bytearray))
    return bytearray(*cast("tuple[bytes, ...]", args))


def _range(_meter: Meter, args: Args) -> object:
    expect(args, int, int, int)
    return portable.limited_range(*cast("tuple[int, int, int]", args))


def _collection(kind: type) -> Rule:
    def build(meter: Meter, args: Args) -> object:
        if args:
            expect(args, (list, tuple, set, frozenset))
            meter.check_keys(cast("Collection[object]", args[0]))
        return kind(*args)

    return build


def _exactly(kind: type, *types: type | tuple[type, ...]) -> Rule:
    def build(_meter: Meter, args: Args) -> object:
        expect(args, *types)
        return kind(*args)

    return build


def _any_number(kind: type, *types: type) -> Rule:
    def build(_meter: Meter, args: Args) -> object:
        expect(args, *(types for _ in args))
        return kind(*args)

    return build


def _counter(meter: Meter, args: Args) -> object:
    counter: collections.Counter[object] = collections.Counter()
    if args:
        expect(args, dict)
        meter.check_keys(cast("dict[object, object]", args[0]))
        for key, count in cast("dict[object, int]", args[0]).items():
            counter[key] = count
    return counter


def _deque(_meter: Meter, args: Args) -> object:
    if not args:
        return collections.deque[object]()
    if len(args) == 1:
        args = (args[0], None)
    expect(args, (list, tuple), (_NONE, int))
    return collections.deque(*cast("tuple[list[object], int | None]", args))


def _defaultdict(_meter: Meter, args: Args) -> object:
    factory = args[0] if args else None
    if len(args) > 1 or not (factory is None or any(factory is kind for kind in _FACTORIES)):
        raise SerializerRefused("an unsigned pickle may only contain a defaultdict of plain types")
    return collections.defaultdict[object, object](cast("type | None", factory))


def _decimal(_meter: Meter, args: Args) -> object:
    expect(args, str)
    if len(cast(str, args[0])) > _MAX_DIGITS:
        raise DecodeError("a Decimal has too many digits")
    return decimal.Decimal(cast(str, args[0]))


def _fraction(meter: Meter, args: Args) -> object:
    if len(args) == 2:
        expect(args, int, int)
        words = max(part.bit_length() for part in cast("tuple[int, int]", args)) >> 6
        meter.charge(words * words >> 2)  # the time of a greatest common divisor
        return fractions.Fraction(*cast("tuple[int, int]", args))
    expect(args, str)
    # Fraction("1e999999999") would compute the power.
    if not _RATIO.fullmatch(cast(str, args[0])):
        raise DecodeError("malformed Fraction")
    return fractions.Fraction(cast(str, args[0]))


def uuid_draft() -> Draft:
    """Return a UUID that waits for its state."""
    return Draft(_finish_uuid)


def _finish_uuid(_meter: Meter, state: object) -> object:
    value = cast("dict[object, object]", state).get("int") if type(state) is dict else None
    if type(value) is not int:
        raise DecodeError("malformed UUID")
    return uuid.UUID(int=value)


def _reconstructor(meter: Meter, args: Args) -> object:
    if len(args) == 3 and args[0] is uuid.UUID and args[1] is object:
        return uuid_draft()
    if len(args) != 3 or not is_registered(args[0]) or not isinstance(args[1], type) or args[1] not in _BASES:
        raise SerializerRefused("an unsigned pickle may only rebuild registered classes")
    cls: Any = args[0]
    base: Any = args[1]
    state = args[2]
    if base is object:
        return object.__new__(cls)
    # As copyreg does: a base gets its state twice, for immutable and for mutable bases.
    expect((state,), base)
    built: object = base.__new__(cls, state)
    if base.__init__ is not object.__init__:
        base.__init__(built, state)
    return built


def _array(_meter: Meter, args: Args) -> object:
    expect(args, type, str, int, bytes)
    _, code, machine_format, items = cast("tuple[type, str, int, bytes]", args)
    made: array.array[Any] = array.array(code)
    if made.__reduce_ex__(4)[1][2] != machine_format:  # pyright: ignore[reportIndexIssue, reportArgumentType]
        raise DecodeError("an array whose items another machine has made")
    made.frombytes(items)
    return made


def _zone(_meter: Meter, args: Args) -> object:
    expect(args, str, (bool, int))
    return zoneinfo.ZoneInfo(cast(str, args[0]))  # which refuses paths


def _getattr(_meter: Meter, args: Args) -> object:
    if args == (zoneinfo.ZoneInfo, "_unpickle"):
        return _ZONE
    if len(args) == 2 and is_registered(args[0]) and issubclass(cast(type, args[0]), enum.Enum):
        found = cast("type[enum.Enum]", args[0]).__members__.get(args[1]) if type(args[1]) is str else None
        if found is not None:
            return found
    raise SerializerRefused("an unsigned pickle may use getattr for members of registered enums only")


def _data(meter: Meter, args: Args) -> object:
    expect(args, str, list)
    meter.charge(_INSTANCE)
    waiting: list[object] = [args[1]]
    while waiting:  # what is shared is copied each time
        each = waiting.pop()
        if type(each) is list:
            items = cast("list[object]", each)
            meter.charge(8 * len(items))
            waiting += items
        elif is_array(each):
            meter.charge(each.nbytes)
    made = data_libraries.rebuild_loaded(*args)
    _LEAVES.add(type(made))
    return made


def is_registered(value: object) -> bool:
    """Return whether ``value`` is a class that the application registered."""
    return isinstance(value, type) and REGISTERED.get((value.__module__, value.__qualname__)) is value


def is_leaf(value: object) -> bool:
    """Return whether a value that a rule has built holds no other objects of the pickle."""
    if is_array(value):
        return not value.dtype.hasobject
    return type(value) in _LEAVES


REGISTERED: dict[tuple[str, str], type] = {}

_ZONE = Name("zoneinfo.ZoneInfo._unpickle", _zone)

_FACTORIES = (bool, int, float, complex, str, bytes, list, tuple, dict, set)
_BASES = (object, int, float, str, bytes, list, tuple, dict, set)
_OLD_MODULES = {
    "__builtin__": "builtins",
    "exceptions": "builtins",
    "copy_reg": "copyreg",
    "Queue": "_queue",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
}
_OLD_NAMES = {
    ("builtins", "xrange"): "range",
    ("builtins", "unicode"): "str",
    ("builtins", "long"): "int",
    ("builtins", "StandardError"): "Exception",
    ("builtins", "EnvironmentError"): "OSError",
    ("builtins", "IOError"): "OSError",
    ("builtins", "WindowsError"): "OSError",
}

RULES: dict[type, Rule] = {
    bytes: _bytes,
    bytearray: _bytearray,
    complex: _exactly(complex, float, float),
    range: _range,
    slice: _exactly(slice, *3 * [(_NONE, int, float, str)]),
    set: _collection(set),
    frozenset: _collection(frozenset),
    list: _exactly(list),
    dict: _exactly(dict),
    collections.OrderedDict: _exactly(collections.OrderedDict),
    collections.Counter: _counter,
    collections.deque: _deque,
    collections.defaultdict: _defaultdict,
    decimal.Decimal: _decimal,
    fractions.Fraction: _fraction,
    array.array: _exactly(array.array, str, list),
    **{kind: _any_number(kind, str) for kind in _PATHS},
    **{kind: _any_number(kind, str, int) for kind in _ADDRESSES},
    **{kind: _any_number(kind, *_TIME_ARGUMENTS) for kind in _TIMES},
}
"""Classes that an unsigned pickle may call."""

_LEAVES: set[type] = {
    bytes, bytearray, complex, range, slice, decimal.Decimal, fractions.Fraction, *_PATHS, *_TIMES, uuid.UUID,
    array.array, *_ADDRESSES, zoneinfo.ZoneInfo, Draft, Name,
}  # fmt: skip

_MENTIONED = (object, bool, int, float, str, tuple, uuid.UUID, zoneinfo.ZoneInfo)
_ALLOWED: dict[tuple[str, str], object] = {
    ("builtins", "Ellipsis"): ...,
    **{(cls.__module__, cls.__qualname__): cls for cls in (*RULES, *_MENTIONED)},
    **{
        (module, name): Name(f"{module}.{name}", rule)
        for module, name, rule in (
            ("_codecs", "encode", _encode),
            ("array", "_array_reconstructor", _array),
            ("copyreg", "_reconstructor", _reconstructor),
            ("builtins", "getattr", _getattr),
            (data_libraries.rebuild.__module__, "rebuild", _data),
        )
    },
}


@cache
def _allow_numpy() -> None:
    """Add numpy's part to the tables above, before the first pickle that names something of it is read."""
    scalars = {np.dtype, *np.sctypeDict.values()}
    RULES[np.dtype] = unpickle_numpy.dtype
    _LEAVES.update(scalars)
    _ALLOWED.update({(cls.__module__, cls.__qualname__): cls for cls in (np.ndarray, *scalars)})
    for module, name, rule in (
        ("numpy._core.multiarray", "_reconstruct", unpickle_numpy.reconstruct),
        ("numpy._core.multiarray", "scalar", unpickle_numpy.scalar),
        ("numpy._core.numeric", "_frombuffer", unpickle_numpy.from_buffer),
    ):
        _ALLOWED[module, name] = Name(f"{module}.{name}", rule)
