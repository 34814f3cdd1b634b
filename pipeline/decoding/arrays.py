"""Arrays in contents: where each of them stands, and what the row of its notification has of it.

::

    content                                      paths
    {"trace": {"y": array}, "raw": [array]}      trace.y   raw[0]
    {"a.b": array, 3: array}                     ["a.b"]   [3]
    array                                        (empty)

So each path leads to one array. The numbers of a frame, series or quantity are an array at its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np

from ...protocol import kinds, limits
from ...protocol.errors import DecodeError
from ..schema import LIST_NUMBERS, ROW_NUMBERS
from . import bounds

OF_LIBRARIES = frozenset({"frame", "series", "index", "quantity", "unit"})
"""Kinds of pandas and pint that become documents."""

_SCALARS = (float, int, str, bool, bytes, type(None))


def digest_of(array: np.ndarray) -> str:
    """SHA-256 (hex) of an array's bytes in C order."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def listed(array: np.ndarray) -> list[float] | None:
    """The numbers of an array in C order, as a row has them; None for many, or for none."""
    if array.dtype.kind not in "buif" or array.size > LIST_NUMBERS:
        return None
    return array.astype(np.float64).ravel().tolist()


def arrays_in(content: object) -> Iterator[tuple[str, np.ndarray]]:
    """Path and array, of each one in a content.

    Raises:
        DecodeError: for paths that are longer together than a JSON text may be.
    """
    room = limits.current.stored_text
    for path, array in _walk(content, ""):
        room -= len(path)
        if room < 0:
            raise DecodeError(
                f"the paths of its arrays have more than {limits.current.stored_text} characters"
            )
        yield path, array


def as_rows(arrays: Iterable[tuple[str, np.ndarray]]) -> list[dict[str, Any]]:
    """What the column ``arrays`` has; the numbers of the first one stand in ``value_list``."""
    room, found, digests = ROW_NUMBERS, list[dict[str, Any]](), dict[int, str]()
    for path, array in arrays:
        values = listed(array) if found and array.size <= room else None
        room -= len(values or ())
        if (
            not array.dtype.hasobject and id(array) not in digests
        ):  # one that stands in many places is read once
            digests[id(array)] = digest_of(array)
        found.append({
            "path": path, "dtype": str(array.dtype), "shape": list(array.shape), "values": values,
            "digest": digests.get(id(array)),
        })  # fmt: skip
    return found


def _walk(item: object, path: str) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(item, _SCALARS):
        return
    if isinstance(item, np.ndarray):
        yield path, item
    elif isinstance(item, dict):
        for key, held in cast("dict[object, object]", item).items():
            yield from _walk(held, _below(path, key))
    elif isinstance(item, list | tuple):
        for number, held in enumerate(cast("list[object]", item)):
            yield from _walk(held, f"{path}[{number}]")
    elif (numbers := _numbers(item)) is not None:
        yield path, numbers


def _below(path: str, key: object) -> str:
    if not isinstance(key, str):
        return f"{path}[{key!r}]"
    if not key or not key.isprintable() or {*key} & {*'.[]"'}:
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def _numbers(item: Any) -> np.ndarray | None:
    """The numbers of a frame, series or quantity of one type; None when there are none."""
    kind = kinds.name_of(type(item))
    if kind not in OF_LIBRARIES or kind in ("unit", "index"):
        return None
    if kind == "quantity":
        return item.magnitude if isinstance(item.magnitude, np.ndarray) else None
    bounds.check_elements(item.size)
    numbers = item.to_numpy()
    return numbers if numbers.dtype.kind in "buif" else None
