"""The collector of the monitors, asked by hand."""

from __future__ import annotations

from pzc import Agent, Protocol
from pzc.console.monitor.collector import Collector
from pzc.testing import ShiftedClock

KEY, PATIENCE = "a key of the tests", 20.0


def test_a_step_of_the_clock_is_no_pause_of_a_topic() -> None:
    with Agent(protocol=Protocol(KEY)) as publisher, Agent(protocol=Protocol(KEY)) as reader:
        endpoint = publisher.rep_endpoint
        collector = Collector(reader, [endpoint], PATIENCE)
        try:
            for step in (0.0, 3600.0):
                with ShiftedClock(step):
                    publisher.publish("t", step)
                    collector.look()
            with collector.state() as state:
                topic = state.agents[endpoint].topics["t"]
                assert (topic.intervals, topic.longest < 3600.0) == (1, True)
        finally:
            collector.close()
