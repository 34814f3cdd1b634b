"""Values of a lab arrive the same with and without a key; what is refused says member, class and what to do."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import pathlib
import warnings
from typing import Any

import numpy as np
import pytest

from pzc import RemoteReference, SerializeError, register_class

from tests.contract.rigs.drivers import BOTH_CARRIERS, BOTH_KEYS, bench
from tests.contract.rigs.supply import KEY, Mode, Supply, Tripped


class Range(enum.IntEnum):
    """An enum that is a number."""

    LOW = 1
    HIGH = 2


PLAIN: dict[str, Any] = {
    "enum": Mode.CURRENT,
    "number enum": Range.HIGH,
    "path": pathlib.PurePosixPath("/data/run"),
    "decimal": decimal.Decimal("1.10"),
    "time": dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC),
    "array": np.arange(3.0),
    "list of them": [Mode.VOLTAGE, decimal.Decimal("2.5"), {"at": pathlib.PurePosixPath("/a")}],
}


@BOTH_KEYS
@BOTH_CARRIERS
def test_enums_paths_and_decimals_go_there_and_back(key: str, transport: str) -> None:
    with bench(Supply(), key, transport) as psu:
        for name, value in PLAIN.items():
            back = psu.back(value)
            assert type(back) is type(value), name
            assert np.array_equal(back, value), name


@BOTH_KEYS
def test_a_data_frame_goes_there_and_back(key: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"volts": [1.0, 2.0], "name": ["a", "b"]}, index=[3, 4])
    with bench(Supply(), key) as psu:
        back = psu.back(frame)
        assert back.equals(frame)
        assert list(back.index) == [3, 4]
        assert psu.back(frame["volts"]).tolist() == [1.0, 2.0]


@BOTH_KEYS
def test_a_quantity_goes_there_and_back(key: str) -> None:
    pint = pytest.importorskip("pint")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        volts = pint.get_application_registry()("1.5 V")
    with bench(Supply(), key) as psu:
        back = psu.back(volts)
        assert (back.magnitude, str(back.units)) == (1.5, "volt")
        assert (back + volts).magnitude == 3.0


@BOTH_KEYS
@BOTH_CARRIERS
def test_an_exception_with_two_arguments_arrives_as_itself(key: str, transport: str) -> None:
    with bench(Supply(), key, transport) as psu:
        with pytest.raises(Tripped, match=r"channel 2 tripped at 31\.0 V") as found:
            psu.trip()
        assert (found.value.channel, found.value.volts) == (2, 31.0)


class Curve:
    """A class of the lab's own, of data only, that nobody registered."""

    def __init__(self) -> None:
        self.points = [1.0, 2.0]


def test_what_is_no_value_stays_at_the_server() -> None:
    with bench(Supply(), KEY) as psu:
        curve = psu.back(Curve())
        assert isinstance(curve, RemoteReference)
        curve.points[0] = 3.0
        assert curve.points[0] == 3.0


@register_class
class Trace:
    """A class of data that may be copied."""

    def __init__(self, points: list[float]) -> None:
        self.points = points

    def longest(self) -> int:
        """Number of points."""
        return len(self.points)


@BOTH_CARRIERS
def test_a_registered_class_is_copied_with_a_key(transport: str) -> None:
    with bench(Supply(), KEY, transport) as psu:
        back = psu.back(Trace([1.0, 2.0]))
        assert type(back) is Trace
        assert back.longest() == 2


@BOTH_CARRIERS
def test_a_registered_class_is_refused_without_a_key_and_told_what_to_do(transport: str) -> None:
    with bench(Supply(), "", transport) as psu:
        with pytest.raises(
            SerializeError, match=r"^back: args\[0\]\.run\[1\] is of class .*\.Trace, .*PZC_KEY"
        ):
            psu.back({"run": [1, Trace([1.0])]})
        assert psu.note() == 1
