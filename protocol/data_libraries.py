"""Data of known libraries: which of their classes are values, and how frames and quantities travel.

A form (`data_forms`) takes an instance to plain parts (numbers, texts, lists, arrays) and back, by public
names of the library. So the same arrives with and without a key, by every serializer and version.

What is unusual in an instance (attributes, other dtypes, objects in cells) has no form: it is pickled as its
library does it, which takes a key. A name that arrives is looked up in the table of forms; for senders that
are not trusted nothing is imported either, and the library has to be there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from . import data_forms, pickles
from .errors import DecodeError, SerializerRefused
from .shown import shown

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


class Form(NamedTuple):
    """How the instances of a class travel.

    Attributes:
        name: ``module.class`` as it is sent.
        tell: gives the parts of an instance.
        build: gives an instance, of the module and the parts.
    """

    name: str
    tell: Callable[[Any], list[Any]]
    build: Callable[[Any, Any], object]


def is_value(cls: type) -> bool:
    """True for a class of `LIBRARIES`; what it has a form for is pickled by that from now on."""
    if any(base.__name__ in LIBRARIES.get(base.__module__.partition(".")[0], ()) for base in cls.__mro__):
        look()
        return True
    return False


def look() -> None:
    """Have instances pickled by their forms from now on, if a library that has some is there."""
    if any(module in sys.modules for module in _WITH_FORMS):
        pickles.teach(reducer)


def form_of(cls: type) -> Form | None:
    """The form of a class; None for all others."""
    library = cls.__module__.partition(".")[0]
    if library not in _WITH_FORMS:
        return None
    for base in cls.__mro__ if library == "pint" else (cls,):
        form = FORMS.get(f"{library}.{_SHORT.get(base.__name__, base.__name__)}")
        if form is not None:
            return form
    return None


def tell(value: object) -> tuple[str, list[Any]] | None:
    """Name of the form and parts of an instance; None when it has no form, or something unusual."""
    form = form_of(type(value))
    if form is None:
        return None
    try:
        return form.name, form.tell(value)
    except data_forms.UnusualError:
        return None


def reducer(cls: type) -> Callable[[Any], Any] | None:
    """What pickles the instances of a class; None for all that have no form."""
    return None if form_of(cls) is None else _reduced


def _reduced(value: Any) -> Any:
    told = tell(value)
    return value.__reduce_ex__(5) if told is None else (rebuild, told)


def rebuild(name: str, parts: object) -> object:
    """The instance of a trusted sender, which may have its library imported.

    Raises:
        DecodeError, SerializerRefused: as `rebuild_loaded`.
    """
    if name in FORMS:
        try:
            import_module(name.partition(".")[0])
        except ImportError as error:
            raise _missing(name) from error
    return rebuild_loaded(name, parts)


def rebuild_loaded(name: object, parts: object) -> object:
    """The instance that parts stand for, which nobody vouches for.

    Raises:
        SerializerRefused: no form has that name, or its library was not imported here.
        DecodeError: parts that no instance has.
    """
    form = FORMS.get(name) if isinstance(name, str) else None
    if form is None:
        raise SerializerRefused(f"{shown(name, 80)} cannot be rebuilt here: allow it with register_class")
    library: ModuleType | None = sys.modules.get(form.name.partition(".")[0])
    if library is None:
        raise _missing(form.name)
    try:
        return form.build(library, parts)
    except DecodeError:
        raise
    except Exception as error:
        raise DecodeError(f"malformed {form.name}: {shown(str(error), 100)}") from error


def load() -> bool:
    """Import what is installed of the libraries of `FORMS`; whether one came that was not there before."""
    absent = _WITH_FORMS - sys.modules.keys()
    for library in absent:
        with suppress(ImportError):
            import_module(library)
    return not absent.isdisjoint(sys.modules)


def _missing(name: str) -> SerializerRefused:
    library = name.partition(".")[0]
    return SerializerRefused(
        f"{name} cannot be rebuilt here, because {library} was not imported: import it; "
        "what is of another class arrives after pzc.register_class"
    )


FORMS = {
    form.name: form
    for form in (
        Form("pandas.DataFrame", data_forms.tell_frame, data_forms.frame_of),
        Form("pandas.Series", data_forms.tell_series, data_forms.series_of),
        Form("pandas.Index", data_forms.tell_index, data_forms.index_of),
        Form("pint.Quantity", data_forms.tell_quantity, data_forms.quantity_of),
        Form("pint.Unit", data_forms.tell_unit, data_forms.unit_of),
    )
}
"""Forms by the names that are sent."""

_WITH_FORMS = frozenset(name.partition(".")[0] for name in FORMS)
_SHORT = {
    **dict.fromkeys(
        ("CategoricalIndex", "DatetimeIndex", "MultiIndex", "RangeIndex", "TimedeltaIndex"), "Index"
    ),
    "PlainQuantity": "Quantity",
    "PlainUnit": "Unit",
}
