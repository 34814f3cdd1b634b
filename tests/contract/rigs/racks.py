"""A rack of instruments inside of one another: channels, parameters that are called, signals below, handles."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from pzc import Protocol, Proxy, Server, Signal


class Parameter:
    """Something that is called and has attributes, as in QCoDeS."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.value = 0.0

    def __call__(self, value: float | None = None) -> float | None:
        """Get the value, or set it."""
        if value is None:
            return self.value
        self.value = value
        return None

    def get(self) -> float:
        """Get the value."""
        return self.value

    def set(self, value: float) -> None:
        """Set the value."""
        self.value = value


class Channel:
    """One output of a rack."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.level = Parameter("V")
        self.changed = Signal()
        self._voltage = 0.0

    @property
    def voltage(self) -> float:
        """Output in volts."""
        return self._voltage

    @voltage.setter
    def voltage(self, value: float) -> None:
        old, self._voltage = self._voltage, value
        self.changed.emit(value, old)

    def off(self, *, slowly: bool = False) -> int:
        """Switch it off."""
        self.voltage = 0.0
        return self.number


class Session:
    """A context manager that a method returns."""

    def __init__(self, left: list[str]) -> None:
        self.open = False
        self._left = left

    def __enter__(self) -> Session:
        self.open = True
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.open = False
        self._left.append("nothing" if error is None else str(error))


class Rack:
    """Channels, by attribute, in a list and by name."""

    def __init__(self) -> None:
        self.ch1, self.ch2 = Channel(1), Channel(2)
        self.channels = [self.ch1, self.ch2]
        self.by_name = {"one": self.ch1, "two": self.ch2}
        self.left: list[str] = []
        self.given: list[Any] = []
        self.lock = threading.Lock()

    @property
    def chosen(self) -> Channel | None:
        """The channel in use."""
        return self.given[-1] if self.given else None

    def make(self, number: int) -> Channel:
        """A new channel, which nothing else refers to."""
        return Channel(number)

    def pair(self) -> tuple[Channel, Channel]:
        """Both."""
        return self.ch1, self.ch2

    def each(self) -> Iterator[Channel]:
        """One after the other."""
        yield from self.channels

    def session(self) -> Session:
        """Something for a with statement."""
        return Session(self.left)

    def choose(self, channel: Channel) -> bool:
        """Use a channel; whether it is one of this rack."""
        self.given.append(channel)
        return any(channel is each for each in self.channels)

    def which(self, *channels: Any, **named: Any) -> list[Any]:
        """Numbers of channels, wherever they stand in the arguments."""
        return [_number(each) for each in (*channels, *named.values())]

    def voltage_of(self, channel: Any) -> float:
        """Ask a channel, of whatever rack."""
        return channel.voltage


def _number(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return [_number(each) for each in given]
    if isinstance(given, dict):
        return {key: _number(each) for key, each in given.items()}
    return given.number if isinstance(given, Channel) else given


@contextlib.contextmanager
def racked(
    rack: object, *, key: str = "", transport: str = "tcp", serializer: str = "pickle"
) -> Iterator[Any]:
    """A proxy of a served rack."""
    protocol = Protocol(key, serializer)
    with (
        Server(rack, name="rack", protocol=protocol, discovery=False) as server,
        Proxy(server.rep_endpoint, protocol=protocol, transport=transport, timeout=10.0) as proxy,
    ):
        yield proxy
