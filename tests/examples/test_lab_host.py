from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import psutil
import pytest

from examples.lab.host import Host

NAMES = [
    "cpu_percent",
    "load_1m",
    "memory_used_bytes",
    "memory_percent",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "net_sent_bytes_per_s",
    "net_recv_bytes_per_s",
]


class Machine:
    """Counters and a clock under the test's control."""

    def __init__(self) -> None:
        self.now = 50.0
        self.disk: SimpleNamespace | None = SimpleNamespace(read_bytes=1000, write_bytes=2000)
        self.net: SimpleNamespace | None = SimpleNamespace(bytes_sent=10, bytes_recv=20)

    def clock(self) -> float:
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine()
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: fake.disk)
    monkeypatch.setattr(psutil, "net_io_counters", lambda: fake.net)
    return fake


def test_a_real_reading_has_every_name_and_only_floats() -> None:
    reading = Host().read()
    assert list(reading) == NAMES
    assert {type(value) for value in reading.values()} == {float}


def test_memory_readings_lie_within_this_machine() -> None:
    reading = Host().read()
    assert 0 < reading["memory_used_bytes"] < psutil.virtual_memory().total
    assert 0 < reading["memory_percent"] < 100


def test_the_first_reading_has_rates_since_construction(machine: Machine) -> None:
    host = Host(clock=machine.clock)
    machine.now += 2.0
    machine.disk = SimpleNamespace(read_bytes=5000, write_bytes=2000)
    machine.net = SimpleNamespace(bytes_sent=110, bytes_recv=1020)
    reading = host.read()
    assert [reading[name] for name in NAMES[4:]] == [2000.0, 0.0, 50.0, 500.0]


def test_a_rate_refers_to_the_reading_before(machine: Machine) -> None:
    host = Host(clock=machine.clock)
    machine.now += 100.0
    host.read()
    machine.now += 0.5
    machine.disk = SimpleNamespace(read_bytes=1000, write_bytes=2600)
    assert host.read()["disk_write_bytes_per_s"] == 1200.0


def test_a_reading_in_the_same_clock_tick_repeats_the_rate_and_loses_no_bytes(machine: Machine) -> None:
    host = Host(clock=machine.clock)
    machine.now += 1.0
    machine.net = SimpleNamespace(bytes_sent=17, bytes_recv=20)
    assert host.read()["net_sent_bytes_per_s"] == 7.0
    machine.net = SimpleNamespace(bytes_sent=27, bytes_recv=20)
    assert host.read()["net_sent_bytes_per_s"] == 7.0
    machine.now += 1.0
    assert host.read()["net_sent_bytes_per_s"] == 10.0


def test_a_machine_that_counts_no_disks_gives_nan_for_them_alone(machine: Machine) -> None:
    machine.disk = None
    host = Host(clock=machine.clock)
    machine.now += 1.0
    assert [name for name, value in host.read().items() if math.isnan(value)] == NAMES[4:6]


def test_a_machine_that_counts_no_network_gives_nan_for_it_alone(machine: Machine) -> None:
    machine.net = None
    host = Host(clock=machine.clock)
    machine.now += 1.0
    assert [name for name, value in host.read().items() if math.isnan(value)] == NAMES[6:8]


def test_a_counter_that_fell_gives_nan_once_and_then_counts_from_there(machine: Machine) -> None:
    host = Host(clock=machine.clock)
    machine.now += 1.0
    machine.net = SimpleNamespace(bytes_sent=3, bytes_recv=20)
    assert math.isnan(host.read()["net_sent_bytes_per_s"])
    machine.now += 1.0
    machine.net = SimpleNamespace(bytes_sent=8, bytes_recv=20)
    assert host.read()["net_sent_bytes_per_s"] == 5.0


def test_run_publishes_readings_on_the_topic_host() -> None:
    seen: list[tuple[str, object]] = []
    tally = Host().run(lambda topic, content: seen.append((topic, content)), threading.Event(), 1e6, count=3)
    assert tally.published == 3
    assert [(topic, list(content)) for topic, content in seen] == [("host", NAMES)] * 3  # type: ignore[call-overload]
