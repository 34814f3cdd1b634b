"""The machine itself as an instrument: processor, memory, disk and network load."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import psutil

from examples.lab.pacing import Publish, Tally, publish_paced


class _Rate:
    """Turns a growing counter into a rate per second."""

    def __init__(self, total: float | None, now: float) -> None:
        self._total = total
        self._now = now
        self._rate = math.nan

    def update(self, total: float | None, now: float) -> float:
        """Take a new counter value; give the rate since the last one, NaN where none can be told."""
        before, elapsed = self._total, now - self._now
        if total is None or before is None or total < before:
            self._rate = math.nan
        elif elapsed > 0:
            self._rate = (total - before) / elapsed
        else:
            return self._rate
        self._total, self._now = total, now
        return self._rate


def _counters() -> dict[str, float | None]:
    """Give the running totals in bytes; None for what this machine does not count."""
    disk = psutil.disk_io_counters()
    net = psutil.net_io_counters()
    return {
        "disk_read_bytes_per_s": None if disk is None else float(disk.read_bytes),
        "disk_write_bytes_per_s": None if disk is None else float(disk.write_bytes),
        "net_sent_bytes_per_s": None if net is None else float(net.bytes_sent),
        "net_recv_bytes_per_s": None if net is None else float(net.bytes_recv),
    }


class Host:
    """Readings of this machine, taken with psutil.

    Args:
        clock: monotonic seconds; rates are counter differences over this clock.

    Not thread-safe: rates and CPU load refer to the previous reading, whoever took it. The first
    reading refers to the construction of the object.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        now = clock()
        self._rates = {name: _Rate(total, now) for name, total in _counters().items()}
        psutil.cpu_percent(interval=None)

    def read(self) -> dict[str, float]:
        """Take one reading; every value is a float, NaN where this machine cannot tell.

        Returns:
            ``cpu_percent`` (0 to 100, mean of all cores since the last reading), ``load_1m`` (runnable
            processes, one-minute mean), ``memory_used_bytes``, ``memory_percent`` (0 to 100),
            ``disk_read_bytes_per_s``, ``disk_write_bytes_per_s``, ``net_sent_bytes_per_s`` and
            ``net_recv_bytes_per_s`` (all devices together, since the last reading).
        """
        now = self._clock()
        memory = psutil.virtual_memory()
        reading = {
            "cpu_percent": float(psutil.cpu_percent(interval=None)),
            "load_1m": float(psutil.getloadavg()[0]),
            "memory_used_bytes": float(memory.used),
            "memory_percent": float(memory.percent),
        }
        for name, total in _counters().items():
            reading[name] = self._rates[name].update(total, now)
        return reading

    def run(
        self, publish: Publish, stop: threading.Event, rate_hz: float = 20.0, count: int | None = None
    ) -> Tally:
        """Publish a reading on topic ``host`` at every deadline until ``stop`` or ``count``.

        Args, result and errors are those of :func:`examples.lab.pacing.publish_paced`.
        """
        return publish_paced(publish, "host", lambda _: self.read(), stop, rate_hz, count=count)
