"""``pzc bench``: how fast calls and notifications are here, or between here and another machine."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from ..agents import Server, close, remote_of
from ..delivery.policies import block
from ..protocol.errors import MemberRefused
from ..shm import machine
from .echo import Echo
from .options import Commands, add_command, add_json, add_timeout, seconds
from .output import say, write_json
from .reaching import proxy_of
from .tables import write_table
from .targets import UsageError

SECONDS = 1.0
THREADS, IN_FLIGHT, WARM = 8, 100, 50
ARRAYS = {"1 MB": 1 << 20, "16 MB": 1 << 24}
NOTIFICATIONS = {"64 B": (64, 2000, 200), "an array of 1 MB": (1 << 20, 200, 50)}
"""Size in bytes, how many at full speed, how many one by one."""

PACE, PATIENCE = 0.002, 30.0
HEADINGS = ("what", "transport", "median", "p99", "rate")


class Row(NamedTuple):
    """One measurement.

    Attributes:
        what: was measured.
        transport: by which one.
        median_us: microseconds of one; None where only the rate is told.
        p99_us: the same, of the slowest hundredth.
        rate_hz: per second.
    """

    what: str
    transport: str
    median_us: float | None
    p99_us: float | None
    rate_hz: float | None


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    bench = add_command(
        commands, "bench", run_bench, "measure calls and notifications, here or with another machine",
        "pzc bench\n  pzc serve pzc.console.echo:Echo --name echo --bind tcp://0.0.0.0:5557   (there)\n"
        "  pzc bench echo                                                        (here)",
    )  # fmt: skip
    bench.add_argument(
        "agent", nargs="?", metavar="N", help="that serves pzc.console.echo:Echo; default a process here"
    )
    bench.add_argument(
        "--seconds", type=seconds, default=SECONDS, metavar="S", help=f"for each line; default {SECONDS:g}"
    )
    add_timeout(bench)
    add_json(bench)


def run_bench(args: argparse.Namespace) -> int:
    """``pzc bench``."""
    own = None if args.agent else Server.serve_in_process(Echo)
    here = ("unix", "tcp") if machine.LANE else ("tcp",)
    transports = here if own is not None else ("auto",)
    try:
        rows: list[Row] = []
        for transport in transports:
            target = args.agent if own is None else remote_of(own).endpoint
            with proxy_of(target, args.timeout, transport) as proxy:
                if not args.json:
                    say(f"measuring by {transport}" if own is not None else f"measuring with {target}")
                try:
                    for row in _measured(proxy, transport, args.seconds):
                        rows.append(row)
                        if args.json:
                            write_json(row._asdict())
                except MemberRefused as exc:
                    raise UsageError(f"{target} does not serve pzc.console.echo:Echo: {exc}") from exc
    finally:
        if own is not None:
            remote_of(own).stop_server()
            close(own)
    if not args.json:
        write_table(HEADINGS, [_cells(row) for row in rows], (2, 3, 4))
    return 0


def _measured(echo: Any, transport: str, duration: float) -> Iterator[Row]:
    import numpy as np  # which would take every command a tenth of a second

    yield _one_by_one("call", transport, lambda: echo.add(1, 2), duration)
    yield _at_once(echo, transport, duration)
    yield _in_flight(echo, transport, duration)
    for name, size in ARRAYS.items():
        array = np.zeros(size, np.uint8)
        yield _one_by_one(
            f"array of {name}, there and back", transport, lambda array=array: echo.back(array), duration
        )
    for name, (size, many, few) in NOTIFICATIONS.items():
        yield _notified(echo, transport, f"notification of {name}", size, few, PACE)
        yield _notified(echo, transport, f"notifications of {name} at full speed", size, many, 0.0)


def _one_by_one(what: str, transport: str, call: Callable[[], object], duration: float) -> Row:
    for _ in range(3):
        call()
    times: list[float] = []
    end = time.perf_counter() + duration
    while (began := time.perf_counter()) < end or len(times) < WARM:
        call()
        times.append(time.perf_counter() - began)
    return _row(what, transport, times, len(times) / sum(times))


def _row(what: str, transport: str, times: Sequence[float], rate: float | None) -> Row:
    ordered = sorted(times)
    slow = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return Row(what, transport, statistics.median(ordered) * 1e6, slow * 1e6, rate)


def _at_once(echo: Any, transport: str, duration: float) -> Row:
    end = time.perf_counter() + duration

    def work(_: int) -> int:
        number = 0
        while time.perf_counter() < end:
            echo.add(1, 2)
            number += 1
        return number

    with ThreadPoolExecutor(THREADS) as pool:
        count = sum(pool.map(work, range(THREADS)))
    return Row(f"calls of {THREADS} threads", transport, None, None, count / duration)


def _in_flight(echo: Any, transport: str, duration: float) -> Row:
    began, count = time.perf_counter(), 0
    while time.perf_counter() < began + duration:
        wait([echo.add.future(1, 2) for _ in range(IN_FLIGHT)])
        count += IN_FLIGHT
    return Row(f"calls, {IN_FLIGHT} in flight", transport, None, None, count / (time.perf_counter() - began))


def _notified(echo: Any, transport: str, what: str, size: int, count: int, every: float) -> Row:
    """Ages on arrival where they are paced, which takes one clock; else how many come per second."""
    ages: list[float] = []
    with echo.ticks.subscribe(policy=block()) as ticks:
        for number in (WARM, count):  # the first ones make what the others use again
            ages.clear()
            began = time.perf_counter()
            echo.tick.oneway(number, size, every)
            for _ in range(number):
                with ticks.recv_zero_copy(PATIENCE) as notification:
                    ages.append(time.time() - notification.content[0])
            elapsed = time.perf_counter() - began
    if every and transport != "auto":
        return _row(what, transport, ages, None)
    return Row(what, transport, None, None, None if every else count / elapsed)


def _cells(row: Row) -> tuple[str, ...]:
    times = ("" if each is None else f"{each:.0f} us" for each in (row.median_us, row.p99_us))
    return row.what, row.transport, *times, "" if row.rate_hz is None else f"{row.rate_hz:.0f}/s"
