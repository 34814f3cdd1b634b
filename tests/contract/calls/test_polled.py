"""What can be polled publishes values; what cannot is refused when it is served."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, ConfigError, Protocol, RemoteError, Server, Signal
from pzc.testing import command

from tests.contract.rigs.benches import proxy_of, run
from tests.contract.rigs.calling import KEY
from tests.contract.rigs.drivers import bench, pymeasure_supply, qcodes_rack
from tests.contract.rigs.supply import TIMEOUT


class Gauge:
    """With members of every kind, and a parameter that comes from no library."""

    def __init__(self) -> None:
        self.pressure = Parameter()
        self.valve = Valve()
        self.valves = [self.valve]
        self.changed = Signal("pascal")
        self.fails = True

    @property
    def current(self) -> float:
        """In amperes; raises as long as the instrument is off."""
        if self.fails:
            raise AttributeError("no connection yet")
        return 0.5

    @property
    def open_valve(self) -> Valve:
        """An object that stays at the server."""
        return self.valve

    def measure(self) -> float:
        """Pressure in pascal."""
        return 2.5

    def scaled(self, factor: float) -> float:
        """Pressure times a factor."""
        return 2.5 * factor

    async def later(self) -> float:
        """Pressure, of a coroutine."""
        return 2.5


class Parameter:
    """Read by ``get``."""

    unit = "Pa"

    def get(self) -> float:
        """In pascal."""
        return 1.5


class Valve:
    """An object without a value."""

    opening = 0.25

    def get(self, name: str) -> str:
        """A parameter by its name."""
        return name

    def close(self) -> None:
        """Close it."""


def first_of(served: Any, member: str) -> Any:
    """The first value that is published of a polled member."""
    with Server(served, poll={member: 0.01}, discovery=False) as server, Agent(discovery=False) as reader:
        return reader.subscribe(server.rep_endpoint, member, initial=True).recv(TIMEOUT).content


@pytest.fixture
def rack() -> Iterator[Any]:
    with qcodes_rack() as made:
        made.A.temperature(12.5)
        yield made


@pytest.mark.parametrize("member", ["A.temperature", "channels[0].temperature"])
def test_a_polled_parameter_of_qcodes_publishes_its_value(rack: Any, member: str) -> None:
    assert first_of(rack, member) == 12.5


def test_a_polled_parameter_of_one_of_several_objects_publishes_its_value(rack: Any) -> None:
    assert first_of({"rack": rack, "gauge": Gauge()}, "rack.A.temperature") == 12.5


def test_a_polled_setting_of_a_channel_of_pymeasure_is_published() -> None:
    supply = pymeasure_supply()
    supply.ch_1.voltage_setpoint = 3.3
    assert first_of(supply, "ch_1.voltage_setpoint") == 3.3


@pytest.mark.parametrize(("member", "value"), [("pressure", 1.5), ("measure", 2.5)])
def test_what_can_be_read_without_arguments_is_polled(member: str, value: float) -> None:
    assert first_of(Gauge(), member) == value


def test_a_property_that_raises_at_the_start_is_polled_until_it_answers() -> None:
    gauge = Gauge()
    with Server(gauge, poll={"current": 0.01}, discovery=False) as server, Agent(discovery=False) as reader:
        readings = reader.subscribe(server.rep_endpoint, "current", initial=True)
        assert isinstance(readings.recv(TIMEOUT).content, RemoteError)
        gauge.fails = False
        while isinstance(value := readings.recv(TIMEOUT).content, RemoteError):
            pass
        assert value == 0.5


REFUSED = {
    "scaled": "without arguments", "valve": "without arguments", "open_valve": "without arguments",
    "valves": "stays at the server", "valves[3].close": "out of range", "changed": "signal", "later": "async",
    "presure": "pressure", "pressure.value": "no such member", "@1234.x": "no member",
}  # fmt: skip


def construct(member: str) -> None:
    Server(Gauge(), poll={member: 1.0}, discovery=False)


def serve(member: str) -> None:
    Server.serve_in_thread(Gauge, poll={member: 1.0}, discovery=False)


@pytest.mark.parametrize("start", [construct, serve])
@pytest.mark.parametrize(("member", "reason"), REFUSED.items(), ids=REFUSED)
def test_what_has_no_value_to_poll_is_refused_at_the_start(
    member: str, reason: str, start: Callable[[str], None]
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        start(member)
    assert member in str(caught.value)


@pytest.mark.parametrize(
    ("member", "reason"),
    [("A", "without arguments"), ("A.temprature", "temperature"), ("B9.temperature", "B9")],
)
def test_what_qcodes_has_no_value_of_is_refused_at_the_start(rack: Any, member: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Server(rack, poll={member: 1.0}, discovery=False)


def test_pzc_serve_refuses_to_poll_a_method_with_arguments() -> None:
    outcome = command("serve", "tests.contract.calls.test_polled:Gauge", "--poll", "scaled=1s")
    assert outcome.status != 0
    assert "without arguments" in outcome.err


@pytest.mark.parametrize(
    ("poll", "reason"), [("'a b' = 1", "no path"), ("'_x' = 1", "_x"), ("x = 1e9", "number of seconds")]
)
def test_pzc_check_refuses_a_path_or_period_that_cannot_be_polled(
    tmp_path: Path, poll: str, reason: str
) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(f'[server.gauge]\nobject = "fractions:Fraction"\npoll = {{ {poll} }}\n', encoding="utf-8")
    outcome = command("check", str(path))
    assert outcome.status != 0
    assert reason in outcome.err


@pytest.fixture
def served_rack(rack: Any) -> Iterator[str]:
    with Server(rack, discovery=False) as server:
        yield server.rep_endpoint


def test_pzc_get_prints_the_value_of_a_parameter_of_qcodes(served_rack: str) -> None:
    assert command("get", f"{served_rack}.A.temperature").out == "12.5\n"


def test_pzc_set_gives_a_parameter_of_qcodes_its_value(served_rack: str, rack: Any) -> None:
    assert command("set", f"{served_rack}.A.temperature", "4").status == 0
    assert rack.A.temperature() == 4


NOT_YET = pytest.mark.xfail(strict=True, reason="what a proxy gives for a polled member is its value alone")


@NOT_YET
def test_a_polled_member_is_connected_to_as_a_signal() -> None:
    values: queue.Queue[float] = queue.Queue()
    with bench(Valve(), poll={"opening": 0.01}) as valve:
        valve.opening.connect(values.put)
        assert values.get(timeout=TIMEOUT) == 0.25


@NOT_YET
def test_a_polled_member_is_connected_to_with_await() -> None:
    async def main() -> float:
        values: asyncio.Queue[float] = asyncio.Queue()
        async with proxy_of(server.rep_endpoint) as valve:
            await valve.opening.connect(values.put_nowait)
            return await asyncio.wait_for(values.get(), TIMEOUT)

    with Server(Valve(), protocol=Protocol(KEY), poll={"opening": 0.01}, discovery=False) as server:
        assert run(main()) == 0.25
