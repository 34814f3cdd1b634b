"""Frames and quantities arrive by every serializer, nested and published; what Arrow lacks needs a key."""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pzc import Agent, Protocol, Proxy, SerializeError, Server, aio

from tests.contract.rigs.drivers import BOTH_KEYS, bench
from tests.contract.rigs.supply import KEY, TIMEOUT, Supply

pandas = pytest.importorskip("pandas")
pint = pytest.importorskip("pint")


def days(**options: Any) -> Any:
    return pandas.date_range("2026-03-01", periods=3, freq="D", **options)


FRAMES: dict[str, Any] = {
    "numbers": pandas.DataFrame(np.arange(6.0).reshape(3, 2), columns=["volts", "amps"]),
    "several types": pandas.DataFrame(
        {"volts": [1.0, np.nan], "count": [1, 2], "on": [True, False], "name": ["a", None]}
    ),
    "times": pandas.DataFrame({"volts": [1.0, 2.0, 3.0], "at": days()}, index=days()),
    "times of a zone": pandas.DataFrame(
        {"volts": [1, 2, 3], "at": days(tz="Europe/Berlin")}, index=days(tz="America/New_York")
    ),
    "lengths of time": pandas.DataFrame({"took": days() - days()[0]}),
    "categories": pandas.DataFrame({"range": pandas.Categorical(["low", "high"], ["low", "high"], True)}),
    "texts": pandas.DataFrame({"name": pandas.array(["a", None], dtype="string")}),
    "plain objects": pandas.DataFrame({"day": [dt.date(2026, 1, 2), None]}, index=["first", "second"]),
    "two levels": pandas.DataFrame(
        [[1, 2], [3, 4]],
        index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["run", "shot"]),
        columns=pandas.MultiIndex.from_product([["dac"], ["x", "y"]]),
    ),
    "numbered": pandas.DataFrame({"volts": [1, 2]}, index=pandas.RangeIndex(3, 7, 2, name="shot")),
    "no rows": pandas.DataFrame({"volts": np.empty(0), "name": np.empty(0, object)}),
    "nothing": pandas.DataFrame(),
}

UNUSUAL: dict[str, Any] = {
    "complex numbers": pandas.DataFrame({"z": [1j, 2j]}),
    "labels twice": pandas.DataFrame([[1, "a"]], columns=["x", "x"]),
    "names of two types": pandas.DataFrame([[1, "a"]], columns=["x", 2]),
    "tuples in cells": pandas.DataFrame({"limits": [(0, 1), (2, 3)]}),
    "tables in cells": pandas.DataFrame({"limits": [{"low": 1}, {"high": 2}]}),
}
"""Frames that Arrow refuses, or would change."""

BY_EACH = pytest.mark.parametrize(
    ("key", "serializer"),
    [(key, each) for key in ("", KEY) for each in ("pickle", "json", "msgpack")],
    ids=lambda each: {"": "without key", KEY: "with key"}.get(each, each),
)


@pytest.fixture
def psu(key: str, serializer: str) -> Iterator[Any]:
    protocol = Protocol(key, serializer)
    with (
        Server(Supply(), protocol=protocol) as server,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as proxy,
    ):
        yield proxy


@BY_EACH
def test_a_frame_arrives_as_it_was(psu: Any) -> None:
    for name, frame in FRAMES.items():
        back = psu.back(frame)
        pandas.testing.assert_frame_equal(back, frame, check_freq=False, obj=name)


@BY_EACH
def test_series_and_indexes_arrive_as_they_were(psu: Any) -> None:
    for name, frame in FRAMES.items():
        for at in range(frame.shape[1]):
            column = frame.iloc[:, at]
            pandas.testing.assert_series_equal(psu.back(column), column, check_freq=False, obj=name)
        pandas.testing.assert_index_equal(psu.back(frame.index), frame.index, obj=name)


@BY_EACH
def test_quantities_and_units_arrive_as_they_were(psu: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        units = pint.get_application_registry()
        own = pint.UnitRegistry()
    for value in (units("1.5 V"), 3 * units("m/s**2"), units.Quantity(np.arange(3.0), "kV"), own("2 ohm")):
        back = psu.back(value)
        assert str(back.units) == str(value.units)
        assert np.array_equal(back.magnitude, value.magnitude)
        assert isinstance(back, units.Quantity)
    assert psu.back(units.ohm) == units.ohm
    assert psu.back(units.Quantity(20, "degC")) == units.Quantity(20, "degC")


@BY_EACH
def test_a_frame_inside_of_containers_arrives(psu: Any) -> None:
    frame = FRAMES["several types"]
    back = psu.back({"runs": [{"first": [frame]}]})
    pandas.testing.assert_frame_equal(back["runs"][0]["first"][0], frame)


@BY_EACH
def test_what_arrived_can_be_changed(psu: Any) -> None:
    back = psu.back(FRAMES["numbers"])
    back.loc[0, "volts"] = 9.0
    assert back.loc[0, "volts"] == 9.0


@BOTH_KEYS
def test_a_published_frame_arrives(key: str) -> None:
    with Agent(protocol=Protocol(key)) as sender, Agent(protocol=Protocol(key)) as reader:
        with reader.subscribe(sender.rep_endpoint, "table") as tables:
            sender.publish("table", FRAMES["times"])
            pandas.testing.assert_frame_equal(tables.recv(TIMEOUT).content, FRAMES["times"])


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_frame_arrives_with_a_key(name: str) -> None:
    with bench(Supply(), KEY) as psu:
        pandas.testing.assert_frame_equal(psu.back(UNUSUAL[name]), UNUSUAL[name])


def test_the_frequency_of_an_index_arrives_with_a_key() -> None:
    with bench(Supply(), KEY) as psu:
        assert psu.back(FRAMES["times"]).index.freq == FRAMES["times"].index.freq


REFUSED = r"^back: args\[0\].* is of class pandas\..*DataFrame, .*PZC_KEY"
"""What is refused, of which member and argument, and what to do."""


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_frame_is_refused_without_a_key_and_told_what_to_do(name: str) -> None:
    with bench(Supply(), "") as psu:
        with pytest.raises(SerializeError, match=REFUSED):
            psu.back(UNUSUAL[name])
        assert psu.note() == 1


def test_what_is_refused_in_a_future_says_of_which_member_it_was() -> None:
    with bench(Supply(), "") as psu:
        with pytest.raises(SerializeError, match=REFUSED):
            psu.back.future([UNUSUAL["complex numbers"]]).result(TIMEOUT)


def test_what_is_refused_in_an_awaited_call_says_of_which_member_it_was() -> None:
    async def refused(endpoint: str) -> None:
        async with aio.Proxy(endpoint, protocol=Protocol("")) as psu:
            with pytest.raises(SerializeError, match=REFUSED):
                await psu.back(UNUSUAL["complex numbers"])

    with Server(Supply(), protocol=Protocol("")) as server:
        asyncio.run(refused(server.rep_endpoint))


class Recording(Supply):
    """Has tables."""

    @property
    def table(self) -> Any:
        """What was recorded."""
        return FRAMES["numbers"]

    def unusual(self) -> Any:
        """What only a pickle can hold."""
        return UNUSUAL["complex numbers"]


@pytest.mark.parametrize("later", [False, True], ids=["now", "later"])
def test_a_result_that_is_refused_without_a_key_says_of_which_member_it_is(later: bool) -> None:
    with (
        bench(Recording(), "") as psu,
        pytest.raises(SerializeError, match=r"^unusual: .*DataFrame.*PZC_KEY"),
    ):
        psu.unusual.future().result(TIMEOUT) if later else psu.unusual()


READS_A_TABLE = """
import sys
from pzc import Protocol, Proxy
with Proxy(sys.argv[1], protocol=Protocol(sys.argv[2])) as psu:
    print(psu.voltage, "pandas" in sys.modules, psu.table.shape)
"""


@BOTH_KEYS
def test_a_library_is_imported_when_the_first_of_its_values_arrives(key: str) -> None:
    with Server(Recording(), protocol=Protocol(key)) as server:
        program = [sys.executable, "-P", "-c", READS_A_TABLE, server.rep_endpoint, key]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "1.0 False (3, 2)\n"
