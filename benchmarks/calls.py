"""How fast calls are, beside version 0.2, the standard library, Pyro5, RPyC, raw pyzmq and raw sockets.

``python -m benchmarks.calls`` prints one table with all processes pinned to one core and one without, then
how many Python functions a call runs through; ``--profile`` prints where the time of one call goes.
docs/performance.md says what is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import call_functions, call_stages, tables
from benchmarks.call_cases import CASES, FULL, QUICK
from benchmarks.children import ROOT
from benchmarks.command import Benchmark, ended
from benchmarks.machine import Load, describe
from benchmarks.old_version import OLD, old_version_option

PACKAGES = ("pzc", "pyzmq", "cryptography", "msgspec", "numpy", "Pyro5", "msgpack", "rpyc")
CALLS = Benchmark(
    "calls", "How fast calls are, beside other libraries.", CASES, FULL, QUICK,
    ROOT / "docs" / "performance.md", "calls", PACKAGES,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when everything could be measured, whether or not the bars are met."""
    parser = CALLS.parser()
    parser.add_argument("--profile", action="store_true", help="where the time of one same-host call goes")
    parser.add_argument("--counts", action="store_true", help="only functions per call")
    old_version_option(parser)
    options = CALLS.parse(parser, arguments)
    if options.without_old:
        OLD.leave_out()
    if options.profile:
        machine, load = describe(PACKAGES), Load()
        profile = call_stages.measure(CALLS.effort(options), options.rounds)
        text = f"{tables.machine_line(machine, load.text(), options.rounds)}\n\n{profile}"
        CALLS.deliver(options, "profile", text)
        return 0
    status = 0 if options.counts else CALLS.run(options)
    if options.counts or not (options.only or options.markdown):
        CALLS.deliver(options, "functions", call_functions.measure())
    return status


if __name__ == "__main__":
    sys.exit(ended(main))
