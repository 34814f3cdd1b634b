"""The command line that every benchmark has: its options, its run, its part of the documentation."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.cases import AnyCase
from benchmarks.children import core_to_pin
from benchmarks.machine import Load, describe
from benchmarks.rounds import Outcome, run_case


def ended(main: Callable[[], int]) -> int:
    """What a benchmark's process ends with; told to stop, it ends its children and removes what they left."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return main()
    except KeyboardInterrupt:
        return 130


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes:
        module: name behind ``benchmarks.``.
        description: one sentence.
        cases: in the order of the table.
        full: how much is done in a round.
        quick: the same with ``--quick``.
        page: of the documentation.
        part: of the page that has the tables.
        packages: whose versions are told.
    """

    module: str
    description: str
    cases: Sequence[AnyCase]
    full: Any
    quick: Any
    page: Path
    part: str
    packages: tuple[str, ...]

    def parser(self) -> argparse.ArgumentParser:
        """The options of every benchmark."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.module}", description=self.description
        )
        keys = [case.key for case in self.cases]
        parser.add_argument("--quick", action="store_true", help="a tenth of the work; for a first look")
        parser.add_argument("--rounds", type=int, default=3, help="turns of every library; default 3")
        parser.add_argument("--only", action="append", choices=keys, metavar="CASE", help=", ".join(keys))
        parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's values there, too")
        parser.add_argument(
            "--markdown", action="store_true", help="print the part of the page and nothing else"
        )
        parser.add_argument(
            "--update-docs", action="store_true", help=f"rewrite that part of {self.page.name}"
        )
        return parser

    def parse(self, parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The options; ends the process when they make no sense together."""
        options = parser.parse_args(arguments)
        if options.rounds < 1:
            parser.error("--rounds must be at least 1")
        if options.update_docs and (options.only or options.quick):
            parser.error("the page shows whole runs: --update-docs goes neither with --only nor with --quick")
        return options

    def effort(self, options: argparse.Namespace) -> Any:
        """How much is done in a round."""
        return self.quick if options.quick else self.full

    def run(self, options: argparse.Namespace) -> int:
        """Run it; 0 when everything could be measured, whether or not the bars are met."""
        machine, load = describe(self.packages), Load()
        outcomes = self._outcomes(options)
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
            failures.append(f"{self.page} keeps its table: the page shows whole runs")
        text = tables.results(
            self.cases, machine, load.text(), options.rounds, outcomes, page=options.update_docs
        )
        self.deliver(options, self.part, text)
        print("".join(f"{line}\n" for line in failures), end="", file=sys.stderr)
        return int(bool(failures))

    def _outcomes(self, options: argparse.Namespace) -> list[Outcome]:
        effort, core = self.effort(options), core_to_pin()
        outcomes: list[Outcome] = []
        for case in self.cases:
            if options.only and case.key not in options.only:
                continue
            for place in [None] if core is None else [core, None]:
                outcome = run_case(case, effort, options.rounds, place)
                outcomes.append(outcome)
                if not options.markdown:
                    print(tables.summary(case, outcome), flush=True)
        return outcomes

    def deliver(self, options: argparse.Namespace, part: str, text: str) -> None:
        """Print a text, and put it on the page when that is wanted."""
        print(text if options.markdown else f"\n{text}")
        if options.update_docs:
            tables.replace_part(self.page, part, text)
            print(f"{self.page} was rewritten", file=sys.stderr)
