"""What is served and sent: the same object, arguments and bytes for everybody.

Imports are in the functions, so that a rival's process loads nothing of ours that it does not use.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

ECHO_BYTES = 16 << 20
"""Size of the array that is echoed."""


class Innermost:
    """What is served two levels deep."""

    def add(self, a: int, b: int) -> int:
        return a + b


class Inner:
    """What is served one level deep."""

    def __init__(self) -> None:
        self.innermost = Innermost()


class Bench:
    """The served object."""

    def __init__(self) -> None:
        self.inner = Inner()

    def add(self, a: int, b: int) -> int:
        return a + b

    async def add_later(self, a: int, b: int) -> int:
        return a + b

    def third_of(self, some: bytes, result: int) -> int:
        """Takes bytes, and gives the other argument back."""
        return result

    def echo(self, value: Any) -> Any:
        return value

    def wait(self, seconds: float) -> tuple[float, float]:
        """Wait as a driver waits for its instrument; when it began and ended, in monotonic seconds."""
        began = time.monotonic()
        time.sleep(seconds)
        return began, time.monotonic()

    def compute(self, seconds: float) -> tuple[float, float]:
        """As `wait`, but busy in Python all the time, so that it competes for the interpreter."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            pass
        return began, time.monotonic()


def array() -> np.ndarray[Any, np.dtype[np.float64]]:
    """The array that is echoed: float64, no two values alike."""
    import numpy as np

    return np.arange(ECHO_BYTES // 8, dtype=np.float64)


def add_request() -> tuple[str, str, object]:
    """Content of the request that ``proxy.add(1, 2)`` sends."""
    from pzc.protocol.contents import ps_message

    return ps_message("exec", {"name": "add", "method": "__call__", "args": (1, 2)})


def add_frames() -> list[bytes]:
    """The five signed frames of one ``add(1, 2)``, for rivals that send bytes of these sizes."""
    from pzc import Protocol

    sender, receiver = os.urandom(16).hex(), os.urandom(16).hex()
    return [bytes(frame) for frame in Protocol().encode(sender, "", add_request(), receiver=receiver)]
