"""Values of any type as text and as JSON."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import uuid
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from pzc.console.values import MAX_BYTES, MAX_ELEMENTS, to_json, to_line, to_text
from pzc.protocol.shown import plain


class Colour(enum.IntEnum):
    RED = 1


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
    | st.decimals() | st.datetimes() | st.timedeltas() | st.builds(Mute) | st.just(Colour.RED)
    | st_np.arrays(st_np.scalar_dtypes() | st_np.array_dtypes(), st_np.array_shapes(min_dims=0, min_side=0)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    | st.tuples(inner, inner),
    max_leaves=4,
)  # fmt: skip


def _dump(value: Any) -> str:
    return json.dumps(to_json(value), allow_nan=False)


@given(anything)
def test_everything_has_a_form_in_json(value: object) -> None:
    json.loads(_dump(value))


@given(anything)
def test_everything_has_a_form_on_one_printable_line(value: object) -> None:
    line = to_line(value)
    assert all(character.isprintable() for character in line)


plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(plain_json)
def test_what_json_can_say_is_said_as_it_is(value: object) -> None:
    assert json.loads(_dump(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.longdouble(0.5), 0.5),
        (np.clongdouble(1j), {"type": "complex", "real": 0.0, "imag": 1.0}),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (1 + 2j, {"type": "complex", "real": 1.0, "imag": 2.0}),
        ((1, "a"), [1, "a"]),
        ({3}, [3]),
        (b"\x00\xff", {"type": "bytes", "size": 2, "base64": "AP8="}),
        (ValueError("late"), {"type": "exception", "class": "ValueError", "text": "late"}),
        (np.arange(3, dtype="<i2"), {"type": "ndarray", "dtype": "int16", "shape": [3], "values": [0, 1, 2]}),
        (np.array(0.5), {"type": "ndarray", "dtype": "float64", "shape": [], "values": 0.5}),
        ({1: "a", "1": "b"}, {"type": "mapping", "items": [[1, "a"], ["1", "b"]]}),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (decimal.Decimal("0.10"), "0.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/run"), "/run"),
        (Colour.RED, "RED"),
    ],
)
def test_what_json_lacks_has_a_form_of_its_own(value: object, expected: object) -> None:
    assert to_json(value) == expected


def test_a_large_array_is_told_by_type_and_shape() -> None:
    assert to_json(np.zeros(MAX_ELEMENTS + 1)) == {
        "type": "ndarray", "dtype": "float64", "shape": [MAX_ELEMENTS + 1],
    }  # fmt: skip


def test_large_bytes_are_told_by_their_size() -> None:
    assert to_json(bytes(MAX_BYTES + 1)) == {"type": "bytes", "size": MAX_BYTES + 1}


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "..." in _dump(loop)
    assert "..." in to_line(loop)


def test_a_huge_number_is_told_in_hexadecimal() -> None:
    assert to_json(1 << 100_000)["type"] == "int"


def test_text_is_shown_as_it_is_without_commands_to_the_terminal() -> None:
    assert to_text("two\nlines \x1b[31m") == "two\nlines \\x1b[31m"


def test_a_line_holds_no_line_break() -> None:
    assert to_line("two\nlines") == "'two\\nlines'"


def test_an_array_is_shown_under_its_type_and_shape() -> None:
    assert to_text(np.zeros((1, 2))) == "float64 (1, 2)\n[[0. 0.]]"


def test_an_array_is_broken_at_the_width() -> None:
    lines = to_text(np.linspace(0.0, 1.0, 2000), 40).splitlines()
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize("width", [40, 200])
def test_a_table_loses_no_column_to_the_width(width: int) -> None:
    pandas = pytest.importorskip("pandas")
    names = [f"column_{number}" for number in range(15)]
    text = to_text(pandas.DataFrame({name: range(500) for name in names}), width)
    assert max(map(len, text.splitlines())) <= width
    assert set(names) <= set(text.split())
    assert text.endswith("[500 rows x 15 columns]")


def test_a_long_list_tells_its_length_on_a_line_of_its_own_where_it_is_narrow() -> None:
    assert to_text(list(range(3000)), 40).splitlines()[1] == "(3000 items; --json prints all)"


def test_a_large_array_on_a_line_is_its_type_and_shape() -> None:
    assert to_line((np.zeros((512, 1024), "uint16"), None)) == "(<uint16 (512, 1024)>, None)"


@given(st.text())
def test_plain_text_without_kept_characters_is_printable(text: str) -> None:
    assert plain(text, keep="").isprintable()


def test_a_long_list_is_told_by_its_ends() -> None:
    text = to_text(list(range(1000)))
    assert text == "[0, 1, 2, 3, 4, 5, ..., 998, 999]  (1000 items; --json prints all)"


def test_what_is_wider_than_a_line_is_broken_where_its_parts_are() -> None:
    value = {"limits": {"low": 0.1, "high": 30.0}, "image": np.zeros((100, 100)), "tags": ("x", "y")}
    assert to_text(value, 40).splitlines() == [
        "{'limits': {'low': 0.1, 'high': 30.0},",
        " 'image': <float64 (100, 100)>,",
        " 'tags': ('x', 'y')}",
    ]
    assert len(to_text(value).splitlines()) == 1


def test_what_draws_itself_on_several_lines_keeps_them() -> None:
    class Frame:
        def __repr__(self) -> str:
            return "  a  b\n0  1  2\x1b"

    assert to_text(Frame()) == "  a  b\n0  1  2\\x1b"
