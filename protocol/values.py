"""Values: what goes by value, as a copy. Everything else refers to an object, which stays where it is.

=========================================================  ===============================================
by value                                                   with
=========================================================  ===============================================
None, booleans, numbers, text, bytes, dates, ranges        their subclasses
`Decimal`, `Fraction`, `UUID`, paths, enums, exceptions    their subclasses
scalars, types and arrays of NumPy                         objects in an array, when these are values
named tuples, and the containers of the standard library   what is in them, when that are values
dataclasses that are frozen, or have no methods            their fields, when these are values
what `register_class` names                                -
what `LIBRARIES` names, of libraries for data              -
=========================================================  ===============================================

A subclass of a container counts as one when it adds no methods.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import inspect
import ipaddress
import pathlib
import re
import types
import uuid
import weakref
from collections.abc import Callable, Collection
from typing import Any, Generic, TypeVar, cast

from .errors import ConfigError
from .kinds import qualified
from .lazily import numpy_kind

C = TypeVar("C", bound=type)

LIBRARIES: dict[str, frozenset[str]] = {
    "astropy": frozenset({"QTable", "Quantity", "SkyCoord", "Table", "Time", "TimeDelta", "UnitBase"}),
    "pandas": frozenset({"DataFrame", "Index", "Interval", "NAType", "Period", "Series"}),
    "pint": frozenset({"Measurement", "PlainQuantity", "PlainUnit", "Quantity", "Unit"}),
    "polars": frozenset({"DataFrame", "DataType", "LazyFrame", "Series"}),
    "pyarrow": frozenset(
        {"Array", "ChunkedArray", "DataType", "Field", "RecordBatch", "Scalar", "Schema", "Table"}
    ),
    "quantities": frozenset({"Quantity", "UnitQuantity"}),
    "scipy": frozenset({"Rotation", "sparray", "spmatrix"}),
    "torch": frozenset({"Size", "Tensor", "dtype"}),
    "uncertainties": frozenset({"AffineScalarFunc", "UFloat", "Variable"}),
    "xarray": frozenset({"DataArray", "Dataset", "Variable"}),
}
"""Classes of data, and their subclasses, by library."""

_ATOMS: tuple[type, ...] = (
    types.NoneType, types.EllipsisType, types.NotImplementedType, bool, int, float, complex, str, bytes,
    bytearray, memoryview, array.array, range, slice, re.Pattern, dt.date, dt.time, dt.timedelta, dt.tzinfo,
    decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePath, enum.Enum, BaseException,
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    ipaddress.IPv4Interface, ipaddress.IPv6Interface,
)  # fmt: skip
_PAIRS = (dict, collections.ChainMap, types.MappingProxyType)
_ITEMS = (list, tuple, set, frozenset, collections.deque)
_INERT = {
    *_ITEMS, *_PAIRS, collections.OrderedDict, collections.defaultdict, collections.Counter, Generic, object,
}  # fmt: skip

PLAIN: frozenset[type] = frozenset({
    types.NoneType, bool, int, float, complex, str, bytes, bytearray, dt.date, dt.datetime, dt.time,
    dt.timedelta, dt.timezone, decimal.Decimal, uuid.UUID,
})  # fmt: skip
"""Types whose instances are values at first sight."""

_BEHAVIOUR = frozenset({
    "__call__", "__delattr__", "__delitem__", "__enter__", "__getattr__", "__getattribute__", "__getitem__",
    "__iter__", "__missing__", "__setattr__", "__setitem__",
})  # fmt: skip
"""Special methods that make more of an instance than its contents."""

Parts = Callable[[Any], Collection[object]]
_known: weakref.WeakKeyDictionary[type, Parts] = weakref.WeakKeyDictionary()


def _nothing(_value: object) -> Collection[object]:
    return ()


def _itself(value: Collection[object]) -> Collection[object]:
    return value


def _keys_and_values(value: Any) -> Collection[object]:
    return [*value, *value.values()]


def _objects(value: Any) -> Collection[object]:
    return value.ravel().tolist() if value.dtype.hasobject else ()


def _fields(value: Any) -> Collection[object]:
    return [getattr(value, field.name, None) for field in dataclasses.fields(value)]


_COMMON: dict[type, Parts] = {list: _itself, tuple: _itself, dict: _keys_and_values}


TRAVELLING: set[type] = set()
"""Classes that `add` has named; nothing of an instance is looked at before it is used where it arrived."""


def register_class(cls: C) -> C:
    """Have instances of a class go by value instead of by reference; usable as a decorator.

    They travel as pickles, so both sides need a key of role operator or above, and have to be able to import
    the class.

    Raises:
        ConfigError: not a class, or one made inside a function.
    """
    if not isinstance(cast(object, cls), type) or "<locals>" in cls.__qualname__:
        raise ConfigError(f"{cls!r} is not a class that a pickle can name")
    _known[cls] = _nothing
    return cls


def add(cls: type) -> None:
    """Have the instances of a class go by value: what is copied is where to find what they stand for."""
    _known[cls] = _nothing
    TRAVELLING.add(cls)


def first_reference(value: object) -> object:
    """An object in a value that does not go by value, such as an instrument in a list; None without one."""
    if type(value) in PLAIN:
        return None
    waiting, seen = [value], set[int]()
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind in PLAIN:
            continue
        parts_of = _COMMON.get(kind) or _known.get(kind) or _classify(kind)
        if parts_of is None:
            return each
        if id(each) not in seen:
            seen.add(id(each))
            parts = parts_of(each)
            if not PLAIN.issuperset(map(type, parts)):
                waiting += parts
    return None


def is_class_of_values(cls: type) -> bool:
    """True when the instances of a class go by value, as far as what is in them does."""
    return cls in PLAIN or cls in _COMMON or cls in _known or _classify(cls) is not None


def _classify(cls: type[object]) -> Parts | None:
    """What is in an instance of a class, or None when it is no value."""
    if not TRAVELLING.isdisjoint(cls.__mro__):
        return _nothing
    parts: Parts | None = None
    bases = set(cls.__mro__)
    kind = numpy_kind(cls)
    if kind == "ndarray":
        parts = _objects
    elif kind or issubclass(cls, _ATOMS) or _is_data(cls):
        parts = _nothing
    elif dataclasses.is_dataclass(cls):
        frozen = cast(Any, cls).__dataclass_params__.frozen
        parts = _fields if frozen or not _behaves(cls) else None
    elif bases.intersection(_PAIRS) and not _behaves(cls):
        parts = _keys_and_values
    elif bases.intersection(_ITEMS) and (hasattr(cls, "_fields") or not _behaves(cls)):
        parts = _itself
    if parts is not None:
        _known[cls] = parts
    return parts


def _is_data(cls: type) -> bool:
    return any(base.__name__ in LIBRARIES.get(base.__module__.partition(".")[0], ()) for base in cls.__mro__)


def _behaves(cls: type[Any]) -> bool:
    """Whether a class, or one that it is made of, has methods or properties of its own."""
    for base in cls.__mro__:
        if base in _INERT or base.__module__ in ("abc", "collections.abc", "typing"):
            continue
        for name, attribute in vars(base).items():
            special = name.startswith("__") and name.endswith("__")
            if special and name not in _BEHAVIOUR:
                continue
            if inspect.ismemberdescriptor(attribute) or inspect.isgetsetdescriptor(attribute):
                continue
            if not isinstance(attribute, type) and (callable(attribute) or hasattr(attribute, "__get__")):
                return True
    return False


def told(value: object, inside: object) -> str:
    """What a value is that holds a reference, in words: ``a list with a Channel``."""
    name = qualified(type(inside)).removeprefix("builtins.")
    return f"a {name}" if value is inside else f"a {type(value).__name__} with a {name}"
