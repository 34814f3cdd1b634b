from __future__ import annotations

import pytest

from pzc.discovery.records import Advertise, Heartbeat

from benchmarks.discovery_simulation import (
    CPU_LIMIT,
    core,
    costs,
    most_processes,
    network,
    steady_state,
    wake_ups,
)
from benchmarks.discovery_system import System, measure

pytestmark = pytest.mark.slow

SYSTEM = System(waking=200.0, hearing=20.0, delivery=1.0)


def test_a_simulated_network_is_learned_and_stays_known() -> None:
    found = network(agents=20, per_process=10, topics=1, seconds=5.0)
    assert (found.processes, found.entries) == (2, 40)
    assert found.memory > 0
    assert found.bytes_per_second > 0


def test_both_kinds_of_datagrams_are_measured() -> None:
    assert costs(Heartbeat).size < costs(Advertise).size <= 1400


def test_the_steady_state_of_a_process_with_topics_is_told_in_bytes_per_second() -> None:
    assert "10 topics says" in steady_state(topics=10, seconds=5.0)


def test_a_real_process_tells_what_a_heartbeat_and_a_wake_up_cost() -> None:
    found = measure(rounds=1, seconds=1.0, settled=2.0)
    assert found.waking > 0


def test_whoever_hears_more_wakes_up_more_often_and_needs_more() -> None:
    sizes = (0, 50, 100, 600, 10_000)
    assert [wake_ups(size) for size in sizes] == sorted(wake_ups(size) for size in sizes)
    needed = [core(size, 20.0, SYSTEM) for size in sizes]
    assert needed == sorted(set(needed))


def test_the_limit_is_the_largest_network_that_keeps_to_it() -> None:
    most = most_processes(10, 20.0, SYSTEM)
    assert 10 * core(most, 20.0, SYSTEM) <= CPU_LIMIT < 10 * core(most + 1, 20.0, SYSTEM)
    assert most < most_processes(1, 20.0, SYSTEM)
