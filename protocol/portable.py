"""Values that json and msgpack lack, as a kind and a plain payload: shared by both serializers.

Kinds: ``proxy ndarray objects scalar bytes bytearray datetime date time timedelta set frozenset tuple complex
decimal uuid range slice ellipsis exception class data int dict``. Json writes ``{"__pzc__": kind, "value":
payload}``, msgpack an extension of type 1 that holds ``[kind, payload]``, and arrays as type 2: length of the
header (4 bytes, little-endian), header in msgpack, raw bytes. ``tuple`` appears only where a hashable is
needed (in a set, as a key), ``int`` beyond 64 bits in msgpack, ``dict`` for keys that msgpack lacks, and for
a user's json dict that has a key ``__pzc__`` itself. Only exact types are taken: a subclass would come back
as its base.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import types
import uuid
from collections.abc import Callable, Iterable
from typing import Any, cast

from . import arrays, data_libraries, exceptions, weighing
from .data_forms import RANGE_ITEMS
from .errors import ConfigError, DecodeError, SerializeError, SerializerRefused
from .lazily import np, numpy_kind
from .shown import shown
from .weighing import EQUAL_HASHES

TAG = "__pzc__"

_MAX_DIGITS = 8200


class Tagged:
    """A value whose kind is already decided."""

    __slots__ = ("kind", "payload")

    def __init__(self, kind: str, payload: object) -> None:
        self.kind = kind
        self.payload = payload


def to_plain(value: object) -> tuple[str, object]:
    """Return kind and payload of a value that json or msgpack cannot express.

    Raises:
        SerializeError: no portable form is known for its type.
    """
    if isinstance(value, Tagged):
        return value.kind, value.payload
    hook = _HOOKS.get(type(value))
    if hook is not None:
        return "class", [hook[0], hook[1](value)]
    if isinstance(value, Exception):
        return "exception", exceptions.to_portable(value)
    kind = numpy_kind(type(value))
    if kind == "generic":
        header, raw = arrays.pack(np.asarray(value))
        return "scalar", [header["dtype"], bytes(raw)]
    if kind == "ndarray" and type(value) in (np.ndarray, np.memmap):
        return _array(cast("arrays.Array", value))
    writer = _WRITERS.get(type(value))
    if writer is None:
        told = data_libraries.tell(value)
        if told is not None:
            return "data", list(told)
        raise SerializeError(
            f"{exceptions.qualified(type(value))} has no portable form; use pickle or plain data, or give "
            "pzc.register_class encode= and decode= for it at both sides"
        )
    return writer[0], writer[1](value)


def from_plain(kind: str, payload: object) -> object:
    """Return the value of a kind and its payload.

    Raises:
        DecodeError: unknown kind or unfit payload.
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise DecodeError(f"unknown kind of value {kind[:40]!r}")
    try:
        return reader(payload)
    except (DecodeError, SerializerRefused):
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise DecodeError(f"malformed {kind}: {type(error).__name__}") from error


def escape(content: object) -> object:
    """Return content in which dicts with a key ``__pzc__`` cannot be taken for tagged objects."""
    if isinstance(content, dict):
        table = cast("dict[object, object]", content)
        escaped = {key: escape(value) for key, value in table.items()}
        return pairs(escaped) if TAG in table else escaped
    if isinstance(content, (list, tuple)):
        return [escape(item) for item in cast("Iterable[object]", content)]
    return content


def pairs(table: dict[object, object]) -> Tagged:
    """Return a dict as a value whose payload lists its keys and values."""
    return Tagged("dict", [[_hashable(key), value] for key, value in table.items()])


def widen(content: object) -> object:
    """Return content in which ints beyond 64 bits are tagged."""
    if type(content) is int and not -(1 << 63) <= content < 1 << 64:
        return Tagged("int", hex(content))
    if type(content) in (list, tuple):
        items = map(widen, cast("Iterable[object]", content))
        return list(items) if type(content) is list else tuple(items)
    if type(content) is dict:
        return {widen(key): widen(value) for key, value in cast("dict[object, object]", content).items()}
    return content


def plain_base(value: object) -> object:
    """Return a subclass of a plain type as that type (as json does), or None; numpy scalars are no such."""
    if numpy_kind(type(value)) == "generic":
        return None
    if isinstance(value, str):
        # str() of an enum that is a string gives its name.
        return str.__str__(value)
    for base in _BASES:
        if issubclass(type(value), base):
            return base(value)
    return None


def to_base64(raw: bytes) -> str:
    """Return bytes as json text."""
    return base64.b64encode(raw).decode("ascii")


def from_base64(text: object) -> bytes:
    """Return the bytes that :func:`to_base64` wrote.

    Raises:
        DecodeError: not base64.
    """
    if not isinstance(text, str):
        raise DecodeError("base64 must be a string")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise DecodeError("malformed base64") from error


def add(cls: type, kind: str, write: Callable[[Any], str], read: Callable[[str], object]) -> None:
    """Let json and msgpack express instances of a class, as a text.

    Args:
        cls: exactly that, no subclass.
        kind: not taken yet.
        write: gives the text.
        read: gives the instance; runs on texts that nobody vouches for.
    """
    _WRITERS[cls] = kind, write
    _READERS[kind] = lambda payload: read(_text(payload))


def add_class(cls: type, name: str, encode: Callable[[Any], object], decode: Callable[[Any], object]) -> None:
    """Let json and msgpack express instances of a class.

    Args:
        cls: exactly that, no subclass.
        name: by which both sides know it.
        encode: gives anything that can be expressed.
        decode: gives the instance; runs on what nobody vouches for.

    Raises:
        ConfigError: for a class whose instances never come here.
    """
    base = next((base for base in _NATIVE if issubclass(cls, base)), None)
    if base is not None:
        raise ConfigError(f"json and msgpack send a {cls.__qualname__} as the {base.__name__} that it is")
    _HOOKS[cls] = name, encode
    _NAMED[name] = decode


def _read_class(payload: object) -> object:
    name, told = _fields(payload, 2)
    decode = _NAMED.get(name) if isinstance(name, str) else None
    if decode is None:
        raise SerializerRefused(
            f"{shown(name, 80)} cannot be rebuilt here: call pzc.register_class with encode= and "
            "decode= for it"
        )
    return decode(told)


def _array(array: arrays.Array) -> tuple[str, object]:
    if array.dtype == object:
        return "objects", [list(array.shape), array.reshape(-1).tolist()]
    header, raw = arrays.pack(array)
    return "ndarray", [header, bytes(raw)]


def _read_objects(payload: object) -> arrays.Array:
    shape, items = _fields(payload, 2)
    values = _items(items)
    array: arrays.Array = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        array[index] = value
    return array.reshape(arrays.check_shape(shape))


def _read_array(payload: object) -> arrays.Array:
    header, raw = _fields(payload, 2)
    return arrays.unpack(header, _bytes(raw))


def _read_scalar(payload: object) -> object:
    form, raw = _fields(payload, 2)
    return arrays.view(_bytes(raw), arrays.parse(form), (), "C")[()]


def _hashable(value: object) -> object:
    return (
        Tagged("tuple", list(map(_hashable, cast("tuple[object, ...]", value))))
        if type(value) is tuple
        else value
    )


def _set(value: Any) -> list[object]:
    return list(map(_hashable, value))


def _bounds(value: Any) -> list[object]:
    return [value.start, value.stop, value.step]


def _read_timedelta(payload: object) -> dt.timedelta:
    days, seconds, microseconds = _fields(payload, 3)
    if not all(type(part) is int for part in (days, seconds, microseconds)):
        raise DecodeError("malformed timedelta")
    return dt.timedelta(cast(int, days), cast(int, seconds), cast(int, microseconds))


def _read_complex(payload: object) -> complex:
    real, imaginary = _fields(payload, 2)
    if not (isinstance(real, (int, float)) and isinstance(imaginary, (int, float))):
        raise DecodeError("malformed complex")
    return complex(real, imaginary)


def limited_range(start: int, stop: int, step: int) -> range:
    """A range that nobody vouches for.

    Raises:
        DecodeError: it has more numbers than are allowed.
    """
    made = range(start, stop, step)
    if made and (made[-1] - made[0]) // made.step >= RANGE_ITEMS:
        raise DecodeError(f"a range of more than {RANGE_ITEMS} numbers")
    return made


def _read_range(payload: object) -> range:
    parts = _fields(payload, 3)
    if not all(type(part) is int for part in parts):
        raise DecodeError("malformed range")
    return limited_range(*cast("list[int]", parts))


def _read_dict(payload: object) -> dict[object, object]:
    pairs = [cast("tuple[object, object]", tuple(_fields(pair, 2))) for pair in _items(payload)]
    _keys([key for key, _ in pairs])
    return dict(pairs)


def _keys(keys: list[object]) -> list[object]:
    if len(keys) > EQUAL_HASHES:
        weighing.Hashes().check(keys)
    return keys


def _short(payload: object) -> str:
    text = _text(payload)
    if len(text) > _MAX_DIGITS:
        raise DecodeError(f"a number has more than {_MAX_DIGITS} digits")
    return text


def _fields(payload: object, count: int) -> list[object]:
    fields = _items(payload)
    if len(fields) != count:
        raise DecodeError(f"{count} parts expected, {len(fields)} found")
    return fields


def _items(payload: object) -> list[object]:
    if not isinstance(payload, list):
        raise DecodeError("a list is missing")
    return cast("list[object]", payload)


def _bytes(payload: object) -> bytes:
    if not isinstance(payload, bytes):
        raise DecodeError("bytes are missing")
    return payload


def _text(payload: object) -> str:
    if not isinstance(payload, str):
        raise DecodeError("a string is missing")
    return payload


_BASES: tuple[Any, ...] = (dict, list, tuple, int, float, bytes)

_NATIVE = (str, *_BASES)
_HOOKS: dict[type, tuple[str, Callable[[Any], object]]] = {}
_NAMED: dict[str, Callable[[Any], object]] = {}

_WRITERS: dict[type, tuple[str, Callable[[Any], object]]] = {
    bytes: ("bytes", bytes),
    bytearray: ("bytearray", bytes),
    dt.datetime: ("datetime", dt.datetime.isoformat),
    dt.date: ("date", dt.date.isoformat),
    dt.time: ("time", dt.time.isoformat),
    dt.timedelta: ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    set: ("set", _set),
    frozenset: ("frozenset", _set),
    complex: ("complex", lambda value: [value.real, value.imag]),
    decimal.Decimal: ("decimal", str),
    uuid.UUID: ("uuid", str),
    range: ("range", _bounds),
    slice: ("slice", _bounds),
    types.EllipsisType: ("ellipsis", lambda _: None),
}

_READERS: dict[str, Callable[[object], object]] = {
    "ndarray": _read_array,
    "objects": _read_objects,
    "scalar": _read_scalar,
    "bytes": _bytes,
    "bytearray": lambda payload: bytearray(_bytes(payload)),
    "datetime": lambda payload: dt.datetime.fromisoformat(_text(payload)),
    "date": lambda payload: dt.date.fromisoformat(_text(payload)),
    "time": lambda payload: dt.time.fromisoformat(_text(payload)),
    "timedelta": _read_timedelta,
    "set": lambda payload: set(_keys(_items(payload))),
    "frozenset": lambda payload: frozenset(_keys(_items(payload))),
    "tuple": lambda payload: tuple(_items(payload)),
    "complex": _read_complex,
    "decimal": lambda payload: decimal.Decimal(_short(payload)),
    "uuid": lambda payload: uuid.UUID(_text(payload)),
    "range": _read_range,
    "slice": lambda payload: slice(*_fields(payload, 3)),
    "ellipsis": lambda _: ...,
    "exception": exceptions.from_portable,
    "class": _read_class,
    "data": lambda payload: data_libraries.rebuild_loaded(*_fields(payload, 2)),
    "int": lambda payload: int(_short(payload), 16),
    "dict": _read_dict,
}
