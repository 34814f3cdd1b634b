from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid

import numpy as np
import pytest

from pzc.protocol import errors
from pzc.protocol.errors import (
    RemoteError,
    SerializeError,
)
from pzc.protocol.serializers import decode, encode

PICKLES = ["pickle", *(f"pickle{n}" for n in range(6))]
NAMES = [*PICKLES, "json", "msgpack", "buffers"]


EXTRAS = [
    b"\x00\xff",
    bytearray(b"ab"),
    dt.datetime.fromisoformat("2024-01-02T03:04:05.000006"),
    dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
    dt.date(2024, 1, 2),
    dt.time(1, 2, 3, 4),
    dt.timedelta(-1, 2, 3),
    {1, "a"},
    frozenset({(1, (2,))}),
    1 - 2j,
    complex("nan+infj"),
    decimal.Decimal("1.500"),
    uuid.UUID(int=7),
    range(1, 9, 2),
    slice(None, 3),
    slice("a", dt.date(2024, 1, 2)),
    ...,
    np.int16(-3),
    np.float32(0.5),
    np.bool_(True),
    np.complex128(1j),
    np.datetime64("2024-01-02", "25us"),
    np.timedelta64(1, "s"),
    np.bytes_(b"a"),
]


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("value", EXTRAS, ids=lambda value: type(value).__name__)
def test_a_value_that_json_lacks_comes_back_as_itself(name: str, value: object) -> None:
    back = decode(name, encode(name, {"deep": [value]}), trusted=False)["deep"][0]
    assert repr(back) == repr(value)
    assert type(back) is type(value)


def test_msgpack_brings_keys_and_big_integers_back() -> None:
    value = {(1, (2, 3)): 2**64, dt.date(2024, 1, 2): [-(2**70)], b"k": {2**65: 1}}
    assert decode("msgpack", encode("msgpack", value), trusted=False) == value


EXCEPTIONS = [
    ValueError("x", 1),
    KeyError("k"),
    OSError(2, "gone", "file"),
    ImportError("x", name="y"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
    ExceptionGroup("g", [ValueError(1), KeyError(2)]),
    errors.RemoteError("a.B", "text", "trace"),
    errors.CallTimeout("late"),
    json.JSONDecodeError("m", "doc", 1),
]


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("error", EXCEPTIONS, ids=repr)
def test_a_standard_exception_comes_back_as_itself(name: str, error: Exception) -> None:
    back = decode(name, encode(name, error), trusted=False)
    assert type(back) is type(error)
    assert repr(back) == repr(error)
    assert str(back) == str(error)


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_the_notes_of_an_exception_come_back(name: str) -> None:
    error = ValueError("x")
    error.add_note("where it happened")
    assert decode(name, encode(name, error), trusted=False).__notes__ == ["where it happened"]


class Overheated(Exception):
    pass


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_an_unknown_exception_comes_back_as_a_remote_error(name: str) -> None:
    back = decode(name, encode(name, Overheated("90 K", object())), trusted=False)
    assert isinstance(back, RemoteError)
    assert back.type_name == f"{__name__}.Overheated"
    assert "90 K" in back.text


USER_DICTS = [
    {"__pzc__": "bytes", "value": "QQ=="},
    {"__pzc__": 1},
    {"a": [{"__pzc__": {"__pzc__": "set", "value": []}}]},
    {"x": b"raw", "y": {"__pzc__": None, "z": [b"raw"]}},
    ["__pzc__"],
]


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("value", USER_DICTS, ids=repr)
def test_a_users_dict_is_never_taken_for_a_tag(name: str, value: object) -> None:
    assert decode(name, encode(name, value), trusted=False) == value


def test_a_users_tag_inside_another_value_is_kept() -> None:
    error = ValueError([{"__pzc__": "set"}])
    assert decode("json", encode("json", error), trusted=False).args == (["{'__pzc__': 'set'}"],)


class Opaque:
    pass


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize(
    "value",
    [Opaque(), Opaque, np.ma.masked_array([1], [True]), memoryview(b""), {"a": {Opaque()}}, np.dtype("f8")],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_portable_form_is_an_error(name: str, value: object) -> None:
    with pytest.raises(SerializeError):
        encode(name, value)


@pytest.mark.parametrize("name", NAMES)
def test_content_that_cannot_be_expressed_is_a_serialize_error(name: str) -> None:
    with pytest.raises(SerializeError):
        encode(name, (item for item in ()))


@pytest.mark.parametrize("name", NAMES)
def test_content_nested_without_end_is_a_serialize_error(name: str) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SerializeError):
        encode(name, deep)


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_content_that_holds_itself_is_a_serialize_error(name: str) -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(SerializeError):
        encode(name, loop)
