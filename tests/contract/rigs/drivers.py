"""Instruments of others as a lab has them: PyMeasure, QCoDeS, ophyd and PyVISA, without hardware."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Protocol, Proxy, Server

from tests.contract.rigs.supply import KEY, TIMEOUT

BOTH_KEYS = pytest.mark.parametrize("key", ["", KEY], ids=["without key", "with key"])
BOTH_CARRIERS = pytest.mark.parametrize("transport", ["tcp", "unix"])

SIMULATED = """
spec: "1.1"
devices:
  supply:
    eom:
      TCPIP INSTR: {q: "\\n", r: "\\n"}
    error: ERROR
    dialogues:
      - {q: "*IDN?", r: "pzc,three outputs,1,0"}
    channels:
      output:
        ids: [1, 2, 3]
        can_select: false
        properties:
          voltage:
            default: 0.0
            getter: {q: "CH{ch_id}:VOLT?", r: "{:.2f}"}
            setter: {q: "CH{ch_id}:VOLT {:.2f}", r: OK}
            specs: {min: 0, max: 30, type: float}
resources:
  TCPIP0::supply::INSTR: {device: supply}
"""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What these libraries warn of when they are imported or made is no matter of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def bench(served: Any, key: str = "", transport: str = "tcp", **options: Any) -> Iterator[Any]:
    """A proxy of a served object, without or with a key."""
    with (
        Server(served, protocol=Protocol(key), discovery=False, **options) as server,
        Proxy(server.rep_endpoint, protocol=Protocol(key), timeout=TIMEOUT, transport=transport) as proxy,
    ):
        yield proxy


def scpi() -> Any:
    """An adapter of PyMeasure that keeps what is set and answers it; ``known`` has it, ``said`` every command."""
    adapters = pytest.importorskip("pymeasure.adapters")

    class Scpi(adapters.Adapter):
        def __init__(self) -> None:
            super().__init__()
            self.known: dict[str, str] = {}
            self.said: list[str] = []
            self.answers: list[str] = []

        def _write(self, command: str, **_how: Any) -> None:
            self.said.append(command)
            if "?" in command:
                self.answers.append(self.known.get(command.replace("?", "").strip(), "0"))
            else:
                setting, _, value = command.rpartition(" ")
                self.known[setting] = value

        def _read(self, **_: Any) -> str:
            return self.answers.pop(0)

    return Scpi()


def pymeasure_supply() -> Any:
    """A Siglent SPD1305X; its settings are in ``served.adapter.known``."""
    with quiet():
        module = pytest.importorskip("pymeasure.instruments.siglenttechnologies")
        return module.SPD1305X(scpi())


def pymeasure_multimeter() -> Any:
    """A Keithley 2000."""
    with quiet():
        module = pytest.importorskip("pymeasure.instruments.keithley")
        return module.Keithley2000(scpi())


@contextlib.contextmanager
def qcodes_dac() -> Iterator[Any]:
    """A DummyInstrument with the parameters ``ch1`` and ``ch2``."""
    with quiet():
        module = pytest.importorskip("qcodes.instrument_drivers.mock_instruments")
        made = module.DummyInstrument(f"dac_{uuid.uuid4().hex[:8]}", gates=["ch1", "ch2"])
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def qcodes_rack() -> Iterator[Any]:
    """A DummyChannelInstrument with the channels ``A`` to ``F``."""
    with quiet():
        module = pytest.importorskip("qcodes.instrument_drivers.mock_instruments")
        made = module.DummyChannelInstrument(f"rack_{uuid.uuid4().hex[:8]}")
    try:
        yield made
    finally:
        made.close()


def ophyd_motor() -> Any:
    """A SynAxis."""
    with quiet():
        module = pytest.importorskip("ophyd.sim")
        return module.SynAxis(name="motor")


class Output:
    """A channel object over a VISA resource."""

    def __init__(self, resource: Any, number: int) -> None:
        self._resource, self.number = resource, number

    @property
    def voltage(self) -> float:
        """Output in volts."""
        return float(self._resource.query(f"CH{self.number}:VOLT?"))

    @voltage.setter
    def voltage(self, value: float) -> None:
        self._resource.query(f"CH{self.number}:VOLT {value:.2f}")

    def off(self) -> int:
        """To zero; its number."""
        self.voltage = 0.0
        return self.number


class VisaSupply:
    """Three channel objects, and the resource itself."""

    def __init__(self, resource: Any) -> None:
        self.resource = resource
        self.outputs = [Output(resource, number) for number in (1, 2, 3)]
        self.by_name = dict(zip(("a", "b", "c"), self.outputs, strict=True))

    def loudest(self) -> Output:
        """The output of the highest voltage."""
        return max(self.outputs, key=lambda each: each.voltage)

    def place(self, output: object) -> int:
        """Where an output stands in the list; -1 for anything else."""
        return next((at for at, each in enumerate(self.outputs) if each is output), -1)


@contextlib.contextmanager
def visa_supply(folder: Path) -> Iterator[VisaSupply]:
    """A supply behind pyvisa-sim."""
    visa = pytest.importorskip("pyvisa")
    pytest.importorskip("pyvisa_sim")
    path = folder / "supply.yaml"
    path.write_text(SIMULATED, encoding="utf-8")
    with quiet():
        manager = visa.ResourceManager(f"{path}@sim")
        resource = manager.open_resource(
            "TCPIP0::supply::INSTR", read_termination="\n", write_termination="\n"
        )
    try:
        yield VisaSupply(resource)
    finally:
        manager.close()
