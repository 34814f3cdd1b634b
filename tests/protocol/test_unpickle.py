from __future__ import annotations

import array
import collections
import concurrent.futures
import contextlib
import datetime as dt
import decimal
import fractions
import ipaddress
import json
import pathlib
import pickle
import re
import struct
import uuid
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import errors
from pzc.protocol.errors import DecodeError, SerializerRefused
from pzc.protocol.unpickle import restricted_loads

from tests.protocol.pickling import (
    PROTOCOLS,
    Frozen,
    LabError,
    Mode,
    Pair,
    Point,
    Register,
    Row,
    Status,
    Table,
    call,
)

PLAIN = [
    None,
    True,
    False,
    0,
    -1,
    255,
    256,
    65536,
    -(2**40),
    2**200,
    1.5,
    float("inf"),
    "",
    "é\n\\",
    "\ud800",
    b"",
    b"\x00\xff" * 200,
    bytearray(b"xy"),
    1 + 2j,
    range(1, 9, 2),
    slice(1, None, 2),
    (),
    (1,),
    (1, (2, (3,))),
    [],
    [1, [2]],
    {},
    {"a": {"b": [1]}},
    set(),
    {1, 2},
    frozenset({(1, 2), frozenset({3})}),
    dt.datetime.fromisoformat("2024-01-02T03:04:05.000006"),
    dt.datetime.fromisoformat("2024-01-02").replace(fold=1),
    dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
    dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2), "lab")),
    dt.date(2024, 1, 2),
    dt.time(1, 2, 3),
    dt.timedelta(1, 2, 3),
    decimal.Decimal("1.50"),
    fractions.Fraction(-1, 3),
    uuid.UUID(int=5),
    pathlib.PurePosixPath("a/b"),
    pathlib.PureWindowsPath("c:/b"),
    pathlib.Path("a/b"),
    ipaddress.ip_address("10.0.0.7"),
    ipaddress.ip_network("fe80::/64"),
    array.array("d", [1.5, 2.5]),
    ...,
    (..., slice(None), 0),
    re.RegexFlag.IGNORECASE | re.RegexFlag.MULTILINE,
    Status(0),
    Status.READY | Status.OVERLOAD,
    Register.READY | Register(64),
    collections.OrderedDict(b=1, a=2),
    collections.deque([1, 2]),
    collections.deque([1, 2], 5),
    collections.defaultdict(list, {1: [2]}),
    collections.Counter("abca"),
    int,
    dict,
    np.float64,
    Point(1, [2]),
    Frozen(3),
    Pair(1, (2, 3)),
    Mode.FAST,
    Table(a=1),
    Row([1, 2]),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_an_allowed_value_comes_back_equal_and_of_its_type(value: object, protocol: int) -> None:
    back = restricted_loads(pickle.dumps(value, protocol))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_time_in_a_zone_comes_back_in_its_zone(protocol: int) -> None:
    when = dt.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    back = restricted_loads(pickle.dumps(when, protocol))
    assert isinstance(back, dt.datetime)
    assert back.tzinfo is when.tzinfo


@pytest.mark.parametrize("args", [("d", 1, b""), (int, "d", 15, b""), ("q", "d", 15, b"1")])
def test_an_array_of_the_standard_library_has_an_items_type_and_bytes(args: tuple[object, ...]) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(call("array", "_array_reconstructor", *args))


EXCEPTIONS = [
    ValueError("x", 1),
    KeyError("k"),
    OSError(2, "gone", "file"),
    ConnectionResetError(104, "reset"),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "why"),
    ImportError("x", name="y"),
    StopIteration(3),
    ExceptionGroup("g", [ValueError(1)]),
    SyntaxError("bad", ("f", 1, 2, "text", 1, 3)),
    concurrent.futures.CancelledError(),
    concurrent.futures.TimeoutError(),
    json.JSONDecodeError("m", "doc", 1),
    struct.error("s"),
    errors.RemoteError("a", "b", "c"),
    errors.CallTimeout("late"),
    LabError("smoke"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("error", EXCEPTIONS, ids=repr)
def test_an_allowed_exception_comes_back(error: Exception, protocol: int) -> None:
    back = restricted_loads(pickle.dumps(error, protocol))
    assert isinstance(back, Exception)
    assert str(back) == str(error)
    # Protocols 0 to 2 use the names of Python 2, where OSError had no subclasses.
    assert type(back) is type(error) or (protocol < 3 and isinstance(error, type(back)))


NEWER = (
    b"\x80\x04\x8c\x08builtins\x8c\x0eAttributeError\x93\x8c\nno voltage\x94\x85\x94R}(\x8c\x04name\x8c\x07voltage"
    b"\x8c\x04argsh\x01ub."
)
"""As Python 3.12 and later pickle it: its arguments come again in its state."""


def test_an_attribute_error_of_a_newer_python_comes_back() -> None:
    back = restricted_loads(NEWER)
    assert (type(back), back.args, back.name) == (AttributeError, ("no voltage",), "voltage")


def test_the_notes_of_an_exception_come_back() -> None:
    error = ValueError("x")
    error.add_note("remote traceback")
    back = restricted_loads(pickle.dumps(error))
    assert getattr(back, "__notes__", None) == ["remote traceback"]


def test_a_memoized_object_stays_one_object() -> None:
    shared = [1]
    back = restricted_loads(pickle.dumps([shared, shared]))
    assert isinstance(back, list)
    assert back[0] is back[1]


def test_a_list_may_hold_itself() -> None:
    loop: list[object] = []
    loop.append(loop)
    back = restricted_loads(pickle.dumps(loop))
    assert isinstance(back, list)
    assert back[0] is back


def test_a_python_2_pickle_is_understood() -> None:
    texts = b"U\x01aq\x00X\x01\x00\x00\x00bq\x01"
    numbers = b"c__builtin__\nxrange\nK\x01K\x03K\x01\x87R"
    error = b"cexceptions\nValueError\nU\x01x\x85R"
    back = restricted_loads(b"\x80\x02(" + texts + numbers + error + b"c__builtin__\nset\n]K\x01a\x85Rt.")
    assert isinstance(back, tuple)
    assert back[:3] == ("a", "b", range(1, 3))
    assert type(back[3]) is ValueError
    assert back[4] == {1}


ARRAYS = [
    np.arange(6).astype(code).reshape(2, 3)
    for code in ("i1", ">i4", "u8", "f2", "f4", ">f8", "c8", "c16", "m8[ns]", "M8[25us]", "M8[D]")
] + [
    np.array([True, False]),
    np.array(3.5),
    np.zeros((2, 0)),
    np.array(["a", "bé"]),
    np.array([b"abc"]),
    np.zeros(2, "V3"),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(20)[::3],
    np.zeros((2, 2, 2, 2)),
    np.zeros(3, [("a", ">i4"), ("b", "f8", (2,)), ("c", "U3")]),
    np.zeros(2, np.dtype([("x", "u1"), ("y", "f8")], align=True)),
    np.array([None, [1], "x", (2,), 3.5], dtype=object),
    np.zeros(2, [("o", object), ("n", "i4")]),
    np.zeros(0, object),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_an_array_comes_back(array: np.ndarray, protocol: int) -> None:
    back = restricted_loads(pickle.dumps(array, protocol))
    assert isinstance(back, np.ndarray)
    assert back.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    assert back.shape == array.shape
    assert repr(back.tolist()) == repr(array.tolist())
    assert back.dtype.isalignedstruct == array.dtype.isalignedstruct


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(1.5),
        np.float16(1),
        np.int8(-3),
        np.bool_(True),
        np.complex64(1j),
        np.str_("é"),
        np.bytes_(b"q"),
        np.datetime64("2024-01-02", "25us"),
        np.timedelta64(3, "s"),
        np.zeros(1, [("a", "i4")])[0],
    ],
    ids=repr,
)
def test_a_numpy_scalar_comes_back(scalar: np.generic, protocol: int) -> None:
    back = restricted_loads(pickle.dumps(scalar, protocol))
    assert back == scalar
    assert type(back) is type(scalar)


@pytest.mark.parametrize("spelling", [b"numpy.core", b"numpy._core"])
def test_both_spellings_of_numpy_internals_are_understood(spelling: bytes) -> None:
    data = pickle.dumps(np.arange(3), 2).replace(b"numpy._core", spelling).replace(b"numpy.core", spelling)
    assert np.array_equal(restricted_loads(data), np.arange(3))


def test_out_of_band_buffers_are_used_without_a_copy() -> None:
    found: list[pickle.PickleBuffer] = []
    data = pickle.dumps(np.arange(9.0), 5, buffer_callback=found.append)
    frame = bytes(found[0].raw())
    back = restricted_loads(data, [memoryview(frame)])
    assert isinstance(back, np.ndarray)
    assert np.shares_memory(back, np.frombuffer(frame))


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers() | st.text())
    ),
)


@given(nested, st.sampled_from(PROTOCOLS))
def test_it_agrees_with_pickle_on_plain_data(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    assert restricted_loads(data) == pickle.loads(data)


@given(st.binary(max_size=200))
def test_random_bytes_give_data_or_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError, SerializerRefused):
        restricted_loads(data)


@given(st.sampled_from([*PLAIN, *EXCEPTIONS, *ARRAYS]), st.sampled_from(PROTOCOLS), st.data())
def test_a_damaged_pickle_gives_data_or_a_typed_error(
    value: object, protocol: int, draw: st.DataObject
) -> None:
    data = bytearray(pickle.dumps(value, protocol))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError, SerializerRefused):
        restricted_loads(data)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_truncated_pickle_is_refused(protocol: int) -> None:
    data = pickle.dumps({"a": [1.5, "text", (1, 2, b"raw")]}, protocol)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            restricted_loads(data[:end])


@pytest.mark.parametrize("tail", [b"x", b".", b"garbage.", b"N.", pickle.dumps(1)])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bytes_after_the_pickle_are_refused(protocol: int, tail: bytes) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(pickle.dumps([1, "a"], protocol) + tail)
