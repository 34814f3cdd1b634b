from __future__ import annotations

import datetime
import hashlib
import json
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.decoding.arrays import arrays_in
from pzc.pipeline.decoding.values import Value, as_value, to_json
from pzc.protocol.errors import DecodeError
from pzc.testing import Timings


def json_of(content: object) -> Any:
    return json.loads(str(as_value(content).value_json))


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (3.25, Value(value_double=3.25)),
        (math.inf, Value(value_double=math.inf)),
        (np.float32(0.1), Value(value_double=float(np.float32(0.1)))),
        (7, Value(value_long=7)),
        (-(1 << 63), Value(value_long=-(1 << 63))),
        (1 << 63, Value(value_json="9223372036854775808")),
        (np.uint64(1 << 63), Value(value_json="9223372036854775808")),
        (np.int8(-3), Value(value_long=-3)),
        (True, Value(value_bool=True)),
        (np.False_, Value(value_bool=False)),
        ("größer", Value(value_string="größer")),
        ("\ud800", Value(value_json='"\\\\ud800"')),
        (None, Value(value_json="null")),
        ((1, 2.5, None), Value(value_json="[1, 2.5, null]")),
        ({"a": [1, {"b": "c"}]}, Value(value_json='{"a": [1, {"b": "c"}]}')),
        (b"\x00\xff", Value(value_json='{"bytes": "AP8="}')),
        (1 + 2j, Value(value_json='{"complex": [1.0, 2.0]}')),
        pytest.param(
            set("hgfedcba"), Value(value_json='{"set": ["a", "b", "c", "d", "e", "f", "g", "h"]}'), id="set"
        ),
        (
            [np.longdouble(0.5), np.float32(0.1), np.uint8(3)],
            Value(value_json="[0.5, 0.10000000149011612, 3]"),
        ),
        (Decimal("1.10"), Value(value_json='{"decimal": "1.10"}')),
        (datetime.date(2024, 2, 29), Value(value_json='"2024-02-29"')),
        (datetime.timedelta(1, 2, 3), Value(value_json='{"timedelta": [1, 2, 3]}')),
        (uuid.UUID(int=1), Value(value_json='"00000000-0000-0000-0000-000000000001"')),
        ([Path("/data/a.tif")], Value(value_json='["/data/a.tif"]')),
        (Fraction(1, 3), Value(value_json='{"fraction": "1/3"}')),
        (KeyError("x"), Value(value_json='{"exception": ["KeyError", "\'x\'"]}')),
        ((1.5,), Value(value_double=1.5, value_json="[1.5]")),
        ([np.int8(3)], Value(value_long=3, value_json="[3]")),
        ([1 << 80], Value(value_json=str([1 << 80]))),
        ([True], Value(value_json="[true]")),
        ([[1.5]], Value(value_json="[[1.5]]")),
        ({1: 2}, Value(value_json='{"1": 2}')),
        ({(1, 2): "x"}, Value(value_json='{"dict": [[[1, 2], "x"]]}')),
        (
            [{b"k": {(1,): 0.5}}],
            Value(value_json='[{"dict": [[{"bytes": "aw=="}, {"dict": [[[1], 0.5]]}]]}]'),
        ),
    ],
    ids=repr,
)
def test_a_content_stands_in_the_first_column_that_fits(content: object, expected: Value) -> None:
    assert as_value(content) == expected


def test_not_a_number_is_a_double_and_none_is_not() -> None:
    assert str(as_value(math.nan).value_double) == "nan"
    assert as_value(None).value_double is None


def test_not_a_number_and_none_are_kept_apart_inside_a_content() -> None:
    found = json_of({"a": math.nan, "b": None})
    assert math.isnan(found["a"])
    assert found["b"] is None


def test_an_object_that_is_no_plain_data_is_refused() -> None:
    with pytest.raises(TypeError, match="no plain data"):
        as_value({"x": object()})


@given(st.floats(allow_nan=False))
def test_a_float_inside_a_content_comes_back_identical(number: float) -> None:
    (found,) = json_of([number])
    assert found.hex() == number.hex()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_reads_back_from_json_as_it_was(content: object) -> None:
    assert json.loads(to_json(content)) == content
    assert [*arrays_in(content)] == []


@pytest.mark.parametrize("keys", [(1, "1"), (True, "true"), (None, "null"), (1.5, "1.5")])
def test_keys_that_would_be_the_same_text_are_kept_apart(keys: tuple[object, object]) -> None:
    one, other = keys
    assert json_of({"x": {one: "a", other: "b"}}) == {"x": {"dict": [[one, "a"], [other, "b"]]}}


def test_keys_that_are_no_texts_and_differ_are_texts() -> None:
    assert json_of({1: "a", 2: "b", "x": "c"}) == {"1": "a", "2": "b", "x": "c"}


# --- arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">i4", "i8", "f2", "f4", "<f8", "?"])
def test_an_array_is_summarised_as_numpy_does(dtype: str) -> None:
    array = (
        np.arange(24).reshape(2, 3, 4) % 7 > 3 if dtype == "?" else np.arange(24).reshape(2, 3, 4)
    ).astype(dtype)
    wide = array.astype(float)
    found = as_value(array)
    assert (found.dtype, found.shape) == (str(array.dtype), [2, 3, 4])
    assert (found.min, found.max, found.mean, found.std) == (wide.min(), wide.max(), wide.mean(), wide.std())


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">i4", "f2", "<f8", "?"])
def test_an_array_of_numbers_can_be_made_again_from_its_row(dtype: str) -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(dtype))
    found = as_value(array)
    assert found.value_list is not None
    assert (np.array(found.value_list).reshape(found.shape).astype(found.dtype) == array).all()


def test_only_small_arrays_of_numbers_stand_in_a_row() -> None:
    assert as_value(np.zeros(8192)).value_list is not None
    assert as_value(np.zeros(8193)).value_list is None
    assert as_value(np.array(["a"])).value_list is None
    assert as_value(np.array([1j])).value_list is None


def test_the_digest_is_that_of_the_bytes_in_c_order() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert as_value(np.asfortranarray(array)).digest == hashlib.sha256(array.tobytes()).hexdigest()


def test_one_changed_pixel_changes_the_digest() -> None:
    array = np.zeros((8, 8), np.uint16)
    before = as_value(array).digest
    array[3, 4] = 1
    assert as_value(array).digest != before


@pytest.mark.parametrize(
    "array",
    [np.array([], dtype=float), np.array(["a"]), np.array([1j]), np.array(["2024-01-01"], "M8[D]")],
    ids=["empty", "text", "complex", "dates"],
)
def test_an_array_without_an_order_has_no_statistics(array: np.ndarray) -> None:
    found = as_value(array)
    assert (found.min, found.max, found.mean, found.std) == (None, None, None, None)
    assert found.digest == hashlib.sha256(array.tobytes()).hexdigest()


def test_an_array_of_objects_has_no_digest() -> None:
    assert as_value(np.array([None, "x"], dtype=object)).digest is None


def test_an_array_of_no_dimensions_is_an_array() -> None:
    assert as_value(np.array(2.5))._replace(digest=None) == Value(
        value_list=[2.5], dtype="float64", shape=[], min=2.5, max=2.5, mean=2.5, std=0.0
    )


def test_an_array_in_a_dictionary_is_summarised_beside_its_json() -> None:
    found = as_value({"index": 3, "image": np.array([[1, 3]], np.uint16)})
    assert found.value_json == '{"index": 3, "image": {"ndarray": ["uint16", [1, 2]]}}'
    assert (found.dtype, found.shape, found.mean) == ("uint16", [1, 2], 2.0)


def test_of_several_arrays_the_first_is_summarised() -> None:
    found = as_value({"a": [np.array([5])], "b": np.array([7])})
    assert found.max == 5.0
    assert json.loads(str(found.value_json))["b"] == {"ndarray": ["int64", [1]]}


KEYS = st.text() | st.integers() | st.sampled_from(["a.b", "a", "b", "[0]", '"', "\ud800", ""])


@given(st.recursive(
    st.builds(np.zeros, st.integers(0, 2)), lambda held: st.lists(held) | st.dictionaries(KEYS, held),
    max_leaves=8,
))  # fmt: skip
def test_each_path_leads_to_one_array_whatever_the_keys_are(content: object) -> None:
    paths = [path for path, _ in arrays_in(content)]
    assert len(set(paths)) == len(paths)
    assert all(path.isprintable() for path in paths)


def test_arrays_beyond_the_numbers_of_a_row_have_their_digests_only() -> None:
    arrays = as_value([np.ones(8192)] * 11).arrays or []
    assert [each["path"] for each in arrays[:2]] == ["[0]", "[1]"]
    assert sum(each["values"] is not None for each in arrays) == 8
    assert len({each["digest"] for each in arrays}) == 1


def test_paths_that_are_longer_than_a_text_may_be_are_refused() -> None:
    with Timings(stored_text=1000), pytest.raises(DecodeError, match="paths of its arrays"):
        as_value({"a" * 90: [np.ones(1)] * 20})


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("\ud800", "\\ud800"),
        ("a\udfff\ud800", "a\\udfff\\ud800"),
        ("\ud800\\ud800", "\\ud800\\ud800"),
        ("\U0001f600\ud83d", "\U0001f600\\ud83d"),
        ("\\\U0001f600", "\\\U0001f600"),
    ],
)
def test_half_a_character_is_its_escape_in_a_text_that_sql_can_read(text: str, stored: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = as_value({"a": text}).value_json
    assert json.loads(str(found)) == {"a": stored}
    assert duckdb.execute("select ? ->> '$.a'", [found]).fetchall() == [(stored,)]


@pytest.mark.parametrize(
    ("content", "stored"),
    [
        (np.complex64(1 + 2j), {"complex": [1.0, 2.0]}),
        (np.datetime64("2026-01-02T03:04:05.000000006"), "2026-01-02T03:04:05.000000006"),
        (np.timedelta64(5, "s"), {"timedelta": [0, 5, 0]}),
        (np.timedelta64(5, "ns"), {"timedelta64": "5 nanoseconds"}),
    ],
)
def test_other_scalars_of_numpy_are_json(content: object, stored: object) -> None:
    assert json_of(content) == stored
    assert json_of([content]) == [stored]
