"""What is measured of discovery with real processes and sockets, on loopback and a port of its own."""

from __future__ import annotations

import socket
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import psutil

from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, ChildFailure, environment
from benchmarks.discovery_listener import Listener

LOOK_AGAIN = 0.2
"""Seconds between two looks whether a crowd sees each other."""


@dataclass(frozen=True)
class Effort:
    """How much is done in a round.

    Attributes:
        callers: fresh processes, one after the other.
        topics: of the process whose traffic is counted.
        seconds: for which traffic is counted, and a crowd must stay visible.
        processes: of the crowd.
        agents: of each of them.
        settled: seconds after which everything new was said three times, and only heartbeats remain.
    """

    callers: int
    topics: int
    seconds: float
    processes: int
    agents: int
    settled: float = 3.0


FULL = Effort(50, 100, 20.0, 20, 10)
QUICK = Effort(10, 100, 5.0, 20, 10)


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    Attributes:
        key: in a round's values.
        title: as it is shown; may use fields of `Effort`.
        unit: of the values.
        limit: that the median of the rounds may not exceed; None only tells.
    """

    key: str
    title: str
    unit: str
    limit: float | None = None


Values = dict[str, float]


class Case(ABC):
    """Processes that take part in one measurement.

    Args:
        effort: how much is done.
        variables: environment of all processes.
    """

    figures: Sequence[Figure] = ()

    def __init__(self, effort: Effort, variables: Mapping[str, str]) -> None:
        self.effort = effort
        self.variables = dict(variables)

    def child(self, role: str, *numbers: int) -> Child:
        """A process, not yet entered."""
        return Child("discovery_end", role, *map(str, numbers), environment=self.variables)

    @abstractmethod
    def start(self, stack: ExitStack) -> None:
        """Start those who are there in all rounds; leaving the stack ends them."""

    @abstractmethod
    def round(self) -> Values:
        """One value for every figure."""


class FirstCall(Case):
    """How long a process that was just started takes for its first call by name."""

    figures = (
        Figure("p50", "first call by name, without import: median of {callers} fresh processes", "ms"),
        Figure("p95", "the same, 95th percentile", "ms", 250),
        Figure("import", "import of pzc, median", "ms"),
        Figure("whole_p50", "from the start of the interpreter to the reply, median", "ms"),
        Figure("whole_p95", "the same, 95th percentile", "ms"),
    )

    def start(self, stack: ExitStack) -> None:
        stack.enter_context(self.child("serve")).receive(START_TIMEOUT)
        self._call()

    def round(self) -> Values:
        calls = [self._call() for _ in range(self.effort.callers)]
        imports, called, whole = ([1000 * each[n] for each in calls] for n in range(3))
        return {
            "p50": statistics.median(called),
            "p95": percentile(called, 95),
            "import": statistics.median(imports),
            "whole_p50": statistics.median(whole),
            "whole_p95": percentile(whole, 95),
        }

    def _call(self) -> tuple[float, float, float]:
        began = time.monotonic()
        with self.child("call") as caller:
            told = caller.receive(START_TIMEOUT)
        return told["imported"], told["called"], told["done"] - began


class Traffic(Case):
    """What one process with many topics sends when nothing changes."""

    figures = (
        Figure("sent", "one process with {topics} topics: counted by its participant", "B/s", 10_000),
        Figure("heard", "the same, counted by a listening socket", "B/s", 10_000),
    )
    _publisher: Child
    _listener: Listener

    def start(self, stack: ExitStack) -> None:
        port = int(self.variables["PZC_DISCOVERY_PORT"])
        self._listener = stack.enter_context(Listener(port))
        self._publisher = stack.enter_context(self.child("publish", self.effort.topics))
        self._publisher.receive(START_TIMEOUT)
        self._listener.listen(self.effort.settled)

    def round(self) -> Values:
        before, began = self._ask(), time.monotonic()
        heard = self._listener.listen(self.effort.seconds)
        after, took = self._ask(), time.monotonic() - began
        if after["topics"] != self.effort.topics:
            raise ChildFailure(f"{self._publisher.name} announces {after['topics']:.0f} topics")
        return {
            "sent": (after["sent"] - before["sent"]) / (after["at"] - before["at"]),
            "heard": heard / took,
        }

    def _ask(self) -> Values:
        self._publisher.send()
        return self._publisher.receive(ROUND_TIMEOUT)


class Crowd(Case):
    """Many agents that nobody uses: what it costs that all of them stay visible to each other."""

    figures = (
        Figure("missing", "{crowd} agents in {processes} processes, {seconds:g} s: not seen", "agents", 0),
        Figure("lost", "entries that vanished meanwhile, from anybody's view", "entries", 0),
        Figure("core", "processor time of all these processes together", "% of one core", 5),
        Figure("machine", "the same", "% of the machine"),
    )  # fmt: skip
    found = 1
    _members: list[Child]

    def start(self, stack: ExitStack) -> None:
        effort = self.effort
        numbers = range(effort.processes)
        self._members = [
            stack.enter_context(self.child("gather", number, effort.agents, self.found)) for number in numbers
        ]
        for member in self._members:
            member.receive(ROUND_TIMEOUT)
        self._meet()
        time.sleep(effort.settled)

    def _meet(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while self._missing(told := self._ask()):
            if time.monotonic() > deadline:
                least = min(each["seen"] for each in told)
                raise ChildFailure(f"after {START_TIMEOUT:g} s one of the processes sees {least} agents only")
            time.sleep(LOOK_AGAIN)

    def round(self) -> Values:
        before = self._ask()
        time.sleep(self.effort.seconds)
        after = self._ask()
        pairs = list(zip(before, after, strict=True))
        share = 100 * sum((b["used"] - a["used"]) / (b["at"] - a["at"]) for a, b in pairs)
        return {
            "missing": self._missing(after),
            "lost": sum(b["lost"] - a["lost"] for a, b in pairs),
            "core": share,
            "machine": share / (psutil.cpu_count() or 1),
        }

    def _missing(self, told: Sequence[Values]) -> float:
        return self.effort.processes * self.effort.agents - min(each["seen"] for each in told)

    def _ask(self) -> list[Values]:
        for member in self._members:
            member.send()
        return [member.receive(ROUND_TIMEOUT) for member in self._members]


class Unannounced(Crowd):
    """The same agents without discovery: what they cost anyway."""

    figures = (Figure("core", "the same agents with discovery=False: processor time", "% of one core"),)
    found = 0

    def _meet(self) -> None:
        """Nobody sees anybody."""


CASES: Mapping[str, type[Case]] = {
    "first-call": FirstCall,
    "traffic": Traffic,
    "crowd": Crowd,
    "unannounced": Unannounced,
}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]


def free_port() -> int:
    """A UDP port that nobody uses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure(case: str, effort: Effort, rounds: int, key: str) -> dict[str, list[float]]:
    """Values of every figure of a case, one per round.

    Args:
        case: out of `CASES`.
        effort: how much is done in a round.
        rounds: how many.
        key: that all processes sign with.

    Raises:
        ChildFailure: when it cannot be measured.
    """
    with ExitStack() as stack:
        measured = CASES[case](effort, environment(key, {"PZC_DISCOVERY_PORT": str(free_port())}))
        measured.start(stack)
        found = [measured.round() for _ in range(rounds)]
    return {figure.key: [each[figure.key] for each in found] for figure in measured.figures}
