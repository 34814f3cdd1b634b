"""Frames, series and quantities: columns where this package has a form for them, else quarantine with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pint
import polars as pl
import pytest
import xarray as xr

from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.decoding.values import as_value
from pzc.protocol import serializers
from pzc.testing.timings import Timings

from tests.pipeline.conftest import Sender
from tests.pipeline.test_decode import batch

UNITS: Any = pint.get_application_registry()
FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
NUMBERS = pd.DataFrame({"a": [1.5, 2.5], "b": [3.5, 4.5]})
KEY = "a key of the lab"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (FRAME, {"frame": {"index": [0, 1], "columns": ["a", "b"], "data": [[1, "x"], [2, "y"]]}}),
        (pd.Series(["x"], name="s"), {"series": {"name": "s", "index": [0], "data": ["x"]}}),
        (pd.date_range("2026-01-01", periods=1), {"index": ["2026-01-01T00:00:00"]}),
        (UNITS.Quantity(1.5, "volt"), {"quantity": [1.5, "volt"]}),
        (UNITS.Quantity(2, "ampere"), {"quantity": [2, "ampere"]}),
        (UNITS.volt, {"unit": "volt"}),
        ([UNITS.Quantity(1.5, "volt"), 0], [{"quantity": [1.5, "volt"]}, 0]),
    ],
)
def test_what_has_a_form_is_told_as_json(content: object, text: object) -> None:
    assert json.loads(as_value(content).value_json or "") == text


def test_the_number_of_a_quantity_stands_in_the_column_of_numbers() -> None:
    assert as_value(UNITS.Quantity(1.5, "volt")).value_double == 1.5
    assert as_value(UNITS.Quantity(2, "volt")).value_long == 2


@pytest.mark.parametrize(
    "content", [NUMBERS, NUMBERS["a"], UNITS.Quantity(NUMBERS.to_numpy(), "volt")], ids=type
)
def test_numbers_of_one_type_are_an_array_as_well(content: Any) -> None:
    value, numbers = as_value(content), np.asarray(getattr(content, "magnitude", content))
    assert value.value_list == numbers.ravel().tolist()
    assert value.shape == list(numbers.shape)


def test_a_frame_of_too_many_cells_is_refused() -> None:
    row = Sender("psu", KEY, serializer="msgpack").row("v", NUMBERS)
    with Timings(stored_elements=3):
        (found,) = make_decoder(KEY).decode(batch([row])).to_pylist()
    assert (found["error"], found["reason"]) == ("DecodeError", "more than 3 elements")


@pytest.mark.parametrize(
    "content", [pl.DataFrame({"a": [1]}), pl.Series([1]), xr.DataArray(np.zeros(2)), pd.NA], ids=type
)
def test_what_has_no_form_is_refused_by_its_name(content: object) -> None:
    (found,) = (
        make_decoder(KEY)
        .decode(batch([Sender("psu", KEY, serializer="pickle").row("v", content)]))
        .to_pylist()
    )
    assert found["error"] == ("TypeError" if content is pd.NA else "SerializerRefused")
    assert type(content).__name__.removesuffix("Type") in found["reason"]


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("content", [FRAME, UNITS.Quantity(1.5, "volt")], ids=type)
def test_a_worker_that_has_not_imported_the_library_tells_the_same(name: str, content: object) -> None:
    body = bytes(serializers.encode(name, content))
    program = (
        "import sys, pzc.pipeline.decoding.values as d; assert not {'pandas', 'pint'} & sys.modules.keys();"
        f"print(d.as_value(d.decoded({name!r}, {body!r})))"
    )
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.stdout.strip() == repr(as_value(content)), told.stderr
