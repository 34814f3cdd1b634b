"""Plain data as JSON text.

Plain data beyond JSON is written as: tuples as lists, times in ISO form,
UUIDs as text, ``{"bytes": base64}``, ``{"complex": [re, im]}``, ``{"set": [...]}``, ``{"decimal": text}``,
``{"timedelta": [days, seconds, microseconds]}``, finer ones of numpy as ``{"timedelta64": text}``,
``{"exception": [class, text]}``, a dictionary with keys that are no plain scalars as
``{"dict": [[key, value], ...]}``, an array as ``{"ndarray": [dtype, shape]}``. Of several arrays the first
one fills the array columns. Half of a pair of surrogates is the text of its escape.

Of pandas and pint: ``{"frame": {"index": [...], "columns": [...], "data": [[...], ...]}}``,
``{"series": {"name": ..., "index": [...], "data": [...]}}``, ``{"index": [...]}``, ``{"quantity": [magnitude,
unit]}``, ``{"unit": text}``. The numbers of a frame or series of one type of numbers are an array as well.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
import uuid
from typing import Any

import numpy as np

from ...protocol import data_libraries
from . import bounds

_ESCAPE = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|(ud[89a-f]..)|.)")
"""Of JSON; half of a pair of surrogates, which SQL does not read, is a group."""


def to_json(content: object) -> tuple[str, np.ndarray | None]:
    """JSON text of plain data, ASCII only, and the first array found in it.

    Raises:
        TypeError, ValueError: as `as_value`.
    """
    arrays: list[np.ndarray] = []

    def stand_in(item: object) -> object:
        if isinstance(item, np.ndarray):
            arrays.append(item)
            return {"ndarray": [str(item.dtype), list(item.shape)]}
        form = data_libraries.form_of(type(item))
        return _plain(item) if form is None else _told(form.name, item, arrays)

    encoder = json.JSONEncoder(default=stand_in)
    try:
        text = encoder.encode(content)
    except TypeError:
        text = encoder.encode(_listed_keys(content))
    if "\\ud" in text:
        text = _ESCAPE.sub(lambda found: rf"\\{found[1]}" if found[1] else found[0], text)
    return text, arrays[0] if arrays else None


def magnitude_of(content: Any) -> int | float | None:
    """The number of a quantity that is one; None for everything else."""
    form = data_libraries.form_of(type(content))
    number = content.magnitude if form is not None and form.name == "pint.Quantity" else None
    return number if isinstance(number, int | float) else None


def _told(form: str, item: Any, arrays: list[np.ndarray]) -> object:
    """An instance of a class of `data_libraries.FORMS`."""
    if form == "pint.Quantity":
        return {"quantity": [item.magnitude, str(item.units)]}
    if form == "pint.Unit":
        return {"unit": str(item)}
    bounds.check_elements(item.size)
    if form == "pandas.Index":
        return {"index": item.tolist()}
    numbers = item.to_numpy()
    if numbers.dtype.kind in "buif":
        arrays.append(numbers)
    if form == "pandas.DataFrame":
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
        case uuid.UUID():
            return str(item)
        case BaseException():
            return {"exception": [type(item).__name__, str(item)]}
        case _:
            raise TypeError(f"content holds a {type(item).__qualname__}, which is no plain data")


def _listed_keys(item: object) -> object:
    if isinstance(item, dict):
        if all(isinstance(key, str | int | float | None) for key in item):
            return {key: _listed_keys(value) for key, value in item.items()}
        return {"dict": [[_listed_keys(key), _listed_keys(value)] for key, value in item.items()]}
    if isinstance(item, list | tuple):
        return [_listed_keys(entry) for entry in item]
    return item
