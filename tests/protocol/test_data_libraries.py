"""Parts of frames and quantities that no instance has are refused, whatever they are."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import data_libraries
from pzc.protocol.errors import DecodeError, SerializerRefused

pytest.importorskip("pandas")
pytest.importorskip("pint")

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}),
    st.just(np.arange(3)), st.just(np.array([object()])), st.just(range(1 << 60)), st.just("dateutil/etc/passwd"),
    st.sampled_from(["array", "items", "text", "category", "zoned", "range", "multi", "values", "columns"]),
)  # fmt: skip
PARTS = st.recursive(ODD, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@pytest.mark.parametrize("name", list(data_libraries.FORMS))
@given(parts=PARTS)
def test_any_parts_are_built_or_refused(name: str, parts: Any) -> None:
    with contextlib.suppress(DecodeError):
        data_libraries.rebuild_loaded(name, parts)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("pandas.Index", ["range", 0, 1 << 60, 1, None]),
        (
            "pandas.Index",
            ["values", ["zoned", np.array([1], "M8[ns]"), "dateutil//etc/passwd", False], None, None],
        ),
        (
            "pandas.Index",
            ["values", ["zoned", np.array([1], "M8[ns]"), "../../etc/passwd", False], None, None],
        ),
        ("pandas.Index", ["values", ["items", [[]]], None, None]),
        ("pandas.Series", [["range", 0, 9, 1, None], ["array", np.arange(3)], None]),
        ("pandas.Series", [["range", 0, 1, 1, None], ["array", np.array([object()])], None]),
        ("pint.Quantity", [1.0, [["__import__('os')", 1]]]),
        ("pint.Quantity", [1.0, [["volt", "1"]]]),
        ("pint.Quantity", [[1.0], [["volt", 1]]]),
    ],
)
def test_what_would_cost_much_or_name_something_else_is_refused(name: str, parts: Any) -> None:
    with pytest.raises(DecodeError):
        data_libraries.rebuild_loaded(name, parts)


@pytest.mark.parametrize("name", ["pandas.read_pickle", "os.system", "pandas", "", 3, None])
def test_only_names_of_the_table_are_looked_up(name: Any) -> None:
    with pytest.raises(SerializerRefused):
        data_libraries.rebuild_loaded(name, [])
