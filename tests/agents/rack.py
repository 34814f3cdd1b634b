"""An instrument with all that a driver may have."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pzc import (
    Signal,
    on_cancel,
    reading,
    urgent,
)


class Parameter:
    """Both callable and with attributes."""

    unit = "V"

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self, *value: float) -> float:
        if value:
            (self.value,) = value
        return self.value

    @reading
    def history(self) -> list[float]:
        """What it was."""
        return [self.value]


class Channel:
    """One of several."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.level = Parameter()
        self.changed = Signal()
        self.limits = {"low": 0}
        self._secret = 1

    @property
    def voltage(self) -> float:
        """Moves hardware."""
        return float(self.number)

    @voltage.setter
    def voltage(self, value: float) -> None:
        self.number = int(value)

    def off(self) -> int:
        """Switch it off."""
        return self.number

    def owner_of(self, other: object) -> bool:
        """Whether that is this very object."""
        return other is self

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.number = -1 if exc[0] is None else -2


class Bank:
    """Channels behind methods of its own, as drivers have them."""

    def __init__(self, channels: list[Channel]) -> None:
        self._channels = channels

    def __getitem__(self, key: Any) -> Any:
        return self._channels[key]

    def __len__(self) -> int:
        return len(self._channels)


class Mode(enum.Enum):
    """A value."""

    FAST = 1


@dataclass(frozen=True)
class Reading:
    """A value, too."""

    volts: float


class Rack:
    """All that an instrument may have."""

    def __init__(self) -> None:
        self.ch1 = Channel(1)
        self.channels = [self.ch1, Channel(2)]
        self.bank = Bank(self.channels)
        self.named = {"a": self.ch1}
        self.modes = {"now": Mode.FAST}
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.mode = Mode.FAST
        self.reading = Reading(1.0)
        self.threading = threading
        self.stopped: list[str] = []
        self.looked = 0

    @property
    def trace(self) -> list[float]:
        """Made for whoever asks."""
        return [1.0, 2.0]

    @property
    def selected(self) -> Channel:
        """A channel that is only found by asking."""
        self.looked += 1
        return self.ch1

    def channel(self, number: int) -> Channel:
        """One of them."""
        return self.channels[number]

    def both(self) -> tuple[int, Channel]:
        """A value and a channel."""
        return 1, self.ch1

    def itself(self) -> Rack:
        """The whole."""
        return self

    def each(self) -> Iterator[Any]:
        """Values and channels."""
        yield 1
        yield self.ch1

    async def soon(self) -> Channel:
        """A channel, later."""
        await asyncio.sleep(0)
        return self.ch1

    async def slowly(self) -> AsyncIterator[int]:
        """Numbers."""
        yield 1

    def future(self) -> Future[int]:
        """Later."""
        return Future()

    @on_cancel("off")
    def ramp(self) -> None:
        """Takes long."""

    @urgent
    def off(self) -> None:
        """Stop."""
        self.stopped.append("off")
