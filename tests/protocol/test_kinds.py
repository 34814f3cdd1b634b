"""Kinds: every value comes back with its exact type, and parts that a stranger made up are refused."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import pathlib
import zoneinfo
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from pzc.protocol import kinds
from pzc.protocol.errors import DecodeError, SerializeError, SerializerRefused
from pzc.protocol.serializers import decode, encode

NAMES = ["msgpack", "arrays", "json"]
every_name = pytest.mark.parametrize("name", NAMES)


class Mode(enum.Enum):
    """A plain one."""

    VOLTAGE = "cv"
    CURRENT = "cc"


class Level(enum.IntEnum):
    """One that is a number."""

    LOW = 1


class Bits(enum.IntFlag):
    """A status register."""

    BUSY = 1
    ERROR = 4


class Point(NamedTuple):
    """Two numbers."""

    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Span:
    """Two ends; nobody may make an empty one."""

    low: float
    high: float
    name: str = dataclasses.field(default="", init=False)

    def __post_init__(self) -> None:
        made.append(self)


made: list[Span] = []

zones = st.sampled_from(
    [None, dt.UTC, dt.timezone(dt.timedelta(hours=-3)), zoneinfo.ZoneInfo("Europe/Berlin")]
)
numbers = st.integers(-(1 << 200), 1 << 200) | st.floats(allow_nan=False)
dtypes = (
    st_np.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufcSUmM" and dtype.itemsize)
    | st_np.array_dtypes(st_np.integer_dtypes() | st_np.floating_dtypes(), min_size=1)
)  # fmt: skip
arrays = st_np.arrays(dtypes, st_np.array_shapes(max_dims=3, max_side=4))
flat = st.one_of(
    st.none(), st.booleans(), numbers, st.text(st.characters()), st.binary(), st.complex_numbers(allow_nan=False),
    st.dates(), st.times(timezones=st.none() | st.just(dt.UTC)), st.datetimes(timezones=zones, allow_imaginary=False),
    st.timedeltas(), st.decimals(allow_nan=False), st.fractions(), st.uuids(), st.binary().map(bytearray),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
    st.builds(slice, st.none() | st.integers(), st.none() | st.integers(), st.none() | st.integers()),
    st.sampled_from([..., dt.UTC, zoneinfo.ZoneInfo("Europe/Berlin"), *Mode]),
    st.sampled_from([pathlib.PurePosixPath("/a/b"), pathlib.PureWindowsPath("c:/d"), pathlib.Path("x")]),
    st.frozensets(st.integers()), st.sets(st.text()),
)  # fmt: skip
values = st.recursive(
    flat,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.sampled_from(["__pzc__", "value"]), inner, max_size=4)
        | st.builds(collections.deque, st.lists(inner, max_size=3), st.none() | st.just(3))
    ),
    max_leaves=8,
)
beyond_json = st.recursive(
    flat
    | st.sampled_from([*Level, Bits.BUSY, Bits(5), Bits(0)])
    | st.builds(np.float64, st.floats(allow_nan=False)),
    lambda inner: (
        st.tuples(inner, inner)
        | st.builds(Point, inner, inner)
        | st.dictionaries(st.integers() | st.tuples(st.integers()) | st.sampled_from(Mode), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    """Whether two values agree in type, zone and all parts."""
    if isinstance(left, np.ndarray | np.generic):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if type(left) is not type(right) or left != right:
        return False
    if isinstance(left, dict):
        return same([*left.items()], [*right.items()])
    if isinstance(left, list | tuple | collections.deque):
        return all(map(same, left, right))
    return isinstance(left, set | frozenset) or repr(left) == repr(right)


@every_name
@given(value=values)
def test_a_value_comes_back_with_its_type(name: str, value: object) -> None:
    assert same(decode(name, encode(name, value), trusted=False), value)


@pytest.mark.parametrize("name", ["msgpack", "arrays"])
@given(value=beyond_json)
def test_msgpack_has_tuples_keys_and_subclasses_of_numbers_as_well(name: str, value: object) -> None:
    assert same(decode(name, encode(name, value), trusted=False), value)


@every_name
@given(array=arrays)
def test_an_array_comes_back(name: str, array: Any) -> None:
    assert same(decode(name, encode(name, array), trusted=False), array)


@given(array=arrays)
def test_a_scalar_comes_back(array: Any) -> None:
    scalar = array.reshape(-1)[0]
    assert same(decode("msgpack", encode("msgpack", scalar), trusted=False), scalar)


@every_name
@pytest.mark.parametrize(
    "array",
    [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(24)[::-2], np.zeros((3, 0)), np.array(5)],
    ids=["by columns", "with steps", "empty", "of no dimension"],
)
def test_an_array_of_any_layout_comes_back(name: str, array: Any) -> None:
    assert same(decode(name, encode(name, array), trusted=False), array)


@every_name
def test_an_array_of_objects_comes_back_with_what_is_in_it(name: str) -> None:
    array = np.array([[None, Mode.VOLTAGE], [dt.date(2026, 1, 2), "a"]], dtype=object)
    back = decode(name, encode(name, array), trusted=False)
    assert back.dtype == object
    assert back.tolist() == array.tolist()


@every_name
def test_a_frozen_dataclass_comes_back_without_its_constructor(name: str) -> None:
    value = Span(1.0, 2.0)
    made.clear()
    assert same(decode(name, encode(name, value), trusted=False), value)
    assert not made


class Text(str):
    """A text of one's own."""

    __slots__ = ()


@every_name
@pytest.mark.parametrize(
    "value",
    [Text("x"), collections.OrderedDict(a=1), collections.defaultdict(list, a=1), collections.Counter("a")],
)
def test_a_subclass_of_a_plain_type_arrives_as_that_type(name: str, value: Any) -> None:
    back = decode(name, encode(name, value), trusted=False)
    assert type(back) in (str, dict)
    assert back == value


@pytest.mark.parametrize("value", [object(), len, Bits(8), np.ma.masked_array([1], [True])])
def test_what_has_no_kind_is_refused_by_the_sender(value: object) -> None:
    with pytest.raises(SerializeError):
        encode("msgpack", value)


# --- what a stranger may send ------------------------------------------------------------------------

KINDS = sorted(kinds._BY_NAME)  # pyright: ignore[reportPrivateUsage]
simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.binary(max_size=9)
names = st.sampled_from([
    "os.system", "builtins.object", "enum.Enum", f"{__name__}.Mode", f"{__name__}.Point", f"{__name__}.Span",
    "builtins.int", "<f8", "C", "posix", "dateutil//etc/passwd", "9" * 5000,
])  # fmt: skip
parts = st.recursive(
    simple | names | st.just(range(1 << 60)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(parts=parts)
def test_parts_that_nobody_wrote_make_a_value_or_a_decode_error(kind: str, parts: object) -> None:
    with suppress(DecodeError, SerializerRefused):
        kinds.read(kind, parts)


MANY = range(1 << 60)
HOSTILE: list[tuple[str, object]] = [
    ("unknown", []), ("bytearray", 1 << 40), ("set", MANY), ("frozenset", MANY), ("dict", MANY),
    ("deque", [MANY, None]), ("deque", [MANY, 1]), ("array", [None, [1 << 30], "C", MANY]), ("complex", MANY),
    ("timedelta", MANY), ("range", MANY), ("slice", MANY), ("dataclass", [f"{__name__}.Span", MANY]),
    ("dataclass", [f"{__name__}.Span", {"low": 1.0}]), ("namedtuple", [f"{__name__}.Point", [1]]),
    ("enum", [f"{__name__}.Mode", ["__class__"]]), ("decimal", "9" * 10_000), ("int", "0x" + "f" * 10_000),
    ("fraction", [1.5, 1]), ("fraction", [1, 0]), ("zone", "../../etc/passwd"), ("array", ["|O8", [1], "C", b"8" * 8]),
    ("array", ["<f8", [1 << 61], "C", b""]), ("array", ["<f8", [-1], "C", b""]), ("array", ["<U1", [1], "C", b"\xff" * 4]),
    ("array", ["|V0", [1 << 40], "C", b""]), ("array", [[["a", "<f8"]] * 5000, [0], "C", b""]), ("scalar", ["<f8", b""]),
    ("set", [n * ((1 << 61) - 1) for n in range(100)]), ("dict", [[n * ((1 << 61) - 1), 0] for n in range(100)]),
    ("frame", b"no arrow"), ("unit", [["__import__('os')", 1]]), ("quantity", [1.0, [["volt", "x"]]]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given"), HOSTILE, ids=lambda each: repr(each)[:40])
def test_hostile_parts_are_refused_at_once(kind: str, given: object) -> None:
    with pytest.raises(DecodeError):
        kinds.read(kind, given)


@pytest.mark.parametrize(
    "name", ["os.system", "os", "builtins.int", "nowhere.Mode", "pathlib.os.system", 7, None]
)
@pytest.mark.parametrize("kind", ["enum", "namedtuple"])
def test_a_class_that_is_not_of_the_kind_is_refused(kind: str, name: object) -> None:
    with pytest.raises(SerializerRefused, match="import its module first"):
        kinds.read(kind, [name, []])


def test_no_module_is_imported_for_a_name() -> None:
    with pytest.raises(SerializerRefused):
        kinds.read("enum", ["turtle.Mode", []])
    assert kinds.loaded("turtle.Turtle") is None


def _arrow(column: Any) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    sink, table = arrow.BufferOutputStream(), arrow.table({"c": column(arrow)})
    with arrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _far_offsets(arrow: Any) -> Any:
    offsets = arrow.py_buffer(np.array([0, 10, 1 << 30, 20], "i4"))
    return arrow.Array.from_buffers(arrow.string(), 3, [None, offsets, arrow.py_buffer(b"x" * 32)])


def _far_index(arrow: Any) -> Any:
    return arrow.DictionaryArray.from_arrays(arrow.array([1 << 30], arrow.int32()), ["a"], safe=False)


def _wide_cell(arrow: Any) -> Any:
    return arrow.FixedSizeListArray.from_arrays(arrow.nulls(1 << 26), 1 << 26)


def _many_empty(arrow: Any) -> Any:
    return arrow.nulls(1 << 26)


@pytest.mark.parametrize("column", [_far_offsets, _far_index, _wide_cell, _many_empty])
def test_a_frame_that_would_cost_or_read_more_than_it_holds_is_refused(column: Any) -> None:
    with pytest.raises(DecodeError):
        kinds.read("frame", _arrow(column))
