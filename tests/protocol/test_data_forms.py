"""Frames, series, indexes, quantities and units come back as they were; what is unusual has no form."""

from __future__ import annotations

import pickle
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import data_libraries
from pzc.protocol.errors import DecodeError
from pzc.protocol.serializers import decode, encode
from pzc.protocol.unpickle import restricted_loads

pd = pytest.importorskip("pandas")
pint = pytest.importorskip("pint")

TIMES = pd.date_range("2026-03-01", periods=3, freq="h")
INDEXES = {
    "range": pd.RangeIndex(2, 8, 2, name="n"),
    "numbers": pd.Index([1.5, 2.5, 3.5]),
    "texts": pd.Index(["a", "b", "c"], name="channel"),
    "times with a frequency": TIMES,
    "times of a zone": TIMES.tz_localize("Europe/Berlin"),
    "times of a zone of the standard library": TIMES.tz_localize(zoneinfo.ZoneInfo("Asia/Tokyo")),
    "spans": pd.to_timedelta([1, 2, 3], unit="s"),
    "levels": pd.MultiIndex.from_product([["a", "b", "c"], [1]], names=["x", "y"]),
    "categories": pd.CategoricalIndex(["a", "b", "a"], ordered=True),
    "named by levels": pd.Index([1, 2, 3], name=("x", 1)),
}
SERIES = {
    **{f"index of {name}": pd.Series([1, 2, 3], index=index) for name, index in INDEXES.items()},
    "objects": pd.Series([1, "a", None], name="mixed"),
    "categories": pd.Series(["a", "b", "a"], dtype="category"),
    "texts": pd.Series(["a", None, "c"], dtype="string"),
    "times of a zone": pd.Series(TIMES.tz_localize("UTC")),
    "nothing": pd.Series([], dtype="float64"),
}
FRAMES = {
    "one kind": pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"], index=TIMES),
    "several kinds": pd.DataFrame(
        {"n": [1, 2, 3], "t": ["a", "b", "c"], "c": pd.Categorical(["x", "y", "x"])}
    ),
    "two columns of one name": pd.DataFrame([[1, "a"]], columns=["a", "a"]),
    "no columns": pd.DataFrame(index=pd.RangeIndex(3)),
}


def units() -> Any:
    """The application's registry, which takes a second to make."""
    return pint.get_application_registry()


def back(value: Any) -> Any:
    """A value after its parts went over the wire unsigned."""
    found = data_libraries.tell(value)
    assert found is not None
    name, parts = found
    return data_libraries.rebuild_loaded(name, decode("msgpack", encode("msgpack", parts), trusted=False))


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_comes_back(name: str) -> None:
    pd.testing.assert_index_equal(back(INDEXES[name]), INDEXES[name], exact=True)
    assert getattr(back(INDEXES[name]), "freqstr", None) == getattr(INDEXES[name], "freqstr", None)


@pytest.mark.parametrize("name", SERIES)
def test_a_series_comes_back(name: str) -> None:
    pd.testing.assert_series_equal(back(SERIES[name]), SERIES[name])


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back(name: str) -> None:
    pd.testing.assert_frame_equal(back(FRAMES[name]), FRAMES[name], check_column_type=False)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5)), max_size=5))
def test_any_cells_come_back(rows: list[tuple[int, float, str]]) -> None:
    frame = pd.DataFrame({"i": [r[0] for r in rows], "f": [r[1] for r in rows], "t": [r[2] for r in rows]})
    pd.testing.assert_frame_equal(back(frame), frame, check_column_type=False)


@pytest.mark.parametrize("magnitude", [3, 1.5, 2j, np.arange(3.0)], ids=repr)
def test_a_quantity_comes_back(magnitude: Any) -> None:
    quantity = units().Quantity(magnitude, "volt / second ** 2")
    found = back(quantity)
    assert np.array_equal(found.magnitude, magnitude)
    assert found.units == quantity.units


def test_a_unit_comes_back() -> None:
    unit = units().Unit("kilogram * metre")
    assert back(unit) == unit


def marked() -> Any:
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["who"] = "alice"
    return frame


UNUSUAL: dict[str, Callable[[], Any]] = {
    "attributes": marked,
    "objects in cells": lambda: pd.Series([object()]),
    "another dtype": lambda: pd.Series(pd.array([1, None], dtype="Int64")),
    "labels once only": lambda: pd.Series([1]).set_flags(allows_duplicate_labels=False),
    "objects in a quantity": lambda: units().Quantity(np.array([object()]), "volt"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_has_no_form(name: str) -> None:
    assert data_libraries.tell(UNUSUAL[name]()) is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("pandas.Index", ["values", ["array", np.arange(3)], None, "no frequency!"]),
        ("pandas.Index", ["values", ["odd", 1], None, None]),
        ("pandas.Index", ["odd", 1]),
        ("pandas.Index", ["multi", [["range", 0, 60_000, 1, None]], [None]]),
        ("pandas.Series", [["range", 0, 3, 1, None]]),
        ("pandas.Series", [["range", 0, 1, 1, None], ["items", [{}]], None]),
        ("pandas.Series", [["range", 0, 1, 1, None], ["array", "none"], None]),
    ],
)
def test_parts_that_no_instance_has_are_refused(name: str, parts: Any) -> None:
    with pytest.raises(DecodeError):
        data_libraries.rebuild_loaded(name, parts)


def test_parts_that_are_shared_are_paid_for_each_time() -> None:
    column: Any = ["array", np.zeros(100_000)]
    shared = [["range", 0, 100_000, 1, None], ["range", 0, 9, 1, None], ["columns", [column] * 9]]
    calls = tuple(Rebuilt(shared) for _ in range(100))
    assert len(restricted_loads(pickle.dumps(calls[:1]))) == 1
    with pytest.raises(DecodeError, match="size justifies"):
        restricted_loads(pickle.dumps(calls))


class Rebuilt:
    """Is pickled as a frame of the parts that it is given."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return data_libraries.rebuild, ("pandas.DataFrame", self.parts)


def test_a_zone_is_not_hashed_before_it_is_known_to_be_a_text() -> None:
    shared: tuple[Any, ...] = ()
    for _ in range(60):
        shared = (shared, shared)
    with pytest.raises(DecodeError, match="malformed zone"):
        data_libraries.rebuild_loaded(
            "pandas.Index", ["values", ["zoned", np.zeros(1, "M8[ns]"), shared, True], None, None]
        )


@pytest.mark.parametrize("cls", [pd.DataFrame, pd.Series, pd.RangeIndex])
def test_data_of_known_libraries_is_copied(cls: type) -> None:
    assert data_libraries.is_value(cls)
    assert data_libraries.form_of(cls) is not None
    assert data_libraries.reducer(cls) is not None


def test_of_other_classes_nothing_is_known() -> None:
    assert not data_libraries.is_value(dict)
    assert data_libraries.reducer(pd.Timestamp) is None
    assert data_libraries.tell(pd.Timestamp(0)) is None


def test_a_trusted_sender_has_the_library_imported() -> None:
    found = data_libraries.tell(SERIES["objects"])
    assert found is not None
    rebuilt: Any = data_libraries.rebuild(*found)
    pd.testing.assert_series_equal(rebuilt, SERIES["objects"])
    assert data_libraries.load() is False
