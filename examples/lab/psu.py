"""A driver for a laboratory power supply, written as a lab writes one.

It is PyVISA and SCPI, and knows nothing of the network. The instrument is simulated by pyvisa-sim from
``psu.yaml``; with another VISA library the same class drives a real supply that speaks these commands.
"""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from types import TracebackType
from typing import cast

import pyvisa
from pyvisa.constants import VI_NULL, StatusCode
from pyvisa.resources import MessageBasedResource

from pzc import Signal

SIMULATION = f"{Path(__file__).with_name('psu.yaml')}@sim"
RESOLUTION = 0.001
ERROR_QUEUE_LIMIT = 100

logger = logging.getLogger("pzc.examples.lab")


class RangeError(ValueError):
    """A value outside what the supply can do; nothing was sent to it."""


class InstrumentError(RuntimeError):
    """The supply did not answer, or refused a command; the text holds its error queue."""


class PowerSupply:
    """One power supply at the end of a VISA session.

    Not thread-safe, as most drivers: every command is several exchanges on one session.

    Args:
        resource: VISA resource name.
        library: VISA library as ``pyvisa.ResourceManager`` takes it; the simulation by default.
        timeout: seconds to wait for an answer [2.0].

    Attributes:
        voltage_changed: signal ``(new, old)`` in volts, when the programmed voltage has changed.
        current_limit_changed: signal ``(new, old)`` in amperes, when the limit has changed.
        output_changed: signal ``(new, old)``, bools, when the output was switched.

    Raises:
        pyvisa.errors.VisaIOError: the resource cannot be opened.
        InstrumentError: no instrument is there, or it does not answer.

    Every member raises ``pyvisa.errors.InvalidSession`` after ``close()``.
    """

    VOLTAGE_RANGE = (0.0, 30.0)
    CURRENT_RANGE = (0.05, 5.0)

    def __init__(
        self, resource: str = "TCPIP::10.0.0.7::INSTR", library: str = SIMULATION, *, timeout: float = 2.0
    ) -> None:
        self.voltage_changed = Signal()
        self.current_limit_changed = Signal()
        self.output_changed = Signal()
        self._manager = pyvisa.ResourceManager(library)
        self._session = cast(
            MessageBasedResource,
            self._manager.open_resource(
                resource, read_termination="\n", write_termination="\n", timeout=round(timeout * 1000)
            ),
        )
        # pyvisa-sim "opens" a resource that does not exist, as a null session that swallows everything.
        if self._session.session == VI_NULL:
            raise InstrumentError(f"no instrument at {resource!r} in {library!r}")
        try:
            for error in self.errors():
                logger.warning("%s: left over from an earlier session: %s", resource, error)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PowerSupply:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def identity(self) -> str:
        """Maker, model, serial number and firmware, separated by commas (``*IDN?``)."""
        return self._query("*IDN?")

    @property
    def voltage(self) -> float:
        """Programmed voltage in V, 0 to 30, rounded to 1 mV.

        Setting raises RangeError outside the range and InstrumentError when the supply refuses.
        """
        return float(self._query(":VOLT?"))

    @voltage.setter
    def voltage(self, volts: float) -> None:
        self._program(":VOLT", volts, self.VOLTAGE_RANGE, "V", self.voltage_changed)

    @property
    def current_limit(self) -> float:
        """Current limit in A, 0.05 to 5, rounded to 1 mA.

        Setting raises RangeError outside the range and InstrumentError when the supply refuses.
        """
        return float(self._query(":CURR?"))

    @current_limit.setter
    def current_limit(self, amperes: float) -> None:
        self._program(":CURR", amperes, self.CURRENT_RANGE, "A", self.current_limit_changed)

    @property
    def output(self) -> bool:
        """Whether the terminals are live.

        Setting takes True, False, 1 or 0; anything else raises ValueError.
        """
        return self._query(":OUTP?") in ("ON", "1")

    @output.setter
    def output(self, on: bool) -> None:
        # bool("OFF") is True: a supply must not switch on because somebody spelt "off".
        if on not in (True, False):
            raise ValueError(f"output is True or False, not {on!r}")
        old = self.output
        self._command(f":OUTP {'ON' if on else 'OFF'}")
        new = self.output
        if new != old:
            self.output_changed.emit(new, old)

    @property
    def measured_voltage(self) -> float:
        """Voltage at the terminals in V; 0 while the output is off."""
        return float(self._query(":MEAS:VOLT?"))

    @property
    def measured_current(self) -> float:
        """Current through the load in A; 0 while the output is off."""
        return float(self._query(":MEAS:CURR?"))

    def ramp(self, target: float, step: float = 0.1, dwell: float = 0.0) -> list[float]:
        """Go from the programmed voltage to ``target`` in equal steps, up or down.

        Args:
            target: volts.
            step: largest step in volts; values are rounded to 1 mV [0.1].
            dwell: seconds to stay on every step but the last [0].

        Returns:
            The voltage read back after each step; the last one is the target. At least one value.

        Raises:
            RangeError: ``target`` is out of range; nothing was changed.
            ValueError: ``step`` is below 1 mV or ``dwell`` is negative; nothing was changed.
            InstrumentError: the supply refused a step; it stays where the step before left it.
        """
        _check_range(target, self.VOLTAGE_RANGE, "V")
        if not step >= RESOLUTION:
            raise ValueError(f"step must be at least {RESOLUTION} V, not {step!r}")
        if not 0 <= dwell < math.inf:
            raise ValueError(f"dwell must be finite and not negative, not {dwell!r}")
        start = self.voltage
        # Rounded, else three steps could count as four: (0.8 - 0.5) / 0.1 is a little more than 3.
        steps = math.ceil(round(abs(target - start) / step, 6))
        values: list[float] = []
        for number in range(1, steps):
            self.voltage = start + (target - start) * number / steps
            values.append(self.voltage)
            if dwell:
                time.sleep(dwell)
        self.voltage = target
        values.append(self.voltage)
        return values

    def errors(self) -> list[str]:
        """Empty the error queue; oldest first, as the supply words them (``-100,"Command error"``).

        Raises:
            InstrumentError: the supply does not answer, or its queue does not end.
        """
        found: list[str] = []
        while len(found) < ERROR_QUEUE_LIMIT:
            answer = self._ask(":SYST:ERR?")
            if answer.split(",", 1)[0] in ("0", "+0"):
                return found
            found.append(answer)
        raise InstrumentError(f"more than {ERROR_QUEUE_LIMIT} errors in the queue: {found[0]} … {found[-1]}")

    def close(self) -> None:
        """End the session; the output stays as it is. Closing twice is allowed."""
        # Not the resource manager: PyVISA shares it, so that would end other drivers' sessions as well.
        self._session.close()

    def _program(
        self, command: str, value: float, limits: tuple[float, float], unit: str, changed: Signal
    ) -> None:
        _check_range(value, limits, unit)
        old = float(self._query(f"{command}?"))
        self._command(f"{command} {value:.3f}")
        new = float(self._query(f"{command}?"))
        if new != old:
            changed.emit(new, old)

    def _command(self, command: str) -> None:
        """Send a command that has no answer, then ask whether it was understood."""
        self._session.write(command)
        refused = self.errors()
        if refused:
            raise InstrumentError(f"{command!r} was refused: {'; '.join(refused)}")

    def _query(self, question: str) -> str:
        """Ask; a question without an answer left its reason in the error queue."""
        try:
            return self._ask(question)
        except InstrumentError as silence:
            reasons = self.errors()
            raise InstrumentError(
                f"{silence}: {'; '.join(reasons) or 'the error queue is empty'}"
            ) from silence

    def _ask(self, question: str) -> str:
        try:
            return self._session.query(question).strip()
        except pyvisa.errors.VisaIOError as error:
            if error.error_code != StatusCode.error_timeout:
                raise
            raise InstrumentError(f"no answer to {question!r} in {self._session.timeout / 1000} s") from error


def _check_range(value: float, limits: tuple[float, float], unit: str) -> None:
    low, high = limits
    # Written so that NaN fails: every comparison with it is false.
    if not low <= value <= high:
        raise RangeError(f"{value!r} {unit} is outside {low:g} … {high:g} {unit}")
