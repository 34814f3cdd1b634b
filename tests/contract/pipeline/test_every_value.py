"""What a lab publishes is in the tables, whatever its class; what is expected to fail is not built yet."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import json
from typing import Any, NamedTuple

import numpy as np
import pytest

import pzc
from pzc.testing import Timings

from tests.contract.rigs.tables import recorded, rows

pd: Any = pytest.importorskip("pandas")

MOST = 1 << 16
"""Bytes of a content that are stored, for this recording."""


class Mode(enum.Enum):
    DC = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Reading:
    volts: float


class Trace:
    def __init__(self) -> None:
        self.volts = [3.3]


NUMBERS = {"uint64": np.uint64(2**64 - 1), "decimal": decimal.Decimal("3.30")}
CONTENTS: dict[str, Any] = {
    **NUMBERS,
    "enum": Mode.DC,
    "timestamp": pd.Timestamp("2026-01-01 12:00", tz="UTC"),
    "nullable": pd.DataFrame({"n": pd.array([1, None], dtype="Int64")}),
    "masked": np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]),
    "tuple": Point(1, 2),
    "dataclass": Reading(3.3),
    "object": Trace(),
    "objects": np.array([1, "a", None], dtype=object),
    "largest": np.zeros(MOST, "u1"),
    "larger": np.zeros(MOST + 5000, "u1"),
}


class Made(NamedTuple):
    """Tables of all contents, and their rows by key."""

    tables: Any
    rows: dict[str, dict[str, Any]]

    def text(self, key: str) -> str:
        """The value of a row, as text."""
        return str(self.rows[key]["value_string"] or self.rows[key]["value_json"])

    def refusals(self) -> str:
        return " ".join(rows(self.tables.directory, "quarantine", "reason"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("values")
    with Timings(stored_content=MOST):
        found = recorded(folder, CONTENTS)
    return Made(pzc.tables(folder / "tables"), found)


def not_yet(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=reason)


@not_yet("a polled enum of a driver is refused by the tables")
def test_an_enum_is_stored_by_its_name(made: Made) -> None:
    assert "DC" in made.text("enum")


def test_a_timestamp_of_pandas_is_stored_as_its_time(made: Made) -> None:
    assert "2026-01-01T12:00:00" in made.text("timestamp")


def test_a_frame_with_missing_numbers_is_stored_with_nulls(made: Made) -> None:
    assert "[[1], [null]]" in made.text("nullable")


@not_yet("a masked array loses its mask, or is refused")
def test_a_masked_array_comes_back_with_its_mask(made: Made) -> None:
    assert made.tables.array(made.rows["masked"]).tolist() == [1.0, None, 3.0]


@not_yet("a named tuple is refused by the tables")
def test_a_named_tuple_is_stored_as_a_document(made: Made) -> None:
    assert json.loads(made.text("tuple")) == {"x": 1, "y": 2}


@not_yet("a dataclass is refused by the tables")
def test_a_dataclass_is_stored_as_a_document(made: Made) -> None:
    assert json.loads(made.text("dataclass")) == {"volts": 3.3}


@not_yet("the row of an array of objects has no value")
def test_an_array_of_objects_can_be_had_from_the_tables(made: Made) -> None:
    assert made.tables.array(made.rows["objects"]).tolist() == [1, "a", None]


@not_yet("numbers beyond 63 bits and decimals are in no column of numbers")
def test_unsigned_and_decimal_numbers_are_in_the_statistics(made: Made) -> None:
    assert rows(made.tables.directory, "statistics", "values", "max") == [(len(NUMBERS), float(2**64 - 1))]


@not_yet("the limit counts what describes the array as well")
def test_an_array_of_as_many_bytes_as_a_content_may_have_is_stored(made: Made) -> None:
    assert made.rows["largest"]["shape"] == [MOST]


def test_what_the_tables_cannot_read_is_refused_by_its_class(made: Made) -> None:
    assert f"{__name__}.Trace; what is stored is decoded as if nobody had signed it" in made.refusals()


def test_the_refusal_of_a_large_content_names_its_limit(made: Made) -> None:
    assert "stored_content" in made.refusals()
