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
from typing import NamedTuple, NoReturn

from .errors import FrameError, LocalProtocolError

TIME_BITS = 48
COUNTER_BITS = 42
EPOCH_BITS = 32

_FIXED = (8 << 76) | (2 << 62)
_FIXED_MASK = (15 << 76) | (3 << 62)
_LOW = (1 << 30) - 1
_HEX = re.compile(r"[0-9a-f]{32}")
_URN = re.compile(r"urn:uuid:([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})")


class Stamp(NamedTuple):
    """Time [ms since 1970], counter and epoch of one message."""

    ms: int
    counter: int
    epoch: int

    def nonce(self) -> bytes:
        """The 12 bytes that may be used once under a key derived for (sender, epoch)."""
        return (((self.ms << COUNTER_BITS) | self.counter) << 6).to_bytes(12, "big")


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
        self._tail = _FIXED | epoch
        self._counter = itertools.count(first)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source of message ids cannot be copied: both copies would give the same ids")

    def next_hex(self, now_ms: int) -> str:
        """32 hex digits of a new id; ``now_ms`` is Unix time in milliseconds.

        Raises:
            LocalProtocolError: for a time before 1970 or beyond 48 bits.
        """
        if not 0 <= now_ms < 1 << TIME_BITS:
            raise LocalProtocolError(
                f"this machine's clock shows {now_ms} ms since 1970, which no id can carry"
            )
        counter = next(self._counter)
        return f"{now_ms << 80 | (counter >> 30) << 64 | (counter & _LOW) << 32 | self._tail:032x}"

    def next_urn(self, now_ms: int) -> str:
        """A new id as ``urn:uuid:``."""
        return as_urn(self.next_hex(now_ms))


def as_urn(digits: str) -> str:
    """``urn:uuid:`` form of 32 hex digits."""
    return f"urn:uuid:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_urn(msgid: str) -> bool:
    """True for a canonical ``urn:uuid:`` of any UUID version."""
    return _URN.fullmatch(msgid) is not None


def parse_hex(digits: str) -> Stamp:
    """Read the stamp out of 32 hex digits.

    Raises:
        FrameError: when it is not one of our UUIDv8.
    """
    if _HEX.fullmatch(digits) is None:
        raise FrameError(f"{digits[:60]!r} is not 32 hex digits")
    value = int(digits, 16)
    if value & _FIXED_MASK != _FIXED:
        raise FrameError(f"{digits} is not a message id of this protocol (UUIDv8)")
    counter = ((value >> 64) & 0xFFF) << 30 | (value >> 32) & _LOW
    return Stamp(value >> 80, counter, value & 0xFFFFFFFF)


def parse_urn(msgid: str) -> Stamp:
    """Read the stamp out of a ``urn:uuid:``.

    Raises:
        FrameError: when it is not a canonical UUIDv8 urn.
    """
    found = _URN.fullmatch(msgid)
    if found is None:
        raise FrameError(f"message id {msgid[:60]!r} is not a canonical urn:uuid:")
    return parse_hex("".join(found.groups()))
