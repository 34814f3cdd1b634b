"""What both ends of a notification case do in one round, the same for every library.

A round's payloads are numbered from 1 without a hole, in their first and in their last element. Payloads
with the number `MARK` do not count: they find out whether a reader is there, and end a round whose last
payload may be lost.
"""

from __future__ import annotations

import gc
import os
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ends import SMALL, Array, Setting, Writer
from benchmarks.jobs import WrongResult, quiet

MARK = -1
NUMBERS = struct.Struct(f"<q{SMALL - 16}xq")
clock = time.monotonic_ns


class Payloads:
    """Makes the payloads of one writer.

    Args:
        setting: their size.
        count: how many arrays are filled in turn.
    """

    def __init__(self, setting: Setting, count: int) -> None:
        self._small = setting.size <= SMALL
        arrays = [np.frombuffer(bytearray(setting.size), np.float64) for _ in range(count)]
        self._arrays: list[Array] = [] if self._small else arrays
        for array in self._arrays:
            array[:] = np.arange(array.size)

    def next(self, number: int, writer: Writer, whole: bool = False) -> Any:
        """The payload of that number."""
        if self._small:
            return NUMBERS.pack(number, number)
        array = self._arrays[number % len(self._arrays)]
        writer.settle(array)
        write(array, number, whole)
        return array


def write(array: Array, number: int, whole: bool) -> None:
    """Put a payload's number where its reader looks for it."""
    if whole:
        array[:] = number
    array[0] = array[-1] = number


async def paced(writer: Writer, payloads: Payloads, count: int, interval: float, **how: Any) -> list[int]:
    """Send one payload per interval in seconds; when each was sent, in monotonic ns.

    With ``loan`` the payload is made in memory of the library's, and the time begins when it is filled.
    """
    sent: list[int] = []
    loan, whole = how.get("loan", 0), how.get("whole", False)
    first = time.monotonic()
    for number in range(1, count + 1):
        left = first + number * interval - time.monotonic()
        if writer.loops:
            await writer.pause(max(left, 0))
        elif left > 0:
            writer.pause(left)
        if loan:
            with writer.loan(loan) as array:
                write(array, number, whole)
                sent.append(clock())
            continue
        payload = payloads.next(number, writer, whole)
        sent.append(clock())
        pending = writer.send(payload)
        if writer.loops:
            await pending
    return sent


async def burst(writer: Writer, payloads: Payloads, count: int, **how: Any) -> list[int]:
    """Send so many payloads as fast as the library takes them; when the first was sent."""
    whole, next_, send, loops = how.get("whole", False), payloads.next, writer.send, writer.loops
    began = clock()
    for number in range(1, count + 1):
        pending = send(next_(number, writer, whole))
        if loops:
            await pending
    return [began]


async def mark(writer: Writer, payloads: Payloads) -> None:
    """Send one payload that does not count."""
    pending = writer.send(payloads.next(MARK, writer))
    if writer.loops:
        await pending


class Taking:
    """Takes the payloads of one round.

    Args:
        small: they are `SMALL` bytes, else arrays.
        count: how many there are; 0 waits for a mark and for nothing else.
        keep: when each came is kept, else only when the last one came.
        lossy: some may be missing, and a mark ends the round.
        whole: every element is looked at, else the first and the last one.
        delay: seconds that a slow reader spends on each.
    """

    def __init__(
        self, small: bool, count: int, keep: bool = False, lossy: bool = False, whole: bool = False,
        delay: float = 0.0,
    ) -> None:  # fmt: skip
        self.came: list[tuple[int, int]] = []
        self.received = 0
        self.error = ""
        self._last = 0
        self._small, self._count, self._keep, self._lossy = small, count, keep, lossy
        self._whole, self._delay = whole, delay

    def __call__(self, payload: Any) -> bool:
        """Take one; True when it was the last of the round."""
        if self._small:
            first, last = NUMBERS.unpack_from(payload)
        else:
            array = np.frombuffer(payload, np.float64)
            first, last = int(array[0]), int(array[-1])
            if self._whole and first > 0 and not (array == first).all():
                self.error = f"payload {first} is not whole"
                return True
        now = clock()
        if first == MARK:
            return self._count == 0 or (self._lossy and self._last > 0)
        return self._number(first, last, now)

    def _number(self, first: int, last: int, now: int) -> bool:
        if first != last or first <= self._last or (first != self._last + 1 and not self._lossy):
            self.error = f"payload {first}, at its end {last}, came after {self._last}"
            return True
        self._last = first
        self.received += 1
        if self._keep:
            self.came.append((first, now))
        else:
            self.came[:] = ((first, now),)
        if self._delay:
            time.sleep(self._delay)
        return first == self._count and not self._lossy

    def result(self) -> dict[str, Any]:
        """What the parent is told.

        Raises:
            WrongResult: when a payload was wrong, missing, repeated or out of order.
        """
        if self.error:
            raise WrongResult(self.error)
        return {"came": self.came, "received": self.received}


def copying(size: int, count: int) -> float:
    """Median time in microseconds of a copy between two arrays that are warm."""
    source, target = np.arange(size // 8, dtype=np.float64), np.zeros(size // 8)
    taken: list[int] = []
    with quiet():
        for i in range(count + 2):
            source[0] = i
            began = time.perf_counter_ns()
            target[:] = source
            taken.append(time.perf_counter_ns() - began)
    return float(np.median(taken[2:])) / 1e3


def memory() -> int:
    """Bytes of this process that nobody else can have: private memory, and blocks without a name."""
    with open("/proc/self/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    blocks: dict[int, int] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:"):
                found = os.stat(f"/proc/self/fd/{name}")
                blocks[found.st_ino] = found.st_blocks * 512
        except OSError:
            continue  # the descriptor of the listing itself
    return int(lines["RssAnon"].split()[0]) * 1024 + sum(blocks.values())


async def growth(writer: Writer, payloads: Payloads, count: int, interval: float, **how: Any) -> list[int]:
    """As `paced`; the most bytes that the process grew by, looked at ten times."""
    gc.collect()
    before, most, sent = memory(), 0, 0
    while sent < count:
        part = min(count // 10 or 1, count - sent)
        first = time.monotonic()
        for number in range(sent + 1, sent + part + 1):
            writer.pause(max(0.0, first + (number - sent) * interval - time.monotonic()))
            writer.send(payloads.next(number, writer, how.get("whole", False)))
        sent += part
        most = max(most, memory() - before)
    return [most]


JOBS: dict[str, Callable[..., Any]] = {"paced": paced, "burst": burst, "growth": growth}
