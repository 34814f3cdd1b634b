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
from .msgpack_check import ITEMS

pandas: Any = Lazily("pandas")

_CELLS_PER_BYTE = 8
_UNIT = re.compile(r"\w{1,64}")
_MOST_UNITS = 64
_MOMENT = 64
_DICTIONARY, _BATCH = 2, 3
_NODES, _COMPRESSION, _VARIADIC = 1, 3, 4


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
    _check_flat(table)
    with arrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _read_frame(raw: Any) -> Any:
    arrow = _arrow()
    messages = arrow.ipc.MessageReader.open_stream(arrow.py_buffer(raw))
    if sum(_cells(each.metadata.to_pybytes()) for each in messages) > ITEMS + _CELLS_PER_BYTE * len(raw):
        raise DecodeError("a frame has far more cells than bytes")
    with arrow.ipc.open_stream(arrow.py_buffer(raw)) as stream:
        table = stream.read_all()
    _check_flat(table)
    table.validate(full=True)  # else an offset may point anywhere
    return table.to_pandas()


def _check_flat(table: Any) -> None:
    # Lists would arrive as arrays, and their items can unfold to any size.
    if any(field.type.num_fields for field in table.schema):
        raise SerializeError("a frame with lists or tables in its cells does not travel by Arrow")


def _cells(metadata: bytes) -> int:
    """Return how many cells a message of Arrow has, with those of dictionaries.

    The tables and slots are those of Arrow's ``Message.fbs``.

    Raises:
        DecodeError: the message is compressed, or has cells that may share their bytes.
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
    if kind != _BATCH:
        return 0
    if slot(header, _COMPRESSION) or slot(header, _VARIADIC):
        raise DecodeError("a frame is compressed, or has cells that share bytes: nothing bounds its size")
    nodes = follow(slot(header, _NODES))
    count = struct.unpack_from("<I", metadata, nodes)[0]
    return sum(map(abs, struct.unpack_from(f"<{2 * count}q", metadata, nodes + 4)[::2]))


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
    made = pandas.Timestamp(text[:_MOMENT])  # long texts take pandas minutes
    if str(zone).startswith("dateutil"):
        raise DecodeError("a zone may not name a file")
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
    if isinstance(magnitude, list | tuple | str):  # which pint would make an array of, of any size
        raise DecodeError("a magnitude is a number or an array")
    unit = _read_units(units)
    return import_module("pint").get_application_registry().Quantity(magnitude, unit)


kinds.add_of_library(
    "pint", ["PlainQuantity"], "quantity",
    lambda quantity: [quantity.magnitude, _write_units(quantity.units)], _read_quantity,
)  # fmt: skip
kinds.add_of_library("pint", ["PlainUnit"], "unit", _write_units, _read_units)
