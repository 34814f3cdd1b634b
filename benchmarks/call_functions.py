"""How many Python functions a call runs through at each end, counted in every thread."""

from __future__ import annotations

import secrets
from contextlib import ExitStack

from benchmarks.call_cases import CASES, COUNTED, CallCase, Contender
from benchmarks.call_team import CallTeam
from benchmarks.children import ChildFailure
from benchmarks.functions import COUNT
from benchmarks.tables import table

CALLS = 200


def measure() -> str:
    """The table; a contender that cannot be counted is left out and named."""
    rows = [
        row
        for case in CASES
        if case.key in COUNTED
        for name, contender in case.contenders.items()
        if contender.ours and contender.here()
        for row in [_row(case, name, contender)]
    ]
    return table(("case", "contender", "client", "its other threads", "server", "its other threads"), rows)


def _row(case: CallCase, name: str, contender: Contender) -> list[str]:
    title = [case.title, contender.title]
    try:
        with ExitStack() as stack:
            team = CallTeam(contender, 1, {}, None, {COUNT: "1"})
            team.start(stack, secrets.token_hex(32))
            counts = team.functions(CALLS)
    except ChildFailure as exc:
        return [*title, f"failed: {exc}"[:60], "-", "-", "-"]
    return title + [f"{count / CALLS:.1f}" for each in counts for count in _split(each)]


def _split(counts: list[int]) -> tuple[int, int]:
    return (counts[0] if counts else 0), sum(counts[1:])
