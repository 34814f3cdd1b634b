"""Contents of notifications, and what they are as columns; each is decoded as that of a stranger.

Plain data beyond JSON is written as: tuples as lists, times in ISO form, UUIDs and paths as text,
``{"bytes": base64}``, ``{"complex": [re, im]}``, ``{"set": [...]}``, ``{"decimal": text}``,
``{"fraction": text}``, ``{"timedelta": [days, seconds, microseconds]}``, finer ones of numpy as
``{"timedelta64": text}``, ``{"exception": [class, text]}``, a dictionary with keys that are no plain scalars,
or the same text, as ``{"dict": [[key, value], ...]}``, an array as ``{"ndarray": [dtype, shape]}``. Each
array stands in ``arrays``, and the first one fills the array columns. The number that is a signal's only
argument stands in ``value_double`` or ``value_long`` as well. Half of a pair of surrogates is the text of its
escape.

Of pandas and pint: ``{"frame": {"index": [...], "columns": [...], "data": [[...], ...]}}``,
``{"series": {"name": ..., "index": [...], "data": [...]}}``, ``{"index": [...]}``, ``{"quantity": [magnitude,
unit]}``, ``{"unit": text}``. The numbers of a frame or series of one type of numbers are an array as well.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import hashlib
import json
import pathlib
import re
import uuid
from typing import Any, NamedTuple

import numpy as np

from ...protocol import kinds, serializers
from ...protocol.errors import DecodeError, SerializerRefused
from ...protocol.frames import Buffer
from ..schema import blob_path
from . import bounds
from .arrays import OF_LIBRARIES, arrays_in, as_rows, digest_of, listed

_INT64 = 1 << 63

_ESCAPE = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|(ud[89a-f]..)|.)")
"""Of JSON; half of a pair of surrogates, which SQL does not read, is a group."""

_AS_A_STRANGERS = (
    "what is stored is decoded as if nobody had signed it: publish numbers, texts, lists, dictionaries or "
    "arrays instead"
)


class Value(NamedTuple):
    """A content as the typed columns of the notifications table; see `schema`."""

    value_double: float | None = None
    value_long: int | None = None
    value_bool: bool | None = None
    value_string: str | None = None
    value_json: str | None = None
    value_list: list[float] | None = None
    dtype: str | None = None
    shape: list[int] | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    digest: str | None = None
    arrays: list[dict[str, Any]] | None = None


def read_blob(journal: pathlib.Path, ref: str) -> bytes:
    """A content that is kept beside the segments.

    Raises:
        JournalError: for a reference that is none.
        DecodeError: when it is too large, or not what was written.
        OSError: when it cannot be read.
    """
    path = blob_path(journal, ref)
    bounds.check_content(path.stat().st_size)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != ref:
        raise DecodeError(f"blob {ref} is damaged: its digest differs")
    return content


def decoded(serializer: str, body: Buffer) -> Any:
    """A content, as `serializers.decode` gives it for an untrusted one.

    Raises:
        DecodeError, SerializerRefused: as `serializers.decode`, and for one that is too large.
    """
    bounds.check_content(len(body))
    try:
        return serializers.decode(serializer, body, trusted=False)
    except SerializerRefused as refused:
        what = str(refused).partition("; ")[0]  # a key, or a class of the lab's, is of no help here
        raise SerializerRefused(f"{what}; {_AS_A_STRANGERS}") from refused


def as_value(content: object) -> Value:
    """Typed columns of one decoded content.

    Raises:
        TypeError: for an object that is no plain data.
        DecodeError: for data that is too deep or too much (`bounds`), or contains itself.
    """
    if type(content) is float:
        return Value(content)
    if isinstance(content, np.ndarray):
        return _array_value(content)
    if isinstance(content, bool | np.bool_):
        return Value(value_bool=bool(content))
    is_time = isinstance(content, np.timedelta64)  # which NumPy takes for an integer
    if isinstance(content, int | np.integer) and not is_time and -_INT64 <= content < _INT64:
        return Value(value_long=int(content))
    if isinstance(content, float | np.floating):
        return Value(value_double=float(content))
    if isinstance(content, str) and _is_text(content):
        return Value(value_string=str(content))
    bounds.check_plain(content)
    text = to_json(content)
    bounds.check_text(text)
    if arrays := list(arrays_in(content)):
        return _array_value(arrays[0][1])._replace(value_json=text, arrays=as_rows(arrays))
    number = number_in(content)
    return (Value() if number is None else as_value(number))._replace(value_json=text)


def _array_value(array: np.ndarray) -> Value:
    digest = None if array.dtype.hasobject else digest_of(array)
    value = Value(value_list=listed(array), dtype=str(array.dtype), shape=list(array.shape), digest=digest)
    if array.dtype.kind not in "buif" or not array.size:
        return value
    with np.errstate(all="ignore"):
        return value._replace(
            min=float(array.min()),
            max=float(array.max()),
            mean=float(array.mean(dtype=np.float64)),
            std=float(array.std(dtype=np.float64)),
        )


def _is_text(content: str) -> bool:
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return True


def to_json(content: object) -> str:
    """JSON text of plain data, ASCII only.

    Raises:
        TypeError, ValueError: as `as_value`.
    """
    text = json.JSONEncoder(default=_stand_in).encode(_listed_keys(content))
    if "\\ud" in text:
        text = _ESCAPE.sub(lambda found: rf"\\{found[1]}" if found[1] else found[0], text)
    return text


def _stand_in(item: object) -> object:
    if isinstance(item, np.ndarray):
        return {"ndarray": [str(item.dtype), list(item.shape)]}
    kind = kinds.name_of(type(item))
    return _of_library(kind, item) if kind in OF_LIBRARIES else _plain(item)


def number_in(content: Any) -> Any:
    """The number of a quantity, or of a signal with one argument, that is one; None for everything else."""
    held: Any = content[0] if isinstance(content, list | tuple) and len(content) == 1 else content
    number = held.magnitude if kinds.name_of(type(held)) == "quantity" else held
    if number is content or isinstance(number, bool):
        return None
    return number if isinstance(number, int | float | np.integer | np.floating) else None


def _of_library(kind: str, item: Any) -> object:
    if kind == "quantity":
        return {"quantity": [item.magnitude, str(item.units)]}
    if kind == "unit":
        return {"unit": str(item)}
    bounds.check_elements(item.size)
    if kind == "index":
        return {"index": item.tolist()}
    if kind == "frame":
        return {"frame": item.to_dict("split")}
    return {"series": {"name": item.name, "index": item.index.tolist(), "data": item.tolist()}}


def _plain(item: object) -> object:
    match item:
        case np.datetime64():
            return str(item)
        case np.timedelta64():
            plain = item.item()
            return plain if isinstance(plain, datetime.timedelta) else {"timedelta64": str(item)}
        case np.bool_() | np.integer() | np.floating():
            return float(item) if isinstance(item, np.floating) else item.item()
        case bytes() | bytearray() | memoryview():
            return {"bytes": base64.b64encode(item).decode()}
        case datetime.datetime() | datetime.date() | datetime.time():
            return item.isoformat()
        case datetime.timedelta():
            return {"timedelta": [item.days, item.seconds, item.microseconds]}
        case complex() | np.complexfloating():
            return {"complex": [float(item.real), float(item.imag)]}
        case set() | frozenset():
            # Sorted, because the order of a set changes from one process to the next.
            return {"set": sorted(item, key=repr)}
        case decimal.Decimal():
            return {"decimal": str(item)}
        case fractions.Fraction():
            return {"fraction": str(item)}
        case uuid.UUID() | pathlib.PurePath():
            return str(item)
        case BaseException():
            return {"exception": [type(item).__name__, str(item)]}
        case _:
            raise TypeError(f"content holds a {type(item).__qualname__}, which is no plain data")


def _listed_keys(item: object) -> object:
    if isinstance(item, dict):
        if _are_names(item):
            return {key: _listed_keys(value) for key, value in item.items()}
        return {"dict": [[_listed_keys(key), _listed_keys(value)] for key, value in item.items()]}
    if isinstance(item, list | tuple):
        return [_listed_keys(entry) for entry in item]
    return item


def _are_names(keys: dict[Any, Any]) -> bool:
    """Whether these may be keys in JSON, where 1 and "1" would be the same."""
    if all(type(key) is str for key in keys):
        return True
    if not all(isinstance(key, str | int | float | None) for key in keys):
        return False
    return len(json.loads(json.dumps(dict.fromkeys(keys)))) == len(keys)
