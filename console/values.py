"""Values of any type as text for people and as JSON for programs."""

from __future__ import annotations

import base64
import math
import pprint
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from ..protocol.lazily import numpy_kind
from ..protocol.shown import plain

if TYPE_CHECKING:
    import numpy as np

MAX_ELEMENTS = 1000
"""Arrays with more elements are told by type and shape only."""

MAX_BYTES = 4096
"""Bytes objects that are longer are told by their size only."""

MAX_ITEMS = 100
"""Of longer lists both ends are told."""

_FIRST, _LAST = 6, 2
_FRAME = {"max_rows": 60, "min_rows": 10, "max_cols": 20, "show_dimensions": True}
_BRIEF_ELEMENTS = 16
_BRIEF_BYTES = 64
_DEPTH = 50
_INT_BITS = 10_000


def age(seconds: float | None) -> str:
    """A time for people: ``12 s``, ``3 min``, ``2 h``, ``5 d``; empty when it is not known."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def to_text(value: object, width: int | None = None) -> str:
    """A value for people, possibly of several lines.

    Args:
        value: text is shown as it is, an array under its type and shape, a table of rows and columns as such,
            of a long list both ends.
        width: characters of a line at which arrays, tables, lists and dictionaries are broken; None breaks
            arrays where numpy does, and nothing else.
    """
    if isinstance(value, str):
        return plain(value)
    if numpy_kind(type(value)) == "ndarray":
        array = cast("np.ndarray[Any, Any]", value)
        return plain(f"{array.dtype} {array.shape}\n{_elements(array, width)}")
    if (pandas := sys.modules.get("pandas")) is not None and isinstance(value, pandas.DataFrame):
        return plain(cast("Any", value).to_string(**_FRAME, line_width=width))
    if type(value) not in (dict, list, tuple):
        return plain(_repr(value)) if _bytes_of(value) is None else to_line(value)
    return _structure(cast("list[Any]", value), width)


def _elements(array: np.ndarray[Any, Any], width: int | None) -> str:
    numpy = cast("Any", sys.modules["numpy"])  # whose array this is
    with numpy.printoptions(**({} if width is None else {"linewidth": width})):
        return str(array)


def _structure(items: list[Any] | tuple[Any, ...] | dict[Any, Any], width: int | None) -> str:
    if not isinstance(items, dict) and len(items) > MAX_ITEMS:
        first, last = (to_line(list(part))[1:-1] for part in (items[:_FIRST], items[-_LAST:]))
        shown, told = f"[{first}, ..., {last}]", f"({len(items)} items; --json prints all)"
        fits = width is None or len(shown) + 2 + len(told) <= width
        return f"{shown}{'  ' if fits else chr(10)}{told}"
    line = to_line(items)
    if width is None or len(line) <= width:
        return line
    return pprint.pformat(_leaves(items), width=width, sort_dicts=False)


class _Leaf:
    """A value that `pprint` shows as `to_line` does."""

    def __init__(self, value: object, depth: int) -> None:
        self._line = to_line(value, depth)

    def __repr__(self) -> str:
        return self._line


def _leaves(value: object, depth: int = _DEPTH) -> object:
    """The same dictionaries, lists and tuples, of leaves."""
    if depth and type(value) is dict:
        table = cast("dict[Any, Any]", value)
        return {_Leaf(key, depth): _leaves(item, depth - 1) for key, item in table.items()}
    if depth and type(value) in (list, tuple):
        leaves = [_leaves(item, depth - 1) for item in cast("list[object]", value)]
        return leaves if type(value) is list else tuple(leaves)
    return _Leaf(value, depth)


def to_line(value: object, depth: int = _DEPTH) -> str:
    """A value for people on one line; large arrays and bytes by their size only."""
    if not depth:
        return "..."
    if numpy_kind(type(value)) == "ndarray":
        array = cast("np.ndarray[Any, Any]", value)
        shown = f": {array.tolist()}" if array.size <= _BRIEF_ELEMENTS else ""
        return plain(f"<{array.dtype} {array.shape}{shown}>", keep="")
    data = _bytes_of(value)
    if data is not None and len(data) > _BRIEF_BYTES:
        return f"<{len(data)} bytes>"
    if type(value) is dict:
        pairs = cast("dict[Any, Any]", value).items()
        shown = (f"{to_line(key, depth - 1)}: {to_line(item, depth - 1)}" for key, item in pairs)
        return f"{{{', '.join(shown)}}}"
    if type(value) is list:
        return f"[{', '.join(to_line(item, depth - 1) for item in cast('list[Any]', value))}]"
    if type(value) is tuple:
        items = [to_line(item, depth - 1) for item in cast("tuple[Any, ...]", value)]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return plain(_repr(value), keep="")


def _bytes_of(value: object) -> bytes | None:
    return cast("bytes", value) if isinstance(value, bytes | bytearray | memoryview) else None


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as exc:
        return f"<{_name(value)}, whose repr raised {type(exc).__name__}>"


def _name(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def to_json(value: object, depth: int = _DEPTH) -> Any:
    """A value in terms of JSON. What JSON lacks becomes an object with a ``type``.

    ::

        nan, inf, -inf         "NaN", "Infinity", "-Infinity"
        tuple, set             array
        date, time, UUID, ...  text
        bytes                  {"type": "bytes", "size": n, "base64": text}
        numpy array            {"type": "ndarray", "dtype": text, "shape": [...], "values": [...]}
        complex                {"type": "complex", "real": x, "imag": y}
        exception              {"type": "exception", "class": name, "text": text}
        dict, other keys       {"type": "mapping", "items": [[key, value], ...]}
        anything else          {"type": name, "repr": text}

    ``base64`` is missing above `MAX_BYTES`, ``values`` above `MAX_ELEMENTS`.
    """
    if not depth:
        return {"type": _name(value), "repr": "..."}
    if numpy_kind(type(value)) == "ndarray":
        return _array(cast("np.ndarray[Any, Any]", value), depth)
    if isinstance(value, Enum):
        return value.name
    if numpy_kind(type(value)) == "generic":
        return str(value) if cast("Any", value).dtype.kind in "mM" else to_json(_standard(value), depth - 1)
    if value is None or isinstance(value, bool | int | float | complex):
        return _number(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), depth)
    if isinstance(value, list | tuple | AbstractSet):
        return [to_json(item, depth - 1) for item in cast("list[Any]", value)]
    return _object(value)


def _standard(scalar: Any) -> Any:
    """A numpy scalar as Python's own; ``item`` leaves the two long types as they are."""
    if scalar.dtype.char in "gG":
        return complex(scalar) if scalar.dtype.kind == "c" else float(scalar)
    return scalar.item()


def _number(value: complex | None) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return {"type": "complex", "real": _number(value.real), "imag": _number(value.imag)}
    if isinstance(value, int) and value.bit_length() > _INT_BITS:
        return {"type": "int", "hex": hex(value)}
    return value


def _array(array: np.ndarray[Any, Any], depth: int) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "ndarray", "dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size <= MAX_ELEMENTS:
        plain_array = array.astype(str) if array.dtype.kind in "mM" else array
        told["values"] = to_json(plain_array.tolist(), depth - 1)
    return told


def _mapping(mapping: Mapping[Any, Any], depth: int) -> Any:
    if all(isinstance(key, str) for key in mapping):
        return {str(key): to_json(item, depth - 1) for key, item in mapping.items()}
    items = [[to_json(key, depth - 1), to_json(item, depth - 1)] for key, item in mapping.items()]
    return {"type": "mapping", "items": items}


def _object(value: object) -> Any:
    if (found := _bytes_of(value)) is not None:
        data = bytes(found)
        told: dict[str, Any] = {"type": "bytes", "size": len(data)}
        return {**told, "base64": base64.b64encode(data).decode()} if len(data) <= MAX_BYTES else told
    if isinstance(value, BaseException):
        return {"type": "exception", "class": _name(value), "text": str(value)}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | PurePath):
        return str(value)
    return {"type": _name(value), "repr": _repr(value)}
