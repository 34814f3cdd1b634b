"""Devices of ophyd that belong together: a motor, and a detector that sees a peak where the motor is."""

from __future__ import annotations

from ophyd.sim import SynAxis, SynGauss


class Beamline:
    """Simulated; the devices of a real one are made here in the same way."""

    def __init__(self) -> None:
        self.motor = SynAxis(name="motor")
        self.detector = SynGauss("detector", self.motor, "motor", center=0, Imax=1, sigma=1)
