"""Kinds of pandas and pint: frames by Arrow, quantities as magnitude and units.

A library is imported when one of its values is written or read, never before. A frame of a stranger is
bounded before pandas sees it: Arrow can compress a gigabyte, or a billion empty cells, into a few bytes.
"""

from __future__ import annotations

import re
import struct
from importlib import import_module
from typing import Any, cast

from . import kinds
from .errors import DecodeError, SerializeError
from .lazily import Lazily

pandas: Any = Lazily("pandas")

_CELLS_PER_BYTE = 64
_UNIT = re.compile(r"\w{1,64}")
_MOST_UNITS = 64
_DICTIONARY, _BATCH = 2, 3
_FLAT = frozenset({"null", "string", "large_string", "binary", "large_binary"})


# --- pandas ------------------------------------------------------------------------------------------


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise SerializeError("a frame of pandas travels by Arrow without a pickle: install pyarrow") from None


def _write_frame(frame: Any) -> bytes:
    arrow = _arrow()
    if len({*map(type, frame.columns)}) > 1:
        raise SerializeError("a frame whose columns have names of several types does not travel by Arrow")
    table, sink = arrow.Table.from_pandas(frame), arrow.BufferOutputStream()
    if not _is_flat(table.schema):
        raise SerializeError("a frame with more than one value in a cell does not travel by Arrow")
    with arrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _read_frame(raw: Any) -> Any:
    arrow = _arrow()
    for message in arrow.ipc.MessageReader.open_stream(arrow.py_buffer(raw)):
        _refuse_compressed(message.metadata.to_pybytes())
    with arrow.ipc.open_stream(arrow.py_buffer(raw)) as stream:
        if not _is_flat(stream.schema):
            raise DecodeError("a frame has more than one value in a cell")
        table = stream.read_all()
    table.validate(full=True)  # offsets and indexes, which pandas follows wherever they lead
    if table.num_rows * max(table.num_columns, 1) > _CELLS_PER_BYTE * len(raw):
        raise DecodeError("a frame has far more cells than bytes")
    return table.to_pandas()


def _is_flat(schema: Any) -> bool:
    """Whether each cell is one value, which takes as many bytes in the message."""
    types = _arrow().types
    for column in schema.types:
        kind = getattr(column, "storage_type", column)
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_primitive(kind) or types.is_decimal(kind) or str(kind) in _FLAT):
            return False
    return True


def _refuse_compressed(metadata: bytes) -> None:
    """Refuse a message of Arrow whose flatbuffer names a compression.

    The tables and slots are those of Arrow's ``Message.fbs``.
    """

    def slot(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, vtable)[0]
        offset = (
            struct.unpack_from("<H", metadata, vtable + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
        )
        return table + offset if offset else 0

    def follow(place: int) -> int:
        return place + struct.unpack_from("<I", metadata, place)[0]

    message = follow(0)
    kind, header = metadata[slot(message, 1)], follow(slot(message, 2))
    if kind == _DICTIONARY:
        kind, header = _BATCH, follow(slot(header, 1))
    if kind == _BATCH and slot(header, 3):
        raise DecodeError("a frame is compressed, so nothing bounds its size")


def _write_series(series: Any) -> list[object]:
    return [series.name, _write_frame(series.to_frame("values"))]


def _read_series(parts: Any) -> Any:
    name, raw = parts
    if isinstance(name, list):  # of JSON, which has no tuples
        name = tuple(cast("list[object]", name))
    return _read_frame(raw)["values"].rename(name)


def _write_index(index: Any) -> bytes:
    return _write_frame(pandas.DataFrame(index=index))


def _write_timestamp(moment: Any) -> list[object]:
    return [moment.isoformat(), None if moment.tz is None else str(moment.tz)]


def _read_timestamp(parts: Any) -> Any:
    text, zone = parts
    made = pandas.Timestamp(text)
    return made if zone is None else made.tz_convert(zone)


def _read_duration(text: Any) -> Any:
    return pandas.Timedelta(text)


kinds.add_of_library("pandas", ["DataFrame"], "frame", _write_frame, _read_frame)
kinds.add_of_library("pandas", ["Series"], "series", _write_series, _read_series)
kinds.add_of_library("pandas", ["Index"], "index", _write_index, lambda raw: _read_frame(raw).index)
kinds.add_of_library("pandas", ["Timestamp"], "timestamp", _write_timestamp, _read_timestamp)
kinds.add_of_library("pandas", ["Timedelta"], "duration", lambda span: span.isoformat(), _read_duration)
kinds.add_of_library("pandas", ["NaTType"], "nat", lambda _: None, lambda _: pandas.NaT)
kinds.add_of_library("pandas", ["NAType"], "na", lambda _: None, lambda _: pandas.NA)


# --- pint --------------------------------------------------------------------------------------------


def _write_units(unit: Any) -> list[object]:
    return [[name, exponent] for name, exponent in (1 * unit).unit_items()]


def _read_units(parts: Any) -> Any:
    registry = import_module("pint").get_application_registry()
    unit = registry.Unit("")
    for name, exponent in parts[:_MOST_UNITS]:
        if type(exponent) not in (int, float) or not _UNIT.fullmatch(name):
            raise DecodeError("malformed unit")
        unit *= registry.Unit(name) ** exponent
    return unit


def _read_quantity(parts: Any) -> Any:
    magnitude, units = parts
    unit = _read_units(units)
    return import_module("pint").get_application_registry().Quantity(magnitude, unit)


kinds.add_of_library(
    "pint", ["PlainQuantity"], "quantity",
    lambda quantity: [quantity.magnitude, _write_units(quantity.units)], _read_quantity,
)  # fmt: skip
kinds.add_of_library("pint", ["PlainUnit"], "unit", _write_units, _read_units)
