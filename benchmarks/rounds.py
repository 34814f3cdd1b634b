"""Runs a case: starts everybody, lets them take turns round by round, ends everybody."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases import AnyCase, Team
from benchmarks.children import ChildFailure


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


def run_case(case: AnyCase, effort: Any, rounds: int, core: int | None) -> Outcome:
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
    case: AnyCase, effort: Any, core: int | None, stack: ExitStack, outcome: Outcome
) -> dict[str, Team]:
    key = secrets.token_hex(32)
    teams: dict[str, Team] = {}
    for name, contender in case.members.items():
        if not contender.here():
            outcome.absent.append(name)
            continue
        teams[name], outcome.values[name] = case.team(name, effort, core), []
        try:
            teams[name].start(stack, key)
        except ChildFailure as exc:
            _fail(outcome, teams, name, exc)
    return teams


def _fail(outcome: Outcome, teams: dict[str, Team], name: str, reason: ChildFailure) -> None:
    del teams[name], outcome.values[name]
    outcome.failures[name] = str(reason)
