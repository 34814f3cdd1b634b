"""The floor of a notification: ``python -m benchmarks.floor``.

Two processes of Python and nothing else: one copies a payload into memory that both have mapped and are
used to, and writes 16 bytes into a socket; the other waits for these, and looks at the last element. Nothing
is numbered, encoded, signed, counted or given back. Sizes, paces and what is timed are those of
`benchmarks.notifications`.
"""

from __future__ import annotations

import mmap
import os
import socket
import statistics
import struct
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import table

CASES = (
    ("64 B", 64, 0.001, 1000),
    ("1 MiB", 1 << 20, 0.01, 200),
    ("16 MiB", 1 << 24, 0.1, 40),
    ("64 MiB", 1 << 26, 0.3, 15),
)
"""Name, bytes, seconds between two, how many."""

SLOTS = 4
WARM = 5
TIMEOUT = 30.0
_WORD = struct.Struct("<qq")


def one_way(size: int, pace: float, count: int) -> float:
    """Microseconds from before the copy until the reader has looked, the median."""
    memory = mmap.mmap(-1, SLOTS * size)
    slots = [np.frombuffer(memory, np.uint8, size, number * size) for number in range(SLOTS)]
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT)
    theirs.settimeout(TIMEOUT)
    child = os.fork()
    if not child:
        os._exit(_read(theirs, slots, count + WARM))
    try:
        ages = [_write(ours, slots, size, pace, number) for number in range(count + WARM)]
    finally:
        ours.close()
        os.waitpid(child, 0)
    return statistics.median(ages[WARM:]) / 1000


def _write(
    connection: socket.socket, slots: Sequence[NDArray[np.uint8]], size: int, pace: float, number: int
) -> int:
    payload = np.full(size, number & 0xFF, np.uint8)
    time.sleep(pace)
    began = time.monotonic_ns()
    slots[number % SLOTS][:] = payload
    connection.send(_WORD.pack(began, number))
    (age,) = struct.unpack("<q", connection.recv(8))
    return age


def _read(connection: socket.socket, slots: Sequence[NDArray[np.uint8]], count: int) -> int:
    for _ in range(count):
        began, number = _WORD.unpack(connection.recv(_WORD.size))
        seen = int(slots[number % SLOTS][-1])
        age = time.monotonic_ns() - began
        if seen != number & 0xFF:
            return 1
        connection.send(struct.pack("<q", age))
    return 0


def main() -> None:
    everywhere = os.sched_getaffinity(0)
    rows: list[tuple[str, ...]] = []
    for name, size, pace, count in CASES:
        found: list[str] = []
        for cores in ({max(everywhere)}, everywhere):
            os.sched_setaffinity(0, cores)
            found.append(f"{one_way(size, pace, count):.1f}")
        rows.append((name, f"{pace * 1000:g} ms", *found))
    print(table(("payload", "one per", "pinned, us", "not pinned, us"), rows))


if __name__ == "__main__":
    main()
