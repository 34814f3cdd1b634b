"""``pzc doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from dataclasses import asdict
from itertools import chain

from ..protocol.shown import plain
from .checks import discovery, machine, peers, settings, sockets, versions
from .checks.finding import Check, Finding, Subject, findings_of
from .options import Commands, add_command, add_json, seconds
from .output import folded, write, write_json
from .tables import mark

CHECKS: tuple[Check, ...] = (
    settings.check_misspelt,
    settings.check_settings_file,
    settings.check_settings,
    settings.check_key,
    versions.check_versions,
    sockets.check_loopback,
    sockets.check_binds,
    sockets.check_unix_socket,
    machine.check_shared_memory,
    machine.check_memory,
    machine.check_descriptors,
    machine.check_disk,
    versions.check_java,
    versions.check_spark,
    discovery.check_multicast,
    discovery.check_relays,
    peers.check_registry,
    peers.check_static_peers,
    peers.check_peers,
    machine.check_clock,
)
"""In the order of the report; the clock is compared over all of it."""


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    parser = add_command(
        commands, "doctor", run_doctor, "tell what works here, what does not, and what to do about it",
        "pzc doctor\n  pzc doctor psu tcp://10.0.0.7:5555 --bind tcp://0.0.0.0:5556",
    )  # fmt: skip
    parser.add_argument("agents", nargs="*", metavar="N", help="agents to look at, beside those of PZC_PEERS")
    parser.add_argument(
        "--bind", action="append", default=[], metavar="EP", help="an endpoint that is to be free; repeatable"
    )
    parser.add_argument("--spark", action="store_true", help="start a Spark session as well")
    parser.add_argument(
        "--timeout", type=seconds, default=3.0, metavar="S", help="seconds, for each peer; default 3"
    )
    add_json(parser)


def run_doctor(args: argparse.Namespace) -> int:
    """``pzc doctor``; status 1 when something failed."""
    environ = dict(os.environ)
    usable, bad = settings.read_settings(environ)
    subject = Subject(
        environ, usable, not bad, tuple(args.agents), tuple(args.bind), args.spark, args.timeout
    )
    findings: list[Finding] = []
    for finding in chain(bad, *(findings_of(check, subject) for check in CHECKS)):
        findings.append(finding)
        if not args.json:
            _show(finding)
    counts = Counter(finding.status for finding in findings)
    if args.json:
        write_json(
            {
                "failed": counts["failed"],
                "warnings": counts["warning"],
                "findings": [asdict(each) for each in findings],
            }
        )
    else:
        write(", ".join(f"{counts[status]} {status}" for status in ("ok", "warning", "failed", "skipped")))
    return 1 if counts["failed"] else 0


def _show(finding: Finding) -> None:
    told = folded(plain(f"{'':8} {finding.check}: {finding.found}", keep=""), 9)
    write(mark(finding.status, 8) + told[8:])
    if finding.todo:
        write(folded(plain(f"         -> {finding.todo}", keep=""), 12))
