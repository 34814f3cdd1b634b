from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pyvisa
from hypothesis import given
from hypothesis import strategies as st

from examples.lab import psu as module
from examples.lab.psu import InstrumentError, PowerSupply, RangeError

RESOURCE = "TCPIP::10.0.0.7::INSTR"
COMMAND_ERROR = '-100,"Command error"'


@pytest.fixture
def library(tmp_path: Path) -> str:
    """The simulated lab under a path of its own: pyvisa keeps a device's state per path."""
    return f"{_definition(tmp_path, lambda text: text)}@sim"


@pytest.fixture
def psu(library: str) -> Iterator[PowerSupply]:
    with PowerSupply(RESOURCE, library) as supply:
        yield supply


def _definition(folder: Path, change: Callable[[str], str]) -> Path:
    text = Path(module.__file__).with_name("psu.yaml").read_text(encoding="utf-8")
    path = folder / "psu.yaml"
    path.write_text(change(text), encoding="utf-8")
    return path


def _send(library: str, command: str) -> None:
    """What another program on the same supply would do."""
    session = pyvisa.ResourceManager(library).open_resource(RESOURCE, write_termination="\n")
    session.write(command)  # type: ignore[attr-defined]
    session.close()


def _listen(signal: module.Signal) -> list[tuple[object, object]]:
    seen: list[tuple[object, object]] = []
    signal.connect(lambda new, old: seen.append((new, old)))
    return seen


def test_a_new_supply_is_off_at_zero_volts(psu: PowerSupply) -> None:
    assert (psu.voltage, psu.current_limit, psu.output) == (0.0, 1.0, False)


def test_the_identity_names_maker_model_serial_and_firmware(psu: PowerSupply) -> None:
    assert psu.identity == "PZC,LAB-PSU-30,0001,1.0"


def test_the_default_library_is_the_simulation_beside_the_driver() -> None:
    with PowerSupply() as supply:
        assert supply.identity == "PZC,LAB-PSU-30,0001,1.0"


@pytest.mark.parametrize(
    "resource", [RESOURCE, "USB::0x1111::0x2222::0x0007::INSTR", "GPIB::7::INSTR", "ASRL7::INSTR"]
)
def test_every_interface_of_the_simulation_is_driven_alike(library: str, resource: str) -> None:
    with PowerSupply(resource, library) as supply:
        supply.voltage = 3.3
        assert (supply.voltage, supply.errors()) == (3.3, [])


def test_a_resource_that_does_not_exist_is_an_instrument_error_that_names_it(library: str) -> None:
    with pytest.raises(InstrumentError, match=r"no instrument at 'TCPIP::10\.0\.0\.8::INSTR'"):
        PowerSupply("TCPIP::10.0.0.8::INSTR", library)


def test_a_definition_that_does_not_exist_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PowerSupply(RESOURCE, f"{tmp_path / 'absent.yaml'}@sim")


@given(volts=st.floats(0.0, 30.0))
def test_a_voltage_is_read_back_to_the_millivolt(volts: float) -> None:
    with PowerSupply() as supply:
        supply.voltage = volts
        assert supply.voltage == round(volts, 3)


def test_the_current_limit_is_read_back_to_the_milliampere(psu: PowerSupply) -> None:
    psu.current_limit = 0.12345
    assert psu.current_limit == 0.123


def test_an_integer_is_a_voltage(psu: PowerSupply) -> None:
    psu.voltage = 5
    assert psu.voltage == 5.0


@pytest.mark.parametrize("volts", [30.001, -0.001, 99, float("nan"), float("inf"), float("-inf")])
def test_a_voltage_out_of_range_is_a_range_error_and_changes_nothing(psu: PowerSupply, volts: float) -> None:
    psu.voltage = 2.0
    with pytest.raises(RangeError, match=r"V is outside 0 … 30 V"):
        psu.voltage = volts
    assert psu.voltage == 2.0


@pytest.mark.parametrize("amperes", [0.0, 0.0499, 5.001, float("nan")])
def test_a_current_limit_out_of_range_is_a_range_error_and_changes_nothing(
    psu: PowerSupply, amperes: float
) -> None:
    with pytest.raises(RangeError, match=r"A is outside 0\.05 … 5 A"):
        psu.current_limit = amperes
    assert psu.current_limit == 1.0


def test_a_range_error_is_a_value_error() -> None:
    assert issubclass(RangeError, ValueError)


def test_a_range_error_leaves_the_error_queue_empty(psu: PowerSupply) -> None:
    with pytest.raises(RangeError):
        psu.voltage = 31
    assert psu.errors() == []


@pytest.mark.parametrize("wrong", ["OFF", "off", "", 2, None])
def test_an_output_that_is_not_true_or_false_is_refused_and_changes_nothing(
    psu: PowerSupply, wrong: object
) -> None:
    with pytest.raises(ValueError, match="True or False"):
        psu.output = wrong  # type: ignore[assignment]
    assert psu.output is False


class Overrated(PowerSupply):
    """A driver that believes in more volts than the supply has."""

    VOLTAGE_RANGE = (0.0, 60.0)


def test_a_command_that_the_supply_refuses_is_an_instrument_error_with_its_words(library: str) -> None:
    with Overrated(RESOURCE, library) as supply, pytest.raises(InstrumentError) as caught:
        supply.voltage = 45.0
    assert str(caught.value) == f"':VOLT 45.000' was refused: {COMMAND_ERROR}"


def test_a_refused_command_changes_no_voltage_anywhere_and_tells_nobody(library: str) -> None:
    with Overrated(RESOURCE, library) as supply:
        supply.output = True
        supply.voltage = 4.0
        seen = _listen(supply.voltage_changed)
        with pytest.raises(InstrumentError):
            supply.voltage = 45.0
        assert (supply.voltage, supply.measured_voltage, supply.measured_current) == (4.0, 4.0, 0.004)
    assert seen == []


def test_a_ramp_that_the_supply_refuses_stays_at_the_last_good_step(library: str) -> None:
    with Overrated(RESOURCE, library) as supply:
        supply.voltage = 29.0
        with pytest.raises(InstrumentError):
            supply.ramp(32.0, step=0.5)
        assert supply.voltage == 30.0


def test_the_error_queue_is_emptied_oldest_first(psu: PowerSupply, library: str) -> None:
    _send(library, ":NONSENSE")
    _send(library, ":VOLT much")
    assert psu.errors() == [COMMAND_ERROR, COMMAND_ERROR]
    assert psu.errors() == []


def test_errors_left_by_an_earlier_session_are_logged_and_blamed_on_no_later_command(
    library: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = pyvisa.ResourceManager(library)
    _send(library, ":NONSENSE")
    with caplog.at_level(logging.WARNING, "pzc.examples.lab"), PowerSupply(RESOURCE, library) as supply:
        supply.voltage = 1.0
    assert [record.args for record in caplog.records] == [(RESOURCE, COMMAND_ERROR)]
    manager.close()


def test_an_error_queue_that_never_ends_is_an_instrument_error(tmp_path: Path) -> None:
    path = _definition(tmp_path, lambda text: text.replace('0,"No error"', '-350,"Queue overflow"'))
    with pytest.raises(InstrumentError, match="more than 100 errors"):
        PowerSupply(RESOURCE, f"{path}@sim")


def test_a_question_that_the_supply_does_not_know_is_an_instrument_error_with_its_reason(
    tmp_path: Path,
) -> None:
    path = _definition(tmp_path, lambda text: text.replace('"*IDN?"', '"*WHO?"'))
    with (
        PowerSupply(RESOURCE, f"{path}@sim", timeout=0.05) as supply,
        pytest.raises(InstrumentError, match=r"no answer to '\*IDN\?' in 0\.05 s: -100,"),
    ):
        _ = supply.identity


def test_a_supply_that_answers_nothing_is_refused_when_opened(tmp_path: Path) -> None:
    path = _definition(tmp_path, lambda text: text.replace('":SYST:ERR?"', '":SYST:SILENCE?"'))
    with pytest.raises(InstrumentError, match="no answer to ':SYST:ERR"):
        PowerSupply(RESOURCE, f"{path}@sim", timeout=0.05)


def test_the_terminals_follow_the_programmed_voltage_while_the_output_is_on(psu: PowerSupply) -> None:
    psu.output = True
    psu.voltage = 12.5
    assert (psu.measured_voltage, psu.measured_current) == (12.5, 0.0125)


def test_the_terminals_are_dead_while_the_output_is_off(psu: PowerSupply) -> None:
    psu.voltage = 12.5
    assert (psu.measured_voltage, psu.measured_current) == (0.0, 0.0)


def test_a_voltage_programmed_while_off_appears_when_the_output_is_switched_on(psu: PowerSupply) -> None:
    psu.output = True
    psu.voltage = 1.0
    psu.output = False
    psu.voltage = 7.0
    psu.output = True
    assert psu.measured_voltage == 7.0


def test_a_changed_voltage_is_signalled_once_with_new_and_old(psu: PowerSupply) -> None:
    seen = _listen(psu.voltage_changed)
    psu.voltage = 3.3
    psu.voltage = 1.1
    assert seen == [(3.3, 0.0), (1.1, 3.3)]


def test_a_voltage_set_to_what_it_was_is_not_signalled(psu: PowerSupply) -> None:
    psu.voltage = 3.3
    seen = _listen(psu.voltage_changed)
    psu.voltage = 3.3
    psu.voltage = 3.30004
    assert seen == []


def test_a_change_of_the_current_limit_is_signalled(psu: PowerSupply) -> None:
    seen = _listen(psu.current_limit_changed)
    psu.current_limit = 2.0
    psu.current_limit = 2.0
    assert seen == [(2.0, 1.0)]


def test_switching_the_output_is_signalled_with_bools(psu: PowerSupply) -> None:
    seen = _listen(psu.output_changed)
    psu.output = 1  # type: ignore[assignment]
    psu.output = True
    psu.output = False
    assert seen == [(True, False), (False, True)]
    assert {type(value) for pair in seen for value in pair} == {bool}


def test_the_old_value_is_the_supplys_own_even_if_another_program_changed_it(
    psu: PowerSupply, library: str
) -> None:
    psu.voltage = 1.0
    _send(library, ":VOLT 2")
    seen = _listen(psu.voltage_changed)
    psu.voltage = 3.0
    assert seen == [(3.0, 2.0)]


def test_a_ramp_reads_back_every_step_and_ends_on_the_target(psu: PowerSupply) -> None:
    psu.voltage = 0.5
    assert psu.ramp(0.8) == [0.6, 0.7, 0.8]


def test_a_ramp_goes_down_as_well(psu: PowerSupply) -> None:
    psu.voltage = 1.0
    assert psu.ramp(0.0, step=0.25) == [0.75, 0.5, 0.25, 0.0]


def test_a_ramp_to_where_it_stands_reads_back_once(psu: PowerSupply) -> None:
    assert psu.ramp(0.0) == [0.0]


def test_a_ramp_signals_every_step(psu: PowerSupply) -> None:
    seen = _listen(psu.voltage_changed)
    psu.ramp(0.3)
    assert seen == [(0.1, 0.0), (0.2, 0.1), (0.3, 0.2)]


def test_a_ramp_dwells_on_every_step_but_the_last(psu: PowerSupply, monkeypatch: pytest.MonkeyPatch) -> None:
    dwelt: list[tuple[float, float]] = []
    clock = SimpleNamespace(sleep=lambda seconds: dwelt.append((psu.voltage, seconds)))
    monkeypatch.setattr(module, "time", clock)
    psu.ramp(3.0, step=1.0, dwell=0.2)
    assert dwelt == [(1.0, 0.2), (2.0, 0.2)]


@given(start=st.floats(0.0, 30.0), target=st.floats(0.0, 30.0), step=st.floats(0.5, 40.0))
def test_no_ramp_leaves_its_span_or_exceeds_its_step(start: float, target: float, step: float) -> None:
    with PowerSupply() as supply:
        supply.voltage = start
        values = [supply.voltage, *supply.ramp(target, step)]
    low, high = sorted((round(start, 3), round(target, 3)))
    assert values[-1] == round(target, 3)
    assert all(low <= value <= high for value in values)
    assert all(abs(later - earlier) <= step + 0.0011 for earlier, later in itertools.pairwise(values))


def test_a_ramp_out_of_range_is_refused_before_its_first_step(psu: PowerSupply) -> None:
    with pytest.raises(RangeError):
        psu.ramp(31.0)
    assert psu.voltage == 0.0


@pytest.mark.parametrize("step", [0.0, -0.1, 0.0009, float("nan")])
def test_a_ramp_step_below_the_resolution_is_refused(psu: PowerSupply, step: float) -> None:
    with pytest.raises(ValueError, match="step"):
        psu.ramp(1.0, step=step)


@pytest.mark.parametrize("dwell", [-1.0, float("nan"), float("inf")])
def test_a_dwell_that_is_no_time_is_refused(psu: PowerSupply, dwell: float) -> None:
    with pytest.raises(ValueError, match="dwell"):
        psu.ramp(1.0, dwell=dwell)


def test_closing_twice_is_allowed(psu: PowerSupply) -> None:
    psu.close()
    psu.close()


def test_a_closed_supply_says_that_its_session_is_over(psu: PowerSupply) -> None:
    psu.close()
    with pytest.raises(pyvisa.errors.InvalidSession):
        _ = psu.voltage


def test_closing_one_supply_leaves_another_of_the_same_library_open(psu: PowerSupply, library: str) -> None:
    PowerSupply("GPIB::7::INSTR", library).close()
    assert psu.voltage == 0.0


def test_two_sessions_on_one_resource_see_one_supply(psu: PowerSupply, library: str) -> None:
    psu.voltage = 6.0
    with PowerSupply(RESOURCE, library) as other:
        assert other.voltage == 6.0
