"""How fast calls are, beside the standard library, Pyro5, RPyC, raw pyzmq and raw sockets.

``python -m benchmarks.calls`` prints one table with all processes pinned to one core and one without;
``--profile`` prints where the time of one call goes. docs/performance.md says what is compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import call_stages, tables
from benchmarks.call_cases import CASES, FULL, QUICK
from benchmarks.children import ROOT, core_to_pin
from benchmarks.machine import Load, describe
from benchmarks.rounds import Outcome, run_case

PAGE = ROOT / "docs" / "performance.md"
PACKAGES = ("pzc", "pyzmq", "cryptography", "msgspec", "numpy", "Pyro5", "msgpack", "rpyc")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calls", description="How fast calls are, beside other libraries."
    )
    keys = [case.key for case in CASES]
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; for a first look")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every library; default 3")
    parser.add_argument("--only", action="append", choices=keys, metavar="CASE", help=", ".join(keys))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's values there, too")
    parser.add_argument("--markdown", action="store_true", help="print the part of the page and nothing else")
    parser.add_argument("--update-docs", action="store_true", help=f"rewrite that part of {PAGE.name}")
    parser.add_argument("--profile", action="store_true", help="where the time of one same-host call goes")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.update_docs and (options.only or options.quick):
        parser.error("the page shows whole runs: --update-docs goes neither with --only nor with --quick")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when everything could be measured, whether or not the bars are met."""
    options = parse(arguments)
    machine, load = describe(PACKAGES), Load()
    if options.profile:
        profile = call_stages.measure(QUICK if options.quick else FULL, options.rounds)
        text = f"{tables.machine_line(machine, load.text(), options.rounds)}\n\n{profile}"
        _deliver(options, "profile", text)
        return 0
    outcomes = _run(options)
    if options.json:
        values = {
            "machine": machine,
            "load": load.text(),
            "outcomes": [dataclasses.asdict(o) for o in outcomes],
        }
        options.json.write_text(json.dumps(values, indent=1), encoding="utf-8")
    failures = [f"{o.case}: {name}: {reason}" for o in outcomes for name, reason in o.failures.items()]
    if failures and options.update_docs:
        options.update_docs = False
        failures.append(f"{PAGE} keeps its table: the page shows whole runs")
    _deliver(options, "calls", tables.results(machine, load.text(), options.rounds, outcomes))
    print("".join(f"{line}\n" for line in failures), end="", file=sys.stderr)
    return int(bool(failures))


def _run(options: argparse.Namespace) -> list[Outcome]:
    effort, core = QUICK if options.quick else FULL, core_to_pin()
    outcomes: list[Outcome] = []
    for case in CASES:
        if options.only and case.key not in options.only:
            continue
        for place in [None] if core is None else [core, None]:
            outcome = run_case(case, effort, options.rounds, place)
            outcomes.append(outcome)
            if not options.markdown:
                print(tables.summary(case, outcome), flush=True)
    return outcomes


def _deliver(options: argparse.Namespace, part: str, text: str) -> None:
    print(text if options.markdown else f"\n{text}")
    if options.update_docs:
        tables.replace_part(PAGE, part, text)
        print(f"{PAGE} was rewritten", file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
