"""``pzc top``: what agents do, in a terminal; as text, or JSON, where there is none."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from ..protocol.errors import PeerLost
from .monitor.arguments import add_watched, collecting
from .monitor.collector import Collector
from .monitor.feeds import Feeds, following
from .monitor.lines import all_lines
from .monitor.metrics import need
from .options import Commands, add_command, positive
from .output import columns, folded, write, write_json
from .running import turns
from .targets import UsageError


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    top = add_command(
        commands, "top", run_top, "show what agents do, their topics, calls, locks and troubles",
        "pzc top   (all that are found)\n  pzc top psu 'cam*'\n  pzc top --count 1 --json",
    )  # fmt: skip
    add_watched(top)
    top.add_argument(
        "-n", "--count", type=positive, metavar="N", help="print text, and end after so many rounds"
    )


def run_top(args: argparse.Namespace) -> int:
    """``pzc top``; as text it fails when an agent could not be reached at the end."""
    with collecting(args) as collector:
        if args.count is None and not args.json and _is_interactive():
            _draw(collector)
        else:
            _print(args, collector)
    return 0


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and columns() is not None


class Watching:
    """What the screen shows, out of a collector and its feeds.

    Args:
        collector: keeps the state.
        feeds: follow topics.
    """

    def __init__(self, collector: Collector, feeds: Feeds) -> None:
        self._collector, self._feeds = collector, feeds

    def tell(self) -> dict[str, Any]:
        """As `LabState.tell`."""
        return self._collector.tell()

    def live(self, agent: str, topic: str) -> dict[str, Any]:
        """As `Live.tell`; empty before the first value."""
        with self._collector.state() as state:
            live = state.lives.get((agent, topic))
            return {} if live is None else live.tell(time.monotonic())

    def want(self, agent: str, topic: str) -> None:
        """Follow a topic from now on, and no other."""
        self._feeds.want(self, [(agent, topic)] if agent else [])


def _draw(collector: Collector) -> None:
    try:
        from .monitor.screen import LabApp
    except ImportError:
        raise need("textual") from None
    with following(collector) as feeds:
        collector.settle()
        collector.begin()
        LabApp(Watching(collector, feeds)).run()


def _print(args: argparse.Namespace, collector: Collector) -> None:
    collector.settle()
    lost = ""
    for number in turns(args.count, args.every):
        collector.look()
        told = collector.tell()["agents"]
        if not told:
            raise UsageError("nobody was found: name an agent, or set PZC_PEERS")
        lost = ", ".join(each["agent"] for each in told if "error" in each)
        if args.json:
            for each in told:
                write_json(each)
        else:
            text = "\n".join(folded(line, 4) for each in told for line in all_lines(each))
            write(text if number == 1 else f"\n{text}")
    if lost:
        raise PeerLost(f"no answer from {lost}")
