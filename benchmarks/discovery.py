"""How fast agents are found by name, and what it costs that they can be.

``python -m benchmarks.discovery`` starts real processes on the loopback interface and prints one table;
docs/discovery.md shows it. What a network of thousands of agents costs is computed by
`benchmarks.discovery_simulation`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.children import ROOT, ChildFailure
from benchmarks.command import ended
from benchmarks.discovery_cases import CASES, FULL, QUICK, Effort, Figure, measure
from benchmarks.machine import Load, describe
from benchmarks.tables import machine_line, replace_part, spread, table

PAGE = ROOT / "docs" / "discovery.md"
HEADINGS = ("figure", "value", "bar", "met")
PAGE_COLUMNS = 2
"""Of these a page of the manual shows."""
PACKAGES = ("pzc", "pyzmq", "msgspec", "cryptography")
DESCRIPTION = "How fast agents are found by name, and what it costs that they can be."
ELSEWHERE = "Networks of up to 10 000 agents are [simulated](#on-large-networks)"

Found = Mapping[str, Mapping[str, Sequence[float]]]


def met(figure: Figure, values: Sequence[float]) -> bool | None:
    """Whether the median of the rounds keeps the limit; None without one."""
    return None if figure.limit is None else statistics.median(values) <= figure.limit


def row(figure: Figure, values: Sequence[float], effort: Effort) -> list[str]:
    """One line of the table."""
    fields = {**dataclasses.asdict(effort), "crowd": effort.processes * effort.agents}
    bar = "-" if figure.limit is None else f"≤ {figure.limit:,g} {figure.unit}"
    judged = {True: "yes", False: "**no**", None: "-"}[met(figure, values)]
    counted = all(value == round(value) for value in values)
    value = f"{max(values):.0f} {figure.unit}" if counted else spread(values, figure.unit)
    return [figure.title.format(**fields), value, bar, judged]


def text_of(found: Found, effort: Effort, head: str, *, page: bool = False) -> str:
    """The machine, the table, and, except on the page of the manual, how many bars are met."""
    pairs = [(figure, found[key][figure.key]) for key in found for figure in CASES[key].figures]
    judged = [result for figure, values in pairs if (result := met(figure, values)) is not None]
    rows = [row(figure, values, effort) for figure, values in pairs]
    if page:
        rows = [each[:PAGE_COLUMNS] for each in rows]
        return "\n\n".join([head, table(HEADINGS[:PAGE_COLUMNS], rows), f"{ELSEWHERE}."])
    end = f"{sum(judged)} of {len(judged)} bars are met. {ELSEWHERE}."
    return "\n\n".join([head, table(HEADINGS, rows), end])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discovery", description=DESCRIPTION)
    parser.add_argument("--quick", action="store_true", help="less of everything; for a first look")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every case; default 3")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's values there, too")
    parser.add_argument("--update-docs", action="store_true", help=f"rewrite that part of {PAGE.name}")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.update_docs and (options.only or options.quick):
        parser.error("the page shows whole runs: --update-docs goes neither with --only nor with --quick")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when everything could be measured, whether or not the bars are met."""
    options = _options(arguments)
    effort = QUICK if options.quick else FULL
    machine, load, key = describe(PACKAGES), Load(), secrets.token_hex(32)
    found: dict[str, dict[str, list[float]]] = {}
    failures: list[str] = []
    for case in options.only or CASES:
        print(f"{case} ...", file=sys.stderr, flush=True)
        try:
            found[case] = measure(case, effort, options.rounds, key)
        except ChildFailure as exc:
            failures.append(f"{case}: {exc}")
    if options.json:
        values = {"machine": machine, "load": load.text(), "values": found, "failures": failures}
        options.json.write_text(json.dumps(values, indent=1), encoding="utf-8")
    head = machine_line(machine, load.text(), options.rounds)
    text = text_of(found, effort, head, page=options.update_docs)
    print(text)
    if options.update_docs and not failures:
        replace_part(PAGE, "discovery", text)
        print(f"{PAGE} was rewritten", file=sys.stderr)
    print("".join(f"{line}\n" for line in failures), end="", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(ended(main))
