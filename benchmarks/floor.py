"""The floor of a notification: ``python -m benchmarks.floor``.

Two processes of Python and nothing else: one copies a payload into memory that both have mapped and are
used to, and writes 16 bytes into a socket; the other waits for these, and looks at the last element. Nothing
is numbered, encoded, signed, counted or given back. A last row does that to 64 bytes as a link does it, in a
straight line: numbered, pickled, in a message of a link, signed and verified by the lane in C, decoded, one
function called. Nothing is queued, locked, counted or acknowledged. Sizes, paces and what is timed are those
of `benchmarks.notifications`.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import socket
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pzc.protocol import link_codec
from pzc.protocol.link_messages import Notify, Row, Run
from pzc.transport.compiled import LANE

from benchmarks.bare_lane import bare_lane
from benchmarks.jobs import WrongResult
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
_PAYLOAD = struct.Struct("<q48xq")


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


def signed(pace: float, count: int) -> float:
    """As `one_way` of 64 bytes, numbered, encoded, signed, verified and decoded."""
    ours, theirs = socket.socketpair()
    found, tell = os.pipe()
    child = os.fork()
    if not child:
        ours.close()
        try:
            os.write(tell, struct.pack("<d", statistics.median(_verified(theirs, count + WARM)[WARM:])))
        finally:
            os._exit(0)  # also behind an error: the parent hears nothing, and says so
    theirs.close()
    try:
        lane = bare_lane(ours, asks=True, serializer=b"link")
        for number in range(1, count + WARM + 1):
            time.sleep(pace)
            content = _PAYLOAD.pack(time.monotonic_ns(), number)
            row = Row(number, time.time_ns() // 1_000_000, "", "pickle", pickle.dumps(content))
            lane.post((link_codec.encode(Notify(number, [Run("topic", [1], [row])])),), 0.0)
        if not select.select([found], [], [], TIMEOUT)[0]:
            raise WrongResult("the reader did not get everything in time")
        return struct.unpack("<d", os.read(found, 8))[0] / 1000
    finally:
        ours.close()
        os.waitpid(child, 0)
        os.close(found)
        os.close(tell)


def _verified(connection: socket.socket, count: int) -> list[int]:
    """How old each content was when a function had looked at its last number, in ns."""
    ages: list[int] = []
    poll, lane = select.poll(), bare_lane(connection.dup(), asks=False, serializer=b"link")
    poll.register(connection, select.POLLIN)

    def look(content: bytes) -> None:
        began, number = _PAYLOAD.unpack(content)
        if number == len(ages) + 1:
            ages.append(time.monotonic_ns() - began)

    while len(ages) < count and poll.poll(TIMEOUT * 1000):
        for body, *_ in lane.take(0.0) or ():
            said = link_codec.decode(body)
            if isinstance(said, Notify):
                for run in said.runs:
                    for row in run.rows:
                        look(pickle.loads(row.body))
    return ages


def main() -> None:
    everywhere = os.sched_getaffinity(0)
    rows: list[tuple[str, ...]] = []
    cases: list[tuple[str, float, Callable[[], float]]] = [
        (name, pace, partial(one_way, size, pace, count)) for name, size, pace, count in CASES
    ]
    if LANE is not None:
        cases.append(("64 B, signed", CASES[0][2], partial(signed, CASES[0][2], CASES[0][3])))
    for name, pace, measure in cases:
        found: list[str] = []
        for cores in ({max(everywhere)}, everywhere):
            os.sched_setaffinity(0, cores)
            found.append(f"{measure():.1f}")
        rows.append((name, f"{pace * 1000:g} ms", *found))
    print(table(("payload", "one per", "pinned, us", "not pinned, us"), rows))


if __name__ == "__main__":
    main()
