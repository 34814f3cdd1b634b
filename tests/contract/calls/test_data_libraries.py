"""Frames and quantities arrive the same with and without a key, by every serializer, nested and published."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from pzc import Agent, Protocol, Proxy, SerializerRefused, Server, aio

from tests.contract.rigs.drivers import BOTH_KEYS, bench
from tests.contract.rigs.supply import KEY, TIMEOUT, Supply

pandas = pytest.importorskip("pandas")
pint = pytest.importorskip("pint")


def days(**options: Any) -> Any:
    return pandas.date_range("2026-03-01", periods=3, freq="D", **options)


FRAMES: dict[str, Any] = {
    "numbers": pandas.DataFrame(np.arange(6.0).reshape(3, 2), columns=["volts", "amps"]),
    "several types": pandas.DataFrame(
        {"volts": [1.0, np.nan], "count": [1, 2], "on": [True, False], "name": ["a", None], "z": [1j, 2j]}
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
    "labels twice": pandas.DataFrame([[1, "a"]], columns=["x", "x"]),
}

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
        pandas.testing.assert_frame_equal(back, frame, check_freq=True, obj=name)


@BY_EACH
def test_series_and_indexes_arrive_as_they_were(psu: Any) -> None:
    for name, frame in FRAMES.items():
        for at in range(frame.shape[1]):
            pandas.testing.assert_series_equal(psu.back(frame.iloc[:, at]), frame.iloc[:, at], obj=name)
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
    psu.back(frame)
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


MARKED = pandas.DataFrame({"volts": [1]})
MARKED.attrs["room"] = "B12"


def test_an_unusual_frame_arrives_with_a_key() -> None:
    with bench(Supply(), KEY) as psu:
        assert psu.back(MARKED).attrs == {"room": "B12"}


def test_an_unusual_frame_is_refused_without_a_key_and_told_what_to_do() -> None:
    with bench(Supply(), "") as psu:
        with pytest.raises(SerializerRefused, match=r"^back: .*DataFrame.*register_class"):
            psu.back(MARKED)
        assert psu.note() == 1


def test_what_is_refused_in_a_future_says_of_which_member_it_was() -> None:
    with bench(Supply(), "") as psu:
        with pytest.raises(SerializerRefused, match=r"^back: .*DataFrame"):
            psu.back.future(MARKED).result(TIMEOUT)


def test_what_is_refused_in_an_awaited_call_says_of_which_member_it_was() -> None:
    async def refused(endpoint: str) -> None:
        async with aio.Proxy(endpoint, protocol=Protocol("")) as psu:
            with pytest.raises(SerializerRefused, match=r"^back: .*DataFrame"):
                await psu.back(MARKED)

    with Server(Supply(), protocol=Protocol("")) as server:
        asyncio.run(refused(server.rep_endpoint))


class Recording(Supply):
    """Has a table."""

    @property
    def table(self) -> Any:
        """What was recorded."""
        return FRAMES["numbers"]


WITHOUT_PANDAS = """
import sys
from pzc import Protocol, Proxy, SerializerRefused
with Proxy(sys.argv[1], protocol=Protocol(sys.argv[2])) as psu:
    try:
        print(psu.table.shape)
    except SerializerRefused as error:
        print(error, "pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("key", "told"),
    [("", r"^table: pandas\.DataFrame .*import it.*register_class False$"), (KEY, r"^\(3, 2\)$")],
    ids=["without key", "with key"],
)
def test_nothing_is_imported_for_who_is_not_trusted(key: str, told: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(Server(Recording(), protocol=Protocol(key)))
        program = [sys.executable, "-P", "-c", WITHOUT_PANDAS, server.rep_endpoint, key]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert re.search(told, done.stdout.strip()), done.stdout
