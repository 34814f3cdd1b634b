"""Runs a case: starts everybody, lets them take turns round by round, ends everybody."""

from __future__ import annotations

import importlib.util
import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.call_cases import Case, Contender, Effort
from benchmarks.children import START_TIMEOUT, Child, ChildFailure

ROUND_TIMEOUT = 120.0
"""Seconds that one client may take for one round."""

HEAD_START = 1.0
"""Seconds between telling several clients to begin and their common beginning."""


@dataclass
class Outcome:
    """What a case gave.

    Attributes:
        case: its key.
        pinned: whether all processes shared one core.
        values: per contender one value per round, in the unit of the case.
        failures: per contender why it has none.
        absent: contenders that are not installed here.
    """

    case: str
    pinned: bool
    values: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    absent: list[str] = field(default_factory=list[str])


class _Team:
    """The processes of one contender in one case."""

    def __init__(self, case: Case, contender: Contender, effort: Effort, core: int | None) -> None:
        self._case = case
        self._arguments = case.arguments(effort, contender)
        self._contender = contender
        self._core = core
        self._server: Child | None = None
        self._clients: list[Child] = []

    def start(self, stack: ExitStack, key: str) -> None:
        variables = environment(key, self._contender.environment)
        address = ""
        if self._contender.server:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pzc-bench-"))
            self._server = stack.enter_context(
                Child("call_servers", self._contender.server, folder, environment=variables, core=self._core)
            )
            address = self._server.receive(START_TIMEOUT)["address"]
        for _ in range(self._case.clients):
            client = Child(
                "call_clients", self._contender.client, address, environment=variables, core=self._core
            )
            self._clients.append(stack.enter_context(client))
        for client in self._clients:
            client.receive(START_TIMEOUT)

    def round(self) -> float:
        arguments = dict(self._arguments)
        if self._case.job == "rate":
            self._all_do({"job": "latency", "calls": 20})
            arguments["at"] = time.monotonic() + HEAD_START
        values = self._all_do(arguments)
        if self._server is not None:
            self._server.send(collect=True)
            self._server.receive(ROUND_TIMEOUT)
        return sum(values)

    def _all_do(self, arguments: dict[str, object]) -> list[float]:
        for client in self._clients:
            client.send(**arguments)
        return [client.receive(ROUND_TIMEOUT)["value"] for client in self._clients]


def environment(key: str, own: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its settings of this package; signed, and loopback only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PZC_")}
    return {**kept, "PZC_KEY": key, "PZC_IP": "127.0.0.1", **own}


def run_case(case: Case, effort: Effort, rounds: int, core: int | None) -> Outcome:
    """Measure a case; who cannot take part or fails is told of, and the others go on.

    Args:
        case: what to measure.
        effort: how much of it in a round.
        rounds: how often everybody has a turn, in the same order.
        core: that all processes share; None leaves them where the system puts them.
    """
    outcome = Outcome(case.key, core is not None)
    with ExitStack() as stack:
        teams = _start(case, effort, core, stack, outcome)
        for _ in range(rounds):
            for name, team in list(teams.items()):
                try:
                    outcome.values[name].append(team.round())
                except ChildFailure as exc:
                    _fail(outcome, teams, name, exc)
    return outcome


def _start(
    case: Case, effort: Effort, core: int | None, stack: ExitStack, outcome: Outcome
) -> dict[str, _Team]:
    key = secrets.token_hex(32)
    teams: dict[str, _Team] = {}
    for name, contender in case.contenders.items():
        if contender.needs and importlib.util.find_spec(contender.needs) is None:
            outcome.absent.append(name)
            continue
        teams[name], outcome.values[name] = _Team(case, contender, effort, core), []
        try:
            teams[name].start(stack, key)
        except ChildFailure as exc:
            _fail(outcome, teams, name, exc)
    return teams


def _fail(outcome: Outcome, teams: dict[str, _Team], name: str, reason: ChildFailure) -> None:
    del teams[name], outcome.values[name]
    outcome.failures[name] = str(reason)
