"""Drivers that know nothing of us, served as they are: every channel, parameter and item works, in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pzc import Protocol, Server
from pzc.testing import command

from tests.contract.rigs.drivers import (
    BOTH_CARRIERS,
    BOTH_KEYS,
    bench,
    ophyd_motor,
    pymeasure_multimeter,
    pymeasure_supply,
    qcodes_dac,
    qcodes_rack,
    visa_supply,
)
from tests.contract.rigs.supply import TIMEOUT


@BOTH_KEYS
@BOTH_CARRIERS
def test_a_channel_of_pymeasure_is_set_at_the_instrument(key: str, transport: str) -> None:
    served = pymeasure_supply()
    with bench(served, key, transport) as psu:
        psu.ch_1.voltage_setpoint = 3.3
        assert served.adapter.known["CH1:VOLT"] == "3.3"
        assert psu.ch_1.voltage_setpoint == served.ch_1.voltage_setpoint == 3.3
        psu.channels[1].current_limit = 0.5
        assert psu.ch_1.current_limit == 0.5
        assert psu.ch_1.id == 1


@BOTH_KEYS
def test_a_multimeter_of_pymeasure_measures(key: str) -> None:
    served = pymeasure_multimeter()
    with bench(served, key) as dmm:
        dmm.voltage_range = 10
        dmm.measure_voltage()
        assert dmm.voltage == 0.0
        assert any("10" in command for command in served.adapter.said)
        with pytest.raises(ValueError, match="not in"):
            dmm.mode = "colour"


@BOTH_KEYS
@BOTH_CARRIERS
def test_a_parameter_of_qcodes_is_called_and_has_attributes(key: str, transport: str) -> None:
    with qcodes_dac() as served, bench(served, key, transport) as dac:
        dac.ch1(1.1)
        assert dac.ch1() == served.ch1() == 1.1
        dac.ch1.set(2.0)
        assert dac.ch1.get() == served.ch1.get() == 2.0
        assert (dac.ch1.unit, dac.ch1.label) == ("V", "Gate ch1")
        dac.ch1.unit = "mV"
        assert served.ch1.unit == dac.ch1.unit == "mV"
        assert dac.parameters["ch2"].unit == "V"
        dac.parameters["ch2"](0.5)
        assert served.ch2() == 0.5


@BOTH_KEYS
def test_channels_of_qcodes_are_reached_by_name_item_and_slice(key: str) -> None:
    with qcodes_rack() as served, bench(served, key) as rack:
        rack.A.temperature(3.0)
        assert served.A.temperature() == rack.channels[0].temperature() == 3.0
        assert rack.channels[1].temperature.unit == "K"
        some = rack.channels[0:2]
        assert len(some) == 2
        assert [each.short_name for each in some] == ["ChanA", "ChanB"]
        some.temperature(5.0)
        assert [each.temperature() for each in served.channels[:3]] == [5.0, 5.0, 0]
        assert len(rack.channels) == 6
        assert rack.submodules["B"].temperature() == 5.0


@BOTH_KEYS
@BOTH_CARRIERS
def test_a_motor_of_ophyd_is_set_and_waited_for(key: str, transport: str) -> None:
    served = ophyd_motor()
    with bench(served, key, transport) as motor:
        motor.set(3).wait()
        assert served.position == motor.position == 3
        status = motor.set(4)
        status.wait()
        assert status.done is True
        assert motor.readback.get() == 4
        assert motor.readback.name == "motor"
        assert motor.read()["motor"]["value"] == 4


@BOTH_KEYS
def test_channel_objects_over_visa_stay_where_they_are(key: str, tmp_path: Path) -> None:
    with visa_supply(tmp_path) as served, bench(served, key) as psu:
        for number, output in enumerate(psu.outputs, 1):
            output.voltage = float(number)
        assert [each.voltage for each in served.outputs] == [1.0, 2.0, 3.0]
        assert psu.by_name["b"].voltage == 2.0
        assert psu.loudest().number == 3
        assert psu.outputs[-1].off() == 3
        assert psu.loudest().number == 2
        assert [each.number for each in psu.outputs[1:]] == [2, 3]
        assert "three outputs" in psu.resource.query("*IDN?")
        with pytest.raises(IndexError):
            _ = psu.outputs[7].voltage


@BOTH_KEYS
def test_a_channel_goes_back_as_the_very_object(key: str, tmp_path: Path) -> None:
    with visa_supply(tmp_path) as served, bench(served, key) as psu:
        assert psu.place(psu.outputs[1]) == 1
        assert psu.place(psu.loudest()) == psu.place(psu.by_name["a"]) == 0
        assert psu.place(7) == -1


CLIENT = """
import sys
from pzc import Protocol, Proxy
dac = Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]))
dac.ch1(1.5)
dac.ch2.unit = "mV"
print(dac.ch1.unit, dac.ch1(), dac.ch2.unit, "qcodes" in sys.modules)
"""


@BOTH_KEYS
def test_a_client_without_the_drivers_library_uses_its_parameters(key: str) -> None:
    with qcodes_dac() as served, Server(served, protocol=Protocol(key), discovery=False) as server:
        done = subprocess.run(
            [sys.executable, "-P", "-c", CLIENT, server.rep_endpoint, key],
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        assert done.stdout == "V 1.5 mV False\n", done.stderr
        assert (served.ch1(), served.ch2.unit) == (1.5, "mV")


def test_paths_work_in_commands(tmp_path: Path) -> None:
    with qcodes_dac() as dac, Server(dac, discovery=False) as server:
        assert command("get", f"{server.rep_endpoint}.ch1.unit").out == "V\n"
        assert command("set", f"{server.rep_endpoint}.ch1.unit", "mV").status == 0
        assert dac.ch1.unit == "mV"
        assert command("call", f"{server.rep_endpoint}.ch1.set", "1.25").status == 0
        assert command("call", f"{server.rep_endpoint}.ch1").out == "1.25\n"
    with visa_supply(tmp_path) as psu, Server(psu, discovery=False) as server:
        assert command("set", f"{server.rep_endpoint}.outputs[1].voltage", "2.5").status == 0
        assert command("get", f"{server.rep_endpoint}.outputs[1].voltage").out == "2.5\n"
        assert command("call", f"{server.rep_endpoint}.outputs[1].off").out == "2\n"


MISSPELT = {
    "pymeasure": ("ch_1.voltage_setpiont", "voltage_setpoint"),
    "qcodes": ("ch1.untis", "unit"),
    "visa": ("outputs[0].volage", "voltage"),
}


@BOTH_KEYS
@pytest.mark.parametrize("library", MISSPELT)
def test_a_misspelt_member_of_a_driver_is_refused_and_nothing_is_made(
    library: str, key: str, tmp_path: Path
) -> None:
    path, right = MISSPELT[library]
    owner, _, wrong = path.rpartition(".")

    def check(served: Any) -> None:
        held = {"pymeasure": "ch_1", "qcodes": "ch1"}.get(library)
        with bench(served, key) as proxy:
            there = getattr(proxy, held) if held else proxy.outputs[0]
            with pytest.raises(AttributeError, match=right):
                setattr(there, wrong, 3)
        assert not hasattr(getattr(served, held) if held else served.outputs[0], wrong), owner

    if library == "pymeasure":
        check(pymeasure_supply())
    elif library == "qcodes":
        with qcodes_dac() as dac:
            check(dac)
    else:
        with visa_supply(tmp_path) as psu:
            check(psu)


class Scpi:
    """A driver that makes a command of every name, and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return lambda *values: f"{name.upper()} {values}"


class Strict:
    """A driver that asks its instrument for what it does not know, which that does not know either."""

    level = 3

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"the instrument knows no {name}")


class Bench:
    """Both, as parts."""

    def __init__(self) -> None:
        self.scpi, self.strict = Scpi(), Strict()

    def new(self) -> Scpi:
        return Scpi()


@BOTH_KEYS
def test_a_part_that_answers_to_every_name_is_used_as_any_other(key: str) -> None:
    served = Bench()
    with bench(served, key) as proxy:
        for part in (proxy.scpi, proxy.new()):
            assert part.measure(1) == "MEASURE (1,)"
            assert part.connect("A") == "CONNECT ('A',)"
        assert [name for name in served.scpi.asked if name in ("disconnect", "emit")] == []


@BOTH_KEYS
def test_a_driver_that_raises_for_unknown_names_is_served(key: str) -> None:
    with bench(Strict(), key) as proxy:
        assert proxy.level == 3
        with pytest.raises(RuntimeError, match="knows no power"):
            proxy.power()
    with bench(Bench(), key) as proxy:
        assert proxy.strict.level == 3
