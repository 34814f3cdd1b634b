"""Message ids: a UUIDv8 that carries time, a counter and the sender's epoch.

::

    bits 127..80   48   Unix time in milliseconds
    bits  79..76    4   version 8
    bits  75..64   12   counter, high part
    bits  63..62    2   variant
    bits  61..32   30   counter, low part
    bits  31..0    32   epoch of the sender

The counter never repeats within an epoch, whatever the clock does; a restart or a fork begins a
new epoch. So (epoch, time, counter) is unique per sender, which is what a GCM nonce needs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, cast

from .errors import FrameError, LocalProtocolError

TIME_BITS = 48
COUNTER_BITS = 42
EPOCH_BITS = 32

_LOW = (1 << 30) - 1
_VARIANT = 2 << 30
_OWN_HEX = "[0-9a-f]{12}8[0-9a-f]{3}[89ab][0-9a-f]{15}"
_OWN_URN = "urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_is_own_hex, _is_own_urn = re.compile(_OWN_HEX).fullmatch, re.compile(_OWN_URN).fullmatch
is_own_hex, is_own_urn = re.compile(_OWN_HEX.encode()).fullmatch, re.compile(_OWN_URN.encode()).fullmatch
"""Whether bytes are an id of this protocol, as 32 hex digits or as ``urn:uuid:``."""
HEX = b"%012x8%03x%08x%08x"
"""An id as 32 hex digits: of time, counter >> 30, 1 << 31 | the counter's other bits, epoch."""
URN = b"urn:uuid:%08x-%04x-8%03x-%04x-%04x%08x"
"""An id as frame 3: of time >> 16, its rest, counter >> 30, 0x8000 | its next 14 bits, its rest, epoch."""
_is_hex = re.compile(r"[0-9a-f]{32}").fullmatch
_is_urn = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch


class Stamp(NamedTuple):
    """Time [ms since 1970], counter and epoch of one message."""

    ms: int
    counter: int
    epoch: int

    def nonce(self) -> bytes:
        """The 12 bytes that may be used once under a key derived for (sender, epoch)."""
        return ((self.ms << COUNTER_BITS | self.counter) << 6).to_bytes(12, "big")

    def hex(self) -> str:
        """The id as 32 hex digits."""
        low = self.counter & _LOW
        return (HEX % (self.ms, self.counter >> 30, _VARIANT | low, self.epoch)).decode()

    def urn(self) -> str:
        """The id as ``urn:uuid:``."""
        return self.urn_frame().decode()

    def urn_frame(self) -> bytes:
        """The id as ``urn:uuid:``, for frame 3."""
        ms, counter, epoch = self
        low = counter & _LOW
        return URN % (ms >> 16, ms & 0xFFFF, counter >> 30, 0x8000 | low >> 16, low & 0xFFFF, epoch)


# A named tuple's own constructor is Python code, and takes twice as long.
new_stamp = cast("Callable[[type[Stamp], tuple[int, int, int]], Stamp]", tuple.__new__)
"""As `Stamp` itself, of the class and a tuple."""


class MessageIds:
    """Source of the ids of one sender in one epoch; safe from any thread.

    Args:
        epoch: 32-bit number, new for every start and every fork.
        first: first counter value, below 2**41 so that the counter cannot wrap.
    """

    def __init__(self, epoch: int, first: int = 0) -> None:
        if not 0 <= epoch < 1 << EPOCH_BITS or not 0 <= first < 1 << (COUNTER_BITS - 1):
            raise LocalProtocolError(f"epoch {epoch} or first counter {first} out of range")
        self.epoch = epoch
        self._counter = itertools.count(first)
        self.count = self._counter.__next__
        """The next counter; whoever takes one makes the id with it, in this epoch."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source of message ids cannot be copied: both copies would give the same ids")

    def next(self, now_ms: int) -> Stamp:
        """The stamp of a new id; ``now_ms`` is Unix time in milliseconds.

        Raises:
            LocalProtocolError: for a time before 1970 or beyond 48 bits.
        """
        if not 0 <= now_ms < 1 << TIME_BITS:
            raise no_time(now_ms)
        return new_stamp(Stamp, (now_ms, next(self._counter), self.epoch))

    def next_urn(self, now_ms: int) -> str:
        """A new id as ``urn:uuid:``; errors as `next`."""
        return self.next(now_ms).urn()


def no_time(now_ms: int) -> LocalProtocolError:
    """The error of a time before 1970 or beyond 48 bits."""
    return LocalProtocolError(f"this machine's clock shows {now_ms} ms since 1970, which no id can carry")


def is_urn(msgid: str) -> bool:
    """True for a canonical ``urn:uuid:`` of any UUID version."""
    return _is_urn(msgid) is not None


def parse_hex(digits: str) -> Stamp:
    """Read the stamp out of 32 hex digits.

    Raises:
        FrameError: when it is not one of our UUIDv8.
    """
    if _is_own_hex(digits) is None:
        if _is_hex(digits) is None:
            raise FrameError(f"{digits[:60]!r} is not 32 hex digits")
        raise FrameError(f"{digits} is not a message id of this protocol (UUIDv8)")
    number = int(digits[:24], 16)
    counter = (number >> 32 & 0xFFF) << 30 | number & _LOW
    return new_stamp(Stamp, (number >> 48, counter, int(digits[24:], 16)))


def parse_urn(msgid: str) -> Stamp:
    """Read the stamp out of a ``urn:uuid:``.

    Raises:
        FrameError: when it is not a canonical UUIDv8 urn.
    """
    if _is_own_urn(msgid) is None:
        if _is_urn(msgid) is None:
            raise FrameError(f"message id {msgid[:60]!r} is not a canonical urn:uuid:")
        raise FrameError(f"{msgid} is not a message id of this protocol (UUIDv8)")
    number = int(msgid[9:-8].replace("-", ""), 16)
    counter = (number >> 32 & 0xFFF) << 30 | number & _LOW
    return new_stamp(Stamp, (number >> 48, counter, int(msgid[-8:], 16)))
