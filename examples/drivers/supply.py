"""A class of your own over PyVISA: two outputs, a ramp that can be stopped."""

from __future__ import annotations

from typing import Any

import pyvisa

import pzc


class Output:
    """One output of the supply."""

    def __init__(self, resource: Any, number: int) -> None:
        self._resource, self.number = resource, number

    @property
    def voltage(self) -> float:
        """In volts."""
        return float(self._resource.query(f"CH{self.number}:VOLT?"))

    @voltage.setter
    def voltage(self, volts: float) -> None:
        if self._resource.query(f"CH{self.number}:VOLT {volts:.2f}") != "OK":
            raise ValueError(f"the supply refused {volts} V")


class Supply:
    """A supply with two outputs.

    Args:
        address: VISA resource.
        library: of VISA; default the system's.
    """

    def __init__(self, address: str, library: str = "") -> None:
        manager = pyvisa.ResourceManager(library)
        self._resource = manager.open_resource(address, read_termination="\n", write_termination="\n")
        self.outputs = [Output(self._resource, 1), Output(self._resource, 2)]

    @pzc.on_cancel("off")
    def ramp(self, number: int, stop: float, step: float = 0.5) -> float:
        """Go to a voltage in steps; where it arrived."""
        output = self.outputs[number - 1]
        while (left := stop - output.voltage) and not pzc.cancelled():
            output.voltage += max(-step, min(step, left))
        return output.voltage

    @pzc.urgent
    def off(self) -> None:
        """Every output to 0 V."""
        for output in self.outputs:
            output.voltage = 0.0
