"""Pickles of strangers: plain data of every protocol is read, and nothing that would cost or run anything."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import os
import pickle
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.errors import DecodeError, SerializerRefused
from pzc.protocol.restricted import COSTLY, LEVELS, OPCODES, loads

every_protocol = pytest.mark.parametrize("protocol", range(6))
WHEN = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone(dt.timedelta(hours=1), "x"))

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.complex_numbers(allow_nan=False) | st.dates() | st.timedeltas() | st.decimals(allow_nan=False) | st.just(WHEN),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3)
    | st.sets(st.integers()) | st.just(bytearray(b"x")),
    max_leaves=8,
)  # fmt: skip


@every_protocol
@given(value=plain)
def test_plain_data_comes_back(protocol: int, value: object) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


@every_protocol
@pytest.mark.parametrize("value", ["text", b"bytes", WHEN, WHEN.date(), decimal.Decimal("1.10"), 1j, 1 << 80])
def test_what_has_no_parts_may_be_in_several_places(protocol: int, value: object) -> None:
    assert loads(pickle.dumps([value, {"again": value}, (value,)], protocol)) == [
        value,
        {"again": value},
        (value,),
    ]


@every_protocol
@pytest.mark.parametrize(
    "value", [collections.OrderedDict(a=1), collections.deque([1, 2]), set(), ()], ids=repr
)
def test_a_container_keeps_its_type(protocol: int, value: object) -> None:
    back = loads(pickle.dumps(value, protocol))
    assert (type(back), back) == (type(value), value)


@every_protocol
@pytest.mark.parametrize(
    "error", [ValueError("x", 1), KeyError(), OSError(2, "no file", "a"), StopIteration(3)], ids=repr
)
def test_an_exception_of_python_comes_back(protocol: int, error: Exception) -> None:
    back = loads(pickle.dumps(error, protocol))
    assert (type(back), repr(back)) == (type(error), repr(error))


def test_the_names_of_python_2_are_read() -> None:
    assert loads(b"c__builtin__\nset\n((lI1\natR.") == {1}
    assert type(loads(b"cexceptions\nKeyError\n(S'x'\ntR.")) is KeyError


@pytest.mark.parametrize(
    "content",
    [
        os.system,
        print,
        np.zeros(3),
        np.float64(1),
        type,
        range(3),
        ValueError,
        collections.Counter("a"),
        SystemExit(1),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
@every_protocol
def test_a_name_that_is_not_listed_is_refused(protocol: int, content: object) -> None:
    if content is ValueError:
        assert loads(pickle.dumps(content, protocol)) is ValueError
        return
    with pytest.raises((SerializerRefused, DecodeError)):
        loads(pickle.dumps(content, protocol))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("content", [np.ma.masked_array([1.0], [True]), Random(1)], ids=type)
def test_a_class_with_attributes_is_refused_by_its_name(protocol: int, content: object) -> None:
    with pytest.raises(SerializerRefused, match=f"may not name {type(content).__module__}"):
        loads(pickle.dumps([content], protocol))


@every_protocol
def test_a_text_that_needs_no_frame_may_be_in_several_places(protocol: int) -> None:
    value = ["x" * 100_000] * 3
    assert loads(pickle.dumps(value, protocol)) == value


def test_a_refused_name_is_told_with_what_to_do() -> None:
    with pytest.raises(SerializerRefused, match=r"may not name posix\.system.*PZC_KEY"):
        loads(b"cposix\nsystem\n(S'id'\ntR.")


def shared(levels: int) -> bytes:
    """A list of twice the same list, and so on."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return pickle.dumps(value)


HOSTILE = {
    "high index of the memo": b"]r\xff\xff\xff\x7f.",
    "index below zero": b"]p-5\n.",
    "a list in two places": shared(1),
    "a list in a million places": shared(20),
    "a list in itself": b"]q\x00h\x00a.",
    "a tuple in two places": pickle.dumps((x := (1, 2), x)),
    "attributes": b"cbuiltins\nValueError\n)R}X\x01\x00\x00\x00aK\x01sb.",
    "an extension": b"\x82\x01.",
    "a persistent name": b"Pname\n.",
    "a copy of the top": b"]2\x86.",
    "an instance of old": b"(icexceptions\nKeyError\n.",
    "a buffer beside it": b"\x97.",
    "many opcodes": b"(" + b"N" * (OPCODES + 1) + b"l.",
    "many tuples": b"(" + b"N\x85" * (COSTLY + 1) + b"l.",
    "many large integers": b"(" + b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01" * (COSTLY + 1) + b"l.",
    "nested lists": b"]" * (LEVELS + 1) + b"a" * LEVELS + b".",
    "nested deeply": b"]" * 200_000 + b"a" * 199_999 + b".",
    "many bytes of nothing": b"cbuiltins\nbytes\n\x8a\x05\x00\x00\x00\x00\x10\x85R.",
    "a bytearray of a length": b"cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x10\x85R.",
    "a claim of many bytes": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx.",
    "another encoding": b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hext R.",
    "nothing on the stack": b"0.",
    "more behind": pickle.dumps(1) + b".",
    "no end": pickle.dumps([1])[:-1],
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused(name: str) -> None:
    with pytest.raises(DecodeError):
        loads(HOSTILE[name])


SAMPLES = [
    pickle.dumps({"a": [1, (2.5, None), b"x", {3}], "at": WHEN, "e": KeyError(1)}, n) for n in range(6)
]


@given(st.sampled_from(SAMPLES), st.data())
def test_altered_bytes_give_data_or_an_error_of_ours(sample: bytes, data: st.DataObject) -> None:
    raw = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        raw = raw or bytearray(b".")
    with suppress(DecodeError, SerializerRefused):
        loads(raw)
