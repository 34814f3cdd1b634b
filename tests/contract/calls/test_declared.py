"""What whoever starts a server says of members of a driver that knows nothing of us."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pzc import Agent, ConfigError, RemoteError, Server
from pzc.testing import command

from tests.contract.rigs.supply import TIMEOUT, Supply, held


class Meter:
    """A driver that notes when it is read."""

    def __init__(self) -> None:
        self.volts = 1.0
        self.reads = 0
        self.busy = 0.0
        self.ended = threading.Event()
        self.trace_of = np.zeros(3)

    @property
    def voltage(self) -> float:
        """In volts; raises when there are none."""
        self.reads += 1
        if self.busy:
            self.ended.wait(self.busy)
        if self.volts < 0:
            raise ValueError(f"no reading at {self.reads}")
        return self.volts

    @property
    def trace(self) -> np.ndarray[Any, Any]:
        """An array."""
        return self.trace_of.copy()


@pytest.fixture
def meter() -> Iterator[Meter]:
    made = Meter()
    yield made
    made.ended.set()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"urgent": ["of"]}, "off"), ({"reading": ["voltag"]}, "voltage"), ({"on_cancel": {"rampp": "off"}}, "ramp"),
        ({"on_cancel": {"ramp": "of"}}, "off"), ({"poll": {"volage": 1.0}}, "voltage"),
        ({"poll": {"ch1.volage": 1.0}}, "voltage"), ({"poll": {"channels[0].volage": 1.0}}, "voltage"),
        ({"urgent": ["a b"]}, "a b"), ({"urgent": "off"}, "list"), ({"poll": {"voltage": 0}}, "seconds"),
        ({"poll": {"voltage": "1s"}}, "seconds"), ({"poll": ["voltage"]}, "table"), ({"name": 4}, "text"), ({"lanes": "two"}, "each"),
        ({"expose": "voltage"}, "list"), ({"expose": ["channels[0]"]}, "write 'channels'"),
        ({"reading": ["channels[0].off"]}, "write 'channels.off'"),
        ({"on_cancel": {"channels[0].off": "off"}}, "write 'channels.off'"),
    ],
)  # fmt: skip
def test_a_wrong_member_is_refused_at_the_start_with_the_nearest(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Server(Supply(), **options)
    if "lanes" not in options:
        with pytest.raises(ConfigError, match=told):
            Server.serve_in_thread(Supply, **options)


def test_a_polled_member_is_published_when_it_has_changed(meter: Meter) -> None:
    with Server(meter, poll={"voltage": 0.01, "trace": 0.01}) as server, Agent() as reader:
        readings = reader.subscribe(server.rep_endpoint, "voltage")
        traces = reader.subscribe(server.rep_endpoint, "trace")
        meter.volts = 4.0
        while readings.recv(TIMEOUT).content != 4.0:
            pass
        meter.trace_of = np.ones(3)
        while traces.recv(TIMEOUT).content.sum() != 3.0:
            pass


def test_a_value_that_stays_is_published_every_ten_periods(meter: Meter) -> None:
    with Server(meter, poll={"voltage": 0.01}) as server, Agent() as reader:
        readings = reader.subscribe(server.rep_endpoint, "voltage")
        first, second = readings.recv(TIMEOUT), readings.recv(TIMEOUT)
        assert first.content == second.content == 1.0
        assert second.sequence == first.sequence + 1
        assert second.sent_at - first.sent_at >= 0.09


@pytest.mark.parametrize("kind", ["array", "table"])
def test_what_stays_and_has_no_number_in_it_is_published_every_ten_periods(meter: Meter, kind: str) -> None:
    values = np.array([1.0, np.nan])
    meter.trace_of = values if kind == "array" else pytest.importorskip("pandas").DataFrame({"volts": values})
    with Server(meter, poll={"trace": 0.01}) as server, Agent() as reader:
        traces = reader.subscribe(server.rep_endpoint, "trace")
        first, second = traces.recv(TIMEOUT), traces.recv(TIMEOUT)
        assert second.sent_at - first.sent_at >= 0.09


def test_a_read_that_raises_is_published_as_its_error(meter: Meter) -> None:
    with Server(meter, poll={"voltage": 0.01}) as server, Agent() as reader:
        readings = reader.subscribe(server.rep_endpoint, "voltage")
        meter.volts = -1.0
        found: Any = None
        while not isinstance(found, RemoteError):
            found = readings.recv(TIMEOUT).content
        assert found.type_name.endswith("ValueError")
        assert "no reading" in found.text
        meter.volts = 2.0
        while readings.recv(TIMEOUT).content != 2.0:
            pass


def test_who_comes_later_gets_the_last_value(meter: Meter) -> None:
    with Server(meter, poll={"voltage": 60.0}) as server, Agent() as reader:
        while not meter.reads:
            meter.ended.wait(0.005)
        readings = reader.subscribe(server.rep_endpoint, "voltage", initial=True)
        assert readings.recv(TIMEOUT).content == 1.0


def test_a_slow_driver_is_polled_half_of_the_time_and_that_is_said_once(
    meter: Meter, caplog: pytest.LogCaptureFixture
) -> None:
    meter.busy = 0.05
    with Server(meter, poll={"voltage": 0.01}) as server, Agent() as reader:
        readings = reader.subscribe(server.rep_endpoint, "voltage")
        for number in range(5):
            meter.volts = float(number)
            while readings.recv(TIMEOUT).content != float(number):
                pass
        began, reads = readings_of(meter, 0.5)
    assert reads <= 6, began
    assert sum("at best" in record.getMessage() for record in caplog.records) == 1


def readings_of(meter: Meter, seconds: float) -> tuple[int, int]:
    """Reads before, and within so many seconds."""
    began = meter.reads
    meter.ended.wait(seconds)
    return began, meter.reads - began


def test_polling_ends_with_the_server(meter: Meter) -> None:
    with Server(meter, poll={"voltage": 0.001}):
        while not meter.reads:
            meter.ended.wait(0.005)
    _, reads = readings_of(meter, 0.05)
    assert reads == 0


def test_members_of_a_driver_are_marked_when_it_is_served() -> None:
    supply = Supply()
    with held(supply, urgent=["off"], reading=["note"], on_cancel={"ramp": "off"}) as psu:
        held_call = psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        assert psu.off() == "off"
        assert not supply.ended.is_set()
        supply.opened.set()
        held_call.result(TIMEOUT)
        supply.running.clear()
        supply.opened.clear()
        ramp = psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        ramp.cancel()
        assert supply.ended.wait(TIMEOUT)
        while supply.calls.count("off") < 2:
            supply.opened.wait(0.005)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--poll", "voltage"], "--poll"), (["--poll", "voltage=soon"], "100ms"), (["--poll", "volage=1s"], "voltage"),
        (["--urgent", "of"], "off"), (["--on-cancel", "ramp"], "ramp=off"), (["--reading", "not"], "note"),
    ],
)  # fmt: skip
def test_serve_refuses_what_is_not_there(arguments: list[str], told: str) -> None:
    outcome = command("serve", "tests.contract.rigs.supply:Supply", *arguments)
    assert outcome.status != 0
    assert told in outcome.err
