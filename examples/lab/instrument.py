"""Instruments that speak by themselves, as ``pzc up`` serves them: `run` begins, a signal tells."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pzc
from pzc import Signal

from . import camera
from .co2 import Co2Analyser
from .host import Host
from .pacing import Publish, Tally

RATE = 20.0
"""Of the host and of the camera, in Hz."""


class Instrument:
    """Runs the loop of an instrument, once at a time.

    Args:
        loop: publishes for so many seconds, or until the event is set.
        publish: called with topic and content.
    """

    def __init__(self, loop: Callable[[Publish, threading.Event, float], Tally], publish: Publish) -> None:
        self._loop, self._publish = loop, publish
        self._stop = threading.Event()

    @pzc.on_cancel("stop")
    def run(self, seconds: float) -> int:
        """Publish for so many seconds; how many notifications that were."""
        self._stop.clear()
        return self._loop(self._publish, self._stop, seconds).published

    @pzc.urgent
    def stop(self) -> None:
        """End `run` at once."""
        self._stop.set()


class HostInstrument(Instrument):
    """The load of this machine."""

    def __init__(self) -> None:
        self.host = Signal("reading")
        host = Host()
        super().__init__(
            lambda publish, stop, seconds: host.run(publish, stop, RATE, int(seconds * RATE)),
            lambda _, content: self.host.emit(content),
        )


class Co2Instrument(Instrument):
    """The whole record of the analyser, in the time that it is given."""

    def __init__(self) -> None:
        self.co2 = Signal("week")
        analyser = Co2Analyser()
        weeks = len(analyser.record())
        super().__init__(
            lambda publish, stop, seconds: analyser.run(publish, stop, weeks / seconds),
            lambda _, content: self.co2.emit(content),
        )


class CameraInstrument(Instrument):
    """Frames, each with its index."""

    def __init__(self) -> None:
        self.frame = Signal("index", "image")
        self.camera = camera.Camera()
        super().__init__(
            lambda publish, stop, seconds: self.camera.run(publish, stop, RATE, int(seconds * RATE)),
            self._tell,
        )

    def _tell(self, _: str, content: Any) -> None:
        self.frame.emit(content["index"], content["image"])
