from __future__ import annotations

from pzc.discovery.records import Advertise, Heartbeat

from benchmarks.discovery_simulation import costs, network, steady_state


def test_a_simulated_network_is_learned_and_stays_known() -> None:
    found = network(agents=20, per_process=10, topics=1, seconds=5.0)
    assert (found.processes, found.entries) == (2, 40)
    assert found.memory > 0
    assert found.bytes_per_second > 0


def test_both_kinds_of_datagrams_are_measured() -> None:
    assert costs(Heartbeat).size < costs(Advertise).size <= 1400


def test_the_steady_state_of_a_process_with_topics_is_told_in_bytes_per_second() -> None:
    assert "10 topics says" in steady_state(topics=10, seconds=5.0)
