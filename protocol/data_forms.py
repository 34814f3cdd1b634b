"""Forms of pandas and pint: frames, series, indexes, quantities and units as plain parts, and back.

=================  ======================================================================================
form               parts
=================  ======================================================================================
frame              index, labels of the columns, and one array for all columns or the values of each
series             index, values, name
index              ``["range", start, stop, step, name]``, ``["values", values, name, frequency]``, or
                   ``["multi", [index, ...], [name, ...]]`` of indexes with values
values             ``["array", array]``, ``["items", [...]]``, ``["text", [...], dtype]``,
                   ``["category", codes, index, ordered]`` or
                   ``["zoned", array in UTC, zone, whether it is a ZoneInfo]``
quantity           magnitude, ``[[unit, exponent], ...]``
unit               ``[[unit, exponent], ...]``
=================  ======================================================================================

What builds gets the module and parts that nobody vouches for: numbers, labels, zones and units are checked
here before the library sees them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import zoneinfo
from typing import Any, cast

from .errors import DecodeError
from .lazily import is_array, np

RANGE_ITEMS = 1 << 16
"""Numbers that a range in an untrusted pickle may stand for."""


_CELLS = frozenset({
    type(None), bool, int, float, complex, str, bytes, dt.date, dt.datetime, dt.time, dt.timedelta,
    decimal.Decimal,
})  # fmt: skip
"""Types of what stands in a column of objects, and of names."""

_NUMBERS = frozenset({int, float, complex, decimal.Decimal})
_KINDS = "biufcmM"
_TEXTS = ("str", "string")
_UNIT = re.compile(r"\w{1,64}")
_MOST_UNITS = 64
_FREQUENCY = re.compile(r"[A-Za-z0-9+-]{1,32}")


class UnusualError(Exception):
    """An instance has something that its form does not know."""


# --- pandas ------------------------------------------------------------------------------------------


def _cell(value: Any) -> Any:
    if type(value) not in _CELLS:
        raise UnusualError
    return value


def _tell_name(name: Any) -> Any:
    """A name; that of several levels as a list."""
    return list(map(_cell, cast("tuple[Any, ...]", name))) if type(name) is tuple else _cell(name)


def _name(told: Any) -> Any:
    return tuple(map(_checked, _list(told))) if isinstance(told, list) else _checked(told)


def _tell_values(values: Any) -> list[Any]:
    """Values of a column or index."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind in _KINDS:
            return ["array", values.to_numpy()]
        return ["items", list(map(_cell, values.tolist()))]
    kind = type(dtype).__name__
    if kind == "CategoricalDtype":
        held = getattr(values, "cat", values)
        return ["category", np.asarray(held.codes), tell_index(dtype.categories), bool(dtype.ordered)]
    if kind == "DatetimeTZDtype":
        zoned = getattr(values, "dt", values)
        naive = zoned.tz_convert("UTC").dt if zoned is not values else zoned.tz_convert("UTC")
        return ["zoned", naive.tz_localize(None).to_numpy(), *_tell_zone(dtype.tz)]
    if kind == "StringDtype" and str(dtype) in _TEXTS:
        return ["text", [each if type(each) is str else None for each in values], str(dtype)]
    raise UnusualError


def _tell_zone(zone: Any) -> tuple[str, bool]:
    name = str(zone)
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise UnusualError from error
    return name, isinstance(zone, zoneinfo.ZoneInfo)


def _zone(name: Any, as_zone_info: Any) -> Any:
    """A zone as the library makes it by its name, or one of the standard library's."""
    if not isinstance(name, str):
        raise DecodeError("malformed zone")
    found = zoneinfo.ZoneInfo(name)  # which refuses paths
    return found if as_zone_info is True else name


def _values(pandas: Any, told: Any) -> Any:
    kind, first, *others = _list(told)
    if kind == "array":
        return _array(first)
    if kind == "items":
        made = np.empty(len(_list(first)), object)
        made[:] = list(map(_checked, first))
        return made
    if kind == "text" and others[0] in _TEXTS:
        return pandas.array(list(map(_checked, _list(first))), dtype=others[0])
    if kind == "category":
        return pandas.Categorical.from_codes(
            _array(first), categories=index_of(pandas, others[0]), ordered=others[1] is True
        )
    if kind == "zoned":
        return pandas.DatetimeIndex(_array(first), tz="UTC").tz_convert(_zone(*others))
    raise DecodeError("values of an unknown kind")


def tell_index(index: Any) -> list[Any]:
    """Parts of an index."""
    kind = type(index).__name__
    if kind == "RangeIndex":
        return ["range", index.start, index.stop, index.step, _tell_name(index.name)]
    if kind == "MultiIndex":
        levels = [_tell_plain(index.get_level_values(number)) for number in range(index.nlevels)]
        return ["multi", levels, list(map(_tell_name, index.names))]
    return _tell_plain(index)


def _tell_plain(index: Any) -> list[Any]:
    return ["values", _tell_values(index), _tell_name(index.name), getattr(index, "freqstr", None)]


def index_of(pandas: Any, told: Any, length: int | None = None) -> Any:
    """An index; a range has the length of what it is for, or a limited one."""
    kind, first, *others = _list(told)
    if kind == "range":
        numbers = range(first, others[0], others[1])
        if len(numbers) > (RANGE_ITEMS if length is None else length):
            raise DecodeError("an index is longer than its values")
        return pandas.RangeIndex(numbers, name=_name(others[2]))
    if kind == "multi":
        if any(_list(level)[:1] != ["values"] for level in _list(first)):  # a few bytes would stand for many
            raise DecodeError("a level of an index has no values of its own")
        levels = [index_of(pandas, level) for level in first]
        return pandas.MultiIndex.from_arrays(levels, names=list(map(_name, _list(others[0]))))
    if kind != "values":
        raise DecodeError("an index of an unknown kind")
    name, frequency = _name(others[0]), others[1]
    made = pandas.Index(_values(pandas, first), name=name, dtype=object if first[0] == "items" else None)
    if frequency is None:
        return made
    if not isinstance(frequency, str) or not _FREQUENCY.fullmatch(frequency):
        raise DecodeError("malformed frequency")
    return type(made)(made, freq=frequency)


def tell_frame(frame: Any) -> list[Any]:
    """Parts of a frame."""
    _check_unmarked(frame)
    kinds = set(frame.dtypes)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    parts = [tell_index(frame.index), tell_index(frame.columns)]
    if isinstance(kind, np.dtype) and kind.kind in _KINDS:
        return [*parts, ["array", frame.to_numpy()]]
    return [*parts, ["columns", [_tell_values(frame.iloc[:, at]) for at in range(frame.shape[1])]]]


def frame_of(pandas: Any, told: Any) -> object:
    """The frame of parts."""
    index, labels, (kind, values) = _list(told, 3)
    if kind == "array":
        block = _array(values)
        rows, columns = block.shape
        return pandas.DataFrame(
            block, index=index_of(pandas, index, rows), columns=index_of(pandas, labels, columns), copy=False
        )
    series = [_values(pandas, each) for each in _list(values)]
    rows = len(series[0]) if series else None
    made = pandas.DataFrame(dict(enumerate(series)), index=index_of(pandas, index, rows), copy=False)
    made.columns = index_of(pandas, labels, len(series))
    return made


def tell_series(series: Any) -> list[Any]:
    """Parts of a series."""
    _check_unmarked(series)
    return [tell_index(series.index), _tell_values(series), _tell_name(series.name)]


def series_of(pandas: Any, told: Any) -> object:
    """The series of parts."""
    index, values, name = _list(told, 3)
    made = _values(pandas, values)
    return pandas.Series(made, index=index_of(pandas, index, len(made)), name=_name(name), copy=False)


def _check_unmarked(data: Any) -> None:
    if data.attrs or not data.flags.allows_duplicate_labels:
        raise UnusualError


# --- pint --------------------------------------------------------------------------------------------


def _tell_units(units: Any) -> list[list[Any]]:
    told = [[name, exponent] for name, exponent in units]
    if any(type(exponent) not in (int, float) or not _UNIT.fullmatch(name) for name, exponent in told):
        raise UnusualError
    return told


def _units(pint: Any, told: Any) -> Any:
    registry = pint.get_application_registry()
    exponents: dict[str, float] = {}
    for name, exponent in _list(told)[:_MOST_UNITS]:
        if type(exponent) not in (int, float) or not isinstance(name, str) or not _UNIT.fullmatch(name):
            raise DecodeError("malformed unit")
        registry.parse_units(name)
        exponents[name] = exponent
    return pint.util.UnitsContainer(exponents)


def tell_quantity(quantity: Any) -> list[Any]:
    """Parts of a quantity."""
    magnitude = quantity.magnitude
    if is_array(magnitude):
        if magnitude.dtype.kind not in _KINDS:
            raise UnusualError
    elif type(magnitude) not in _NUMBERS:
        raise UnusualError
    return [magnitude, _tell_units(quantity.unit_items())]


def quantity_of(pint: Any, told: Any) -> object:
    """The quantity of parts, of the application's registry."""
    magnitude, units = _list(told, 2)
    if type(magnitude) not in _NUMBERS:
        magnitude = _array(magnitude)
    return pint.get_application_registry().Quantity(magnitude, _units(pint, units))


def tell_unit(unit: Any) -> list[Any]:
    """Parts of a unit."""
    return _tell_units((1 * unit).unit_items())


def unit_of(pint: Any, told: Any) -> object:
    """The unit of parts, of the application's registry."""
    return pint.get_application_registry().Unit(_units(pint, told))


# --- parts -------------------------------------------------------------------------------------------


def _list(told: Any, count: int | None = None) -> list[Any]:
    if not isinstance(told, list) or (count is not None and len(cast("list[Any]", told)) != count):
        raise DecodeError("a part is missing")
    return cast("list[Any]", told)


def _checked(value: Any) -> Any:
    if type(value) not in _CELLS:
        raise DecodeError(f"a {type(value).__name__} stands where a value is expected")
    return value


def _array(told: Any) -> Any:
    """An array that its owner may write to."""
    if not is_array(told) or told.dtype.kind not in _KINDS:
        raise DecodeError("an array is missing")
    return told if told.flags.writeable else told.copy(order="K")
