"""What a client does in one round, the same for every library.

Each job warms up, switches the collector off, times, switches it on again, and then checks what came back.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

DEPTH = 100
"""Calls in flight."""

FUTURE_TIMEOUT = 60.0


class WrongResult(Exception):
    """A call came back with something else than it must."""


def _nothing() -> None:
    pass


@dataclass
class Client:
    """What the jobs use.

    Attributes:
        call: one timed call.
        right: whether a result of ``call`` is the expected one.
        later: starts a call without waiting and gives its future; ours only.
        ping: asks the server whether it is there; ours only.
        start: starts a long call by member name and seconds, and gives its future; ours only.
        close: ends the connection.
    """

    call: Callable[[], Any]
    right: Callable[[Any], bool]
    later: Callable[[], Future[Any]] | None = None
    ping: Callable[[], Any] | None = None
    start: Callable[[str, float], Future[Any]] | None = None
    close: Callable[[], object] = _nothing


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No collection in the timed region."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _check(client: Client, results: list[Any]) -> None:
    wrong = [result for result in results if not client.right(result)]
    if wrong:
        raise WrongResult(f"{len(wrong)} of {len(results)} results are wrong, the first is {wrong[0]!r:.100}")


def latency(client: Client, calls: int) -> float:
    """Median time of a call in microseconds."""
    call, clock = client.call, time.perf_counter_ns
    _check(client, [call() for _ in range(max(calls // 20, 2))])
    taken, results = [0] * calls, [None] * calls
    with quiet():
        for i in range(calls):
            began = clock()
            results[i] = call()
            taken[i] = clock() - began
    _check(client, results)
    return statistics.median(taken) / 1e3


def echo(client: Client, calls: int) -> float:
    """As `latency`; a result is let go when the next one is there, which is part of the time."""
    call, clock = client.call, time.perf_counter_ns
    result = call()
    _check(client, [result])
    taken = [0] * calls
    with quiet():
        for i in range(calls):
            began = clock()
            result = call()
            taken[i] = clock() - began
    _check(client, [result])
    return statistics.median(taken) / 1e3


def rate(client: Client, at: float, seconds: float) -> float:
    """Calls done from the moment ``at`` (monotonic, the same for all) for so many seconds; already warm."""
    call, clock = client.call, time.monotonic
    results: list[Any] = []
    done = results.append
    with quiet():
        late = clock() - at
        if late > 0:
            raise WrongResult(f"this client was ready {late:.1f} s too late to begin with the others")
        time.sleep(-late)
        end = at + seconds
        while clock() < end:
            done(call())
    _check(client, results)
    return len(results) / seconds


def in_flight(client: Client, batches: int) -> float:
    """Median time per call in microseconds, when 100 are started and then all waited for."""
    later, clock = client.later, time.perf_counter_ns
    assert later is not None
    _check(client, [future.result(FUTURE_TIMEOUT) for future in [later() for _ in range(DEPTH)]])
    taken, results = [0] * batches, list[Any]()
    with quiet():
        for i in range(batches):
            began = clock()
            futures = [later() for _ in range(DEPTH)]
            results += [future.result(FUTURE_TIMEOUT) for future in futures]
            taken[i] = clock() - began
    _check(client, results)
    return statistics.median(taken) / DEPTH / 1e3


def ping(client: Client, pings: int, member: str, seconds: float) -> float:
    """99th percentile in milliseconds of pings spread over the time of one long call."""
    ask, start, clock = client.ping, client.start, time.monotonic
    assert ask is not None
    assert start is not None
    ask()
    taken: list[tuple[float, float]] = []
    future = start(member, seconds)
    with quiet():
        first = clock()
        for i in range(pings):
            time.sleep(max(0.0, first + i * seconds / (pings + 1) - clock()))
            began = clock()
            ask()
            taken.append((began, clock()))
    began, ended = future.result(FUTURE_TIMEOUT)
    meanwhile = sorted(after - before for before, after in taken if began < before and after < ended)
    if len(meanwhile) < pings * 0.2:  # pings that wait long are fewer, and that is a result, too
        raise WrongResult(f"the long call was running during {len(meanwhile)} of {pings} pings only")
    return meanwhile[int(len(meanwhile) * 0.99)] * 1e3


JOBS: dict[str, Callable[..., float]] = {
    "latency": latency, "echo": echo, "rate": rate, "in_flight": in_flight, "ping": ping,
}  # fmt: skip
