"""Arguments: whom a command watches and how often it asks; the same for all that show a lab."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ..options import add_every, add_json, add_timeout
from ..reaching import leased_agent
from .collector import PATIENCE, Collector


def add_watched(parser: argparse.ArgumentParser) -> None:
    """Add what `collecting` takes, and ``--json``."""
    parser.add_argument(
        "agents", nargs="*", metavar="N", help="REP endpoint, name or pattern; default all that are found"
    )
    add_every(parser, "rounds")
    add_timeout(parser, f"that one agent may take to answer; default {PATIENCE:g}")
    add_json(parser)


@contextmanager
def collecting(args: argparse.Namespace) -> Generator[Collector]:
    """A collector of the agents that were asked for, not begun; closed at the end of the block."""
    _take_descriptors()
    with leased_agent(args.timeout) as (agent, _):
        collector = Collector(agent, args.agents, args.timeout or PATIENCE, args.every)
        try:
            yield collector
        finally:
            collector.close()


def _take_descriptors() -> None:
    """Have as many as the system lets: each agent that is watched takes ten, and 1024 is the usual limit."""
    with suppress(ImportError, OSError, ValueError):  # Windows has none, macOS another one besides
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
