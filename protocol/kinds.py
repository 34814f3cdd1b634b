"""Kinds: the values that travel without pickle beside None, booleans, numbers, text, bytes, lists and dicts.

Each kind has a name, says how a value becomes plain parts, and how it is made of parts that anybody may have
sent. The same table serves calls, notifications, the recorder and the pipeline, in MessagePack and in JSON;
``docs/values.md`` shows it. Nothing here calls a constructor of the user's, or imports what a message names:
enums, named tuples and frozen dataclasses are found only where their class was imported before.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from . import arrays
from .errors import DecodeError, SerializeError, SerializerRefused
from .lazily import np, numpy_kind
from .shown import shown

_DIGITS = 8192
_EQUAL_HASHES = 64
_NAME_PARTS = 32
Writer = Callable[[Any], object]
"""Returns the parts of a value: plain data, or values of other kinds."""
Reader = Callable[[Any], object]
"""Returns the value of parts; raises ValueError, TypeError or a DecodeError for unfit ones."""

_PARTS = (type(None), str, bytes, bytearray, memoryview, list, dict)
"""What parts come as. Anything else that can be iterated, such as a range, may be endless."""

_PLAIN_BASES: tuple[Any, ...] = (str, bool, int, float, bytes, dict, list, tuple)


class ValueKind(NamedTuple):
    """How the values of one kind travel.

    Attributes:
        name: on the wire.
        write: makes the parts.
        read: makes the value.
    """

    name: str
    write: Writer
    read: Reader


def write(value: Any) -> tuple[str, object]:
    """Return name of the kind and parts of a value.

    Raises:
        SerializeError: no kind takes it.
    """
    kind = _kind_of(class_of(value))
    if kind is None:
        raise SerializeError("its class has no kind")
    return kind.name, kind.write(value)


def read(name: object, parts: object) -> object:
    """Return the value of a kind.

    Raises:
        DecodeError: an unknown kind, or unfit parts.
        SerializerRefused: its class is not imported here.
    """
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise DecodeError(f"unknown kind of value {shown(name, 40)}")
    if not isinstance(parts, _PARTS):
        raise DecodeError(f"malformed {kind.name}: {type(parts).__name__}")
    try:
        return kind.read(parts)
    except (DecodeError, SerializerRefused):
        raise
    except Exception as error:
        raise DecodeError(f"malformed {kind.name}: {type(error).__name__}") from error


def name_of(cls: type) -> str:
    """Return the name of the kind of a class; empty when there is none."""
    kind = _kind_of(cls)
    return "" if kind is None else kind.name


def add(cls: type, name: str, write: Writer, read: Reader) -> None:
    """Add the kind of a class."""
    _BY_CLASS[cls] = _BY_NAME[name] = ValueKind(name, write, read)
    _kind_of.cache_clear()


def add_of_library(library: str, names: Iterable[str], kind: str, write: Writer, read: Reader) -> None:
    """Add the kind of classes, by name, and of their subclasses in the same library."""
    _BY_NAME[kind] = found = ValueKind(kind, write, read)
    _OF_LIBRARIES.update({(library, name): found for name in names})


def plain_base(value: Any) -> object:
    """Return an instance of a subclass of a plain type as that type; None for all others.

    A NumPy scalar is none, though some are subclasses of float.
    """
    cls = class_of(value)
    if numpy_kind(cls) or _kind_of(cls) is not None:
        return None
    base = next((base for base in _PLAIN_BASES if isinstance(value, base)), None)
    # str() of an enum that is a string would give its name.
    return None if base is None else str.__str__(value) if base is str else base(value)


def class_of(value: object) -> type:
    """Return the class of a value, as one that a type checker takes for any class."""
    return type(value)


def qualified(cls: type) -> str:
    """Return ``module.qualname`` of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def loaded(name: object) -> type | None:
    """Return a class by its qualified name, if this process has it; nothing is imported and no code runs."""
    parts = name.split(".", _NAME_PARTS) if isinstance(name, str) else []
    for cut in range(len(parts) - 1, 0, -1):
        found: object = sys.modules.get(".".join(parts[:cut]))
        if found is not None:
            for part in parts[cut:]:
                found = vars(found).get(part) if isinstance(found, type | types.ModuleType) else None
            return found if isinstance(found, type) and qualified(found) == name else None
    return None


@functools.lru_cache(4096)
def _kind_of(cls: type) -> ValueKind | None:
    if (kind := _BY_CLASS.get(cls)) is not None:
        return kind
    bases = set(cls.__mro__)
    if enum.Enum in bases:
        return _BY_NAME["enum"]
    if tuple in bases and hasattr(cls, "_fields"):
        return _BY_NAME["namedtuple"]
    if _is_frozen(cls):
        return _BY_NAME["dataclass"]
    if (numpy := numpy_kind(cls)) in ("ndarray", "generic"):
        # Other subclasses of arrays, such as masked ones, hold more than their bytes.
        known = numpy == "generic" or cls.__name__ in ("ndarray", "memmap", "recarray")
        return _BY_NAME["scalar" if numpy == "generic" else "array"] if known else None
    library = cls.__module__.partition(".")[0]
    for base in cls.__mro__:
        if base in _INHERITED or (library, base.__name__) in _OF_LIBRARIES:
            return _BY_CLASS.get(base) or _OF_LIBRARIES[library, base.__name__]
    return None


def _is_frozen(cls: Any) -> bool:
    return dataclasses.is_dataclass(cls) and cast("Any", cls).__dataclass_params__.frozen


def _class_of(name: object, base: type) -> Any:
    cls = loaded(name)
    if cls is None or not issubclass(cls, base):
        raise SerializerRefused(f"{shown(name, 80)} is not imported here: import its module first")
    return cls


def _write_enum(value: enum.Enum) -> list[object]:
    names = [member.name for member in value] if isinstance(value, enum.Flag) else [value.name]
    if _member(type(value), names) != value:
        raise SerializeError(f"{value!r} has bits without a name")
    return [qualified(type(value)), names]


def _member(cls: Any, names: Iterable[Any]) -> Any:
    members = [cls.__members__[name] for name in names]
    return functools.reduce(lambda a, b: a | b, members, cls(0)) if issubclass(cls, enum.Flag) else members[0]


def _read_enum(parts: Any) -> object:
    name, names = parts
    return _member(_class_of(name, enum.Enum), names)


def _write_named_tuple(value: Any) -> list[object]:
    return [qualified(class_of(value)), [*value]]


def _read_named_tuple(parts: Any) -> object:
    name, values = parts
    cls = _class_of(name, tuple)
    if len(values) != len(cls._fields):
        raise DecodeError(f"{name} has {len(cls._fields)} fields, not {len(values)}")
    return cast("Any", tuple).__new__(cls, values)


def _write_dataclass(value: Any) -> list[object]:
    fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return [qualified(class_of(value)), fields]


def _read_dataclass(parts: Any) -> object:
    name, values = parts
    cls = _class_of(name, object)
    # A class with a kind of its own, such as a reference, has checks in its reader.
    if not isinstance(values, dict) or name_of(cls) != "dataclass":
        raise DecodeError(f"{name} is no frozen dataclass here")
    if {*values} != {each.name for each in dataclasses.fields(cls)}:
        raise DecodeError(f"{name} has other fields here")
    # The constructor is the user's code, and may take other arguments.
    made: object = object.__new__(cls)
    for field, each in cast("dict[str, object]", values).items():
        object.__setattr__(made, field, each)
    return made


def _write_moment(value: dt.datetime | dt.time) -> list[object]:
    zone = value.tzinfo.key if isinstance(value.tzinfo, zoneinfo.ZoneInfo) else None
    return [value.replace(tzinfo=None).isoformat() if zone else value.isoformat(), zone, value.fold]


def _reader_of_moments(kind: type[dt.datetime | dt.time]) -> Callable[[Any], object]:
    def read(parts: Any) -> object:
        text, zone, fold = parts
        made = kind.fromisoformat(text).replace(fold=fold)
        return made if zone is None else made.replace(tzinfo=zoneinfo.ZoneInfo(zone))  # which refuses paths

    return read


def _write_zone(zone: dt.timezone) -> list[object]:
    return [zone.utcoffset(None).total_seconds(), zone.tzname(None)]


def _read_zone(parts: Any) -> dt.timezone:
    offset, name = dt.timedelta(seconds=parts[0]), parts[1]
    unnamed = dt.timezone(offset)
    return unnamed if unnamed.tzname(None) == name else dt.timezone(offset, name)


def _read_ratio(parts: Any) -> fractions.Fraction:
    numerator, denominator = parts
    if type(numerator) is not int or type(denominator) is not int:
        raise DecodeError("a fraction needs two integers")
    return fractions.Fraction(numerator, denominator)


def _short(text: str) -> str:
    if len(text) > _DIGITS:
        raise DecodeError(f"a number has more than {_DIGITS} digits")
    return text


def _write_path(path: pathlib.PurePath) -> list[object]:
    windows = isinstance(path, pathlib.PureWindowsPath)
    return ["windows" if windows else "posix", isinstance(path, pathlib.Path), str(path)]


def _read_path(parts: Any) -> pathlib.PurePath:
    flavour, concrete, text = parts
    pure = {"windows": pathlib.PureWindowsPath, "posix": pathlib.PurePosixPath}[flavour]
    # A path of the other system's files is none of this one's.
    return pathlib.Path(text) if concrete and issubclass(type(pathlib.Path()), pure) else pure(text)


def _write_array(array: Any) -> list[object]:
    if array.dtype == object:
        return [None, list(array.shape), "C", array.reshape(-1).tolist()]
    return arrays.write(array)


def _read_array(parts: Any) -> object:
    form, shape, order, raw = parts
    if form is not None:
        return arrays.read(form, shape, order, raw)
    made = np.empty(len(_listed(raw)), object)
    for index, each in enumerate(raw):
        made[index] = each
    return made.reshape(arrays.read_shape(shape))


def _write_scalar(value: Any) -> list[object]:
    return [arrays.write_dtype(value.dtype), value.tobytes()]


def _read_scalar(parts: Any) -> object:
    form, raw = parts
    return arrays.read(form, [], "C", raw)[()]


def _bounds(value: Any) -> list[object]:
    return [value.start, value.stop, value.step]


def _listed(parts: Any) -> list[Any]:
    """Parts that are a list: a range takes ten bytes, whatever its length."""
    if not isinstance(parts, list):
        raise DecodeError("the parts of a value are no list")
    return cast("list[Any]", parts)


def _hashed(items: Any) -> list[Any]:
    """The items of a set or keys of a table, unless so many hashes are equal that it would be quadratic."""
    hashes = collections.Counter(map(hash, _listed(items)))
    if hashes and max(hashes.values()) > _EQUAL_HASHES:
        raise DecodeError(f"more than {_EQUAL_HASHES} items of one table have the same hash")
    return items


def _read_table(parts: Any) -> dict[Any, Any]:
    _hashed([key for key, _ in _listed(parts)])
    return dict(parts)


def _read_deque(parts: Any) -> collections.deque[Any]:
    items, most = parts
    return collections.deque(_listed(items), most)


def _pairs(table: dict[Any, Any]) -> list[object]:
    return [[key, value] for key, value in table.items()]


_BY_CLASS: dict[type, ValueKind] = {}
_BY_NAME: dict[str, ValueKind] = {}
_OF_LIBRARIES: dict[tuple[str, str], ValueKind] = {}
_INHERITED = frozenset({set, frozenset, collections.deque, pathlib.PurePath, Exception})
"""Classes whose subclasses travel as they do."""

_EXACT: tuple[tuple[type, str, Writer, Reader], ...] = (
    (set, "set", list, lambda parts: set(_hashed(parts))),
    (frozenset, "frozenset", list, lambda parts: frozenset(_hashed(parts))),
    (collections.deque, "deque", lambda value: [list(value), value.maxlen], _read_deque),
    (complex, "complex", lambda value: [value.real, value.imag], lambda parts: complex(*_listed(parts))),
    (dt.datetime, "datetime", _write_moment, _reader_of_moments(dt.datetime)),
    (dt.time, "time", _write_moment, _reader_of_moments(dt.time)),
    (dt.date, "date", dt.date.isoformat, dt.date.fromisoformat),
    (dt.timedelta, "timedelta", lambda value: [value.days, value.seconds, value.microseconds],
     lambda parts: dt.timedelta(*_listed(parts))),
    (dt.timezone, "timezone", _write_zone, _read_zone),
    (zoneinfo.ZoneInfo, "zone", lambda zone: zone.key, zoneinfo.ZoneInfo),
    (decimal.Decimal, "decimal", str, lambda text: decimal.Decimal(_short(text))),
    (fractions.Fraction, "fraction", lambda value: [value.numerator, value.denominator], _read_ratio),
    (uuid.UUID, "uuid", str, uuid.UUID),
    (pathlib.PurePath, "path", _write_path, _read_path),
    (bytearray, "bytearray", bytes, lambda raw: bytearray(memoryview(raw))),
    (range, "range", _bounds, lambda parts: range(*_listed(parts))),
    (slice, "slice", _bounds, lambda parts: slice(*_listed(parts))),
    (types.EllipsisType, "ellipsis", lambda _: None, lambda _: ...),
    (int, "int", hex, lambda text: int(_short(text), 16)),
    (str, "text", lambda text: text.encode("utf-8", "surrogatepass"),
     lambda raw: raw.decode("utf-8", "surrogatepass")),
    (dict, "dict", _pairs, _read_table),
)  # fmt: skip
for _entry in _EXACT:
    add(*_entry)

_FOUND: tuple[ValueKind, ...] = (
    ValueKind("enum", _write_enum, _read_enum),
    ValueKind("namedtuple", _write_named_tuple, _read_named_tuple),
    ValueKind("dataclass", _write_dataclass, _read_dataclass),
    ValueKind("array", _write_array, _read_array),
    ValueKind("scalar", _write_scalar, _read_scalar),
)
_BY_NAME.update({_kind.name: _kind for _kind in _FOUND})
