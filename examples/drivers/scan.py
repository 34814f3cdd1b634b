"""A scan of bluesky over devices that other machines serve.

python -m examples.drivers.scan beamline
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bluesky import RunEngine
from bluesky.plans import scan
from ophyd.status import Status

import pzc

MOVE = 60.0
_moving = ThreadPoolExecutor(8, "moving")


class Device:
    """A served ophyd device, as a plan wants it: what takes long gives a status of this process."""

    parent = None

    def __init__(self, proxy: Any) -> None:
        self._proxy = proxy
        self.name: str = proxy.name
        self.hints: dict[str, Any] = proxy.hints
        self.read = proxy.read
        self.describe = proxy.describe
        self.read_configuration = proxy.read_configuration
        self.describe_configuration = proxy.describe_configuration

    def trigger(self) -> Status:
        """Take a reading."""
        return self._later(lambda: self._proxy.trigger().wait(MOVE))

    def set(self, value: float) -> Status:
        """Move."""
        return self._later(lambda: self._proxy.set(value).wait(MOVE))

    def _later(self, move: Callable[[], object]) -> Status:
        status = Status(self)

        def run() -> None:
            try:
                move()
            except Exception as exc:
                status.set_exception(exc)
            else:
                status.set_finished()

        _moving.submit(run)
        return status


def main() -> None:
    beamline: Any = pzc.Proxy(sys.argv[1])
    motor, detector = Device(beamline.motor), Device(beamline.detector)

    def show(kind: str, document: Any) -> None:
        if kind == "event":
            print({name: round(float(value), 2) for name, value in document["data"].items()})

    RunEngine()(scan([detector], motor, -1, 1, 3), show)
    pzc.close(beamline)


if __name__ == "__main__":
    main()
