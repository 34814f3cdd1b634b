"""A power supply with channels, as drivers have them, and a ramp that a test holds at its gate."""

from __future__ import annotations

import contextlib
import enum
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pzc import Protocol, Proxy, Server, Signal, cancelled

KEY = "a key that both sides know"
TIMEOUT = 10.0
"""Seconds after which a test gives up."""


class Mode(enum.Enum):
    """What a channel keeps constant."""

    VOLTAGE = "cv"
    CURRENT = "cc"


class Tripped(RuntimeError):
    """An error of a driver's own, made of two arguments and a sentence."""

    def __init__(self, channel: int, volts: float) -> None:
        super().__init__(f"channel {channel} tripped at {volts} V")
        self.channel, self.volts = channel, volts


class Channel:
    """One output; it notes when calls overlap."""

    def __init__(self, supply: Supply, number: int) -> None:
        self._supply, self.number = supply, number
        self._voltage = 0.0
        self.unit = "V"

    @property
    def voltage(self) -> float:
        """Output in volts."""
        return self._voltage

    @voltage.setter
    def voltage(self, value: float) -> None:
        self._voltage = value

    def off(self) -> int:
        """Switch it off."""
        with self._supply.entered():
            self._voltage = 0.0
        return self.number


class Supply:
    """Two channels, a ramp that runs until a test lets it go, and what went on in it."""

    def __init__(self) -> None:
        self.ch1, self.ch2 = Channel(self, 1), Channel(self, 2)
        self.channels = [self.ch1, self.ch2]
        self.mode = Mode.VOLTAGE
        self.names = defaultdict(list, first=[1])
        self.changed = Signal()
        self.running = threading.Event()
        self.opened = threading.Event()
        self.ended = threading.Event()
        self.calls: list[str] = []
        self.overlaps = 0
        self.inside = threading.Lock()
        self._voltage = 1.0

    @property
    def voltage(self) -> float:
        """Output in volts."""
        return self._voltage

    @voltage.setter
    def voltage(self, value: float) -> None:
        self._voltage = value

    def entered(self) -> _Alone:
        """Counts who comes in while somebody is inside."""
        return _Alone(self)

    def hold(self) -> str:
        """Asks nothing, and goes on until it is let go."""
        self.calls.append("hold")
        self.running.set()
        self.opened.wait(TIMEOUT)
        self.ended.set()
        return "let go"

    def ramp(self) -> str:
        """Goes on until it is let go, or called off by whoever asked for it."""
        self.calls.append("ramp")
        self.running.set()
        try:
            while not self.opened.wait(0.01):
                if cancelled():
                    return "called off"
        finally:
            self.ended.set()
        return "let go"

    def note(self, word: str = "note") -> int:
        """How often something was noted."""
        self.calls.append(word)
        return len(self.calls)

    def off(self) -> str:
        """Switch all off."""
        self.calls.append("off")
        return "off"

    def trip(self) -> None:
        """Fail as the driver does."""
        raise Tripped(2, 31.0)

    def count(self) -> Iterator[int]:
        """Numbers, the second one when it is let go."""
        yield 1
        self.opened.wait(TIMEOUT)
        yield 2

    def back(self, value: Any) -> Any:
        """What was given."""
        return value


class _Alone:
    def __init__(self, supply: Supply) -> None:
        self._lock = supply.inside
        self._supply = supply

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._supply.overlaps += 1
            self._lock.acquire()
        threading.Event().wait(0.002)

    def __exit__(self, *exc: object) -> None:
        self._lock.release()


@contextlib.contextmanager
def held(served: object, *, key: str = KEY, timeout: float = TIMEOUT, **options: Any) -> Iterator[Any]:
    """A proxy of a served object over TCP."""
    with (
        Server(served, protocol=Protocol(key), **options) as server,
        Proxy(server.rep_endpoint, protocol=Protocol(key), timeout=timeout, transport="tcp") as proxy,
    ):
        try:
            yield proxy
        finally:
            if isinstance(served, Supply):
                served.opened.set()


def another(proxy: Any, **options: Any) -> Any:
    """A second client of the same server."""
    target = repr(proxy).rpartition(" ")[2].rstrip(">")
    return Proxy(target, protocol=Protocol(KEY), **{"timeout": TIMEOUT, **options})
