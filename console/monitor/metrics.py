"""Metrics: the state of a lab as Prometheus reads it.

::

    pzc_agent_up{agent}                         1 when it answered last, 0 when not
    pzc_agent_heard_seconds{agent}              since its last answer
    pzc_calls_total{agent}                      requests that came
    pzc_calls_now{agent,state}                  that run, that wait
    pzc_call_seconds{agent}                     of the longest that runs
    pzc_lock_held{agent}                        1 while somebody holds it; of holders there is no end
    pzc_refused_total{agent,reason}             messages that were refused
    pzc_behind{agent}                           notifications that it has not read
    pzc_published_total{agent,topic}            and its like: dropped, gaps, bytes in a second, readers, age
    pzc_value{agent,topic}                      newest value, while it is a finite number
    pzc_process_up{process,kind}                of a lab file; lag of its pipeline
    pzc_troubles{level}                         what the monitor would show on top
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...protocol.contents import as_table
from ...protocol.errors import MissingRequirement
from .collector import Collector
from .state import LabState

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import CollectorRegistry

    Family = CounterMetricFamily | GaugeMetricFamily

PREFIX = "pzc_"


def need(package: str) -> MissingRequirement:
    """The error for a package of the extra that is absent."""
    return MissingRequirement(f"{package} is not installed: pip install 'pzc[monitor]'")


class Metrics:
    """Makes metrics out of the state of a lab; a collector of Prometheus's.

    Args:
        state: gives the state, for as long as it is looked at.
    """

    def __init__(self, state: Callable[[], AbstractContextManager[LabState]]) -> None:
        self._state = state

    def collect(self) -> Iterable[Family]:
        """All families, as the state is now."""
        with self._state() as state:
            told = state.tell(time.monotonic())
            numbers = [
                ((agent, topic), live.number)
                for (agent, topic), live in state.lives.items() if live.number is not None and not live.error
            ]  # fmt: skip
            refused = [
                ((watched.name, reason), growth.total)
                for watched in state.agents.values() for reason, growth in watched.refused.items()
            ]  # fmt: skip
        yield from _of_agents(told["agents"])
        yield from _of_topics(told["agents"])
        yield _counter("refused", "messages that were refused", ("agent", "reason"), refused)
        yield _gauge("value", "newest number of a topic", ("agent", "topic"), numbers)
        yield from _of_processes(told["processes"])
        levels = [each["level"] for each in told["troubles"]]
        yield _gauge("troubles", "what to look at", ("level",),
                     [((level,), levels.count(level)) for level in ("bad", "warn")])  # fmt: skip


Samples = Iterable[tuple[tuple[str, ...], Any]]


def _counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> CounterMetricFamily:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _of_agents(agents: list[dict[str, Any]]) -> Iterator[Family]:
    def each(key: str) -> Samples:
        return [((told["agent"],), told[key]) for told in agents if told.get(key) is not None]

    known = [told for told in agents if "calls" in told]
    one = ("agent",)
    yield _gauge("agent_up", "1 when it answered last", one,
                 [((told["agent"],), int(told["state"] == "well")) for told in agents])  # fmt: skip
    yield _gauge("agent_heard_seconds", "since its last answer", one, each("heard_s"))
    yield _gauge("behind", "notifications that it has not read", one, each("behind"))
    yield _counter("calls", "requests that came", one,
                   [((told["agent"],), told["calls"]["count"]) for told in known])  # fmt: skip
    states = [((told["agent"], state), told["calls"][state])
              for told in known for state in ("running", "waiting")]  # fmt: skip
    yield _gauge("calls_now", "calls that run or wait", ("agent", "state"), states)
    longest = [((told["agent"],), max((call["since"] for call in told["running"]), default=0.0))
               for told in known]  # fmt: skip
    yield _gauge("call_seconds", "of the longest call that runs or waits", one, longest)
    locks = [((told["agent"],), int(told["lock"] is not None)) for told in known]
    yield _gauge("lock_held", "1 while somebody holds the lock", one, locks)


def _of_topics(agents: list[dict[str, Any]]) -> Iterator[Family]:
    topics = [
        ((told["agent"], topic), as_table(about))
        for told in agents for topic, about in as_table(told.get("topics")).items()
    ]  # fmt: skip

    def each(key: str) -> Samples:
        return [(labels, about[key]) for labels, about in topics if about.get(key) is not None]

    labels = ("agent", "topic")
    yield _counter("published", "notifications published", labels, each("published"))
    yield _counter("dropped", "notifications dropped for links", labels, each("dropped"))
    yield _gauge("gaps", "gaps that readers saw", labels, each("gaps"))
    yield _gauge("topic_rate_hertz", "notifications in a second", labels, each("rate_hz"))
    yield _gauge("topic_bytes_per_second", "bytes published in a second", labels, each("bytes_per_s"))
    yield _gauge("topic_readers", "agents that read it", labels, each("subscribers"))
    yield _gauge("topic_age_seconds", "since it came last", labels, each("age_s"))


def _of_processes(rows: list[dict[str, Any]]) -> Iterator[Family]:
    labels = ("process", "kind")
    yield _gauge("process_up", "1 while a process of the lab file runs", labels,
                 [((row["name"], row["kind"]), int(row["state"] == "running")) for row in rows])  # fmt: skip
    yield _gauge("lag_seconds", "of the pipeline's tables", labels,
                 [((row["name"], row["kind"]), row["lag"]) for row in rows
                  if row.get("lag") is not None])  # fmt: skip


def registry_of(collector: Collector) -> CollectorRegistry:
    """What Prometheus's own functions read.

    Raises:
        MissingRequirement: without prometheus-client.
    """
    try:
        from prometheus_client.registry import CollectorRegistry
    except ImportError:
        raise need("prometheus-client") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics(collector.state))
    return registry
