"""``pzc record`` and ``pzc replay``: notifications into a journal, and out of it again."""

from __future__ import annotations

import argparse
import math
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..delivery.interests import ALL
from .options import Commands, add_command, add_json, amount, seconds
from .output import say, write_told
from .reaching import check_name
from .running import SIGNAL_LATENCY, Signals
from .targets import split_source

if TYPE_CHECKING:
    from ..pipeline.recording.recorder import Recorder
    from ..pipeline.recording.replay import Replay

MAX_SPEED = "max"

NAME = "recorder"

_DRAIN = 8.0
"""Seconds for what mailboxes hold at the end; less than the ``grace`` that `pzc up` gives."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    record = add_command(
        commands, "record", run_record, "write notifications to a journal until Ctrl-C or SIGTERM",
        "pzc record psu 'cam*/frames' --journal /data/journal",
    )  # fmt: skip
    record.add_argument(
        "sources",
        nargs="+",
        metavar="N[/TOPIC]",
        help="agent, or pattern of names; without a topic all of them",
    )
    record.add_argument("--journal", type=Path, required=True, metavar="DIR", help="created when absent")
    record.add_argument(
        "--name", help=f"of the recorder, in file names; default {NAME}, refused while another one runs"
    )
    record.add_argument(
        "--age", type=seconds, metavar="S", help="write a segment at least every so many seconds; default 5"
    )
    record.add_argument("--calls", action="store_true", help="record the audit logs of servers as well")
    for name, metavar, meaning in (
        ("--keep-days", "D", "remove segments that are older; default never"),
        ("--keep-gb", "GB", "remove the oldest segments beyond so many gigabytes; default no limit"),
    ):
        record.add_argument(name, type=amount, metavar=metavar, help=meaning)
    record.add_argument("--compact", action="store_true", help="make large segments of old small ones")
    replay = add_command(
        commands, "replay", run_replay, "publish a journal again, under the names that it was recorded from",
        "pzc replay /data/journal --speed 10\n  pzc replay /data/journal --speed max --wait 10",
    )  # fmt: skip
    replay.add_argument("journal", type=Path, metavar="JOURNAL", help="directory of the journal")
    replay.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X",
        help=f"recorded seconds per second, or {MAX_SPEED}: without waiting; default 1",
    )  # fmt: skip
    replay.add_argument(
        "--wait",
        type=seconds,
        metavar="S",
        help="begin when each topic has a subscriber, at most S seconds late",
    )
    for parser in (record, replay):
        add_json(parser)


def _speed(text: str) -> float:
    """A positive number, or infinity for ``max``."""
    if text == MAX_SPEED:
        return math.inf
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is no speed: a positive number, or {MAX_SPEED}")


def run_record(args: argparse.Namespace) -> int:
    """``pzc record``; returns when it was stopped, with everything that arrived on disk."""
    sources = [(name, topic or ALL) for name, topic in map(split_source, args.sources)]
    from ..pipeline.recording.recorder import Recorder

    options: dict[str, Any] = {"calls": args.calls, "compact": args.compact}
    if args.age is not None:
        options["max_age"] = args.age
    if args.keep_days is not None:
        options["keep_seconds"] = args.keep_days * 86_400.0
    if args.keep_gb is not None:
        options["keep_bytes"] = int(args.keep_gb * 1e9)
    name = args.name
    if name is None:
        name = NAME
        check_name(name, "this one would take its mailboxes; give it a name of its own by --name")
    signals = Signals()
    with Recorder(args.journal, sources, name=name, **options) as recorder:
        signals.interrupt = False
        _announce_recorder(recorder, args)
        waiting = threading.Event()
        while not signals.came:
            waiting.wait(SIGNAL_LATENCY)
        recorder.drain(_DRAIN)
        left = _say_left(recorder, name)  # before the journal is closed, which may fail
    told = {**recorder.statistics(), "left": left}
    rows = f"{told['durable']} rows are in {args.journal}, {told['recorded']} of them new"
    write_told(told, rows, args.json)
    losses = {"missing": "lost", "lost_on_the_way": "lost on the way", "refused_by_journal": "not written"}
    if told["missing"]:
        del losses["lost_on_the_way"]  # the same ones
    for count, meaning in losses.items():
        if told[count]:
            say(f"{told[count]} notifications were {meaning}")
    return 1 if told["refused_by_journal"] or left else 0


def _say_left(recorder: Recorder, name: str) -> dict[str, int | None]:
    """Say what publishers keep still, by their names or endpoints."""
    left = {agent.rpartition("@/")[2]: count for agent, count in recorder.left.items()}
    for agent, count in left.items():
        if count is None:
            say(f"{agent} does not answer: what it keeps in its mailbox is not known")
        else:
            say(f"{agent} keeps {count} notifications in its mailbox, for an hour: pzc record --name {name}")
    return left


def _announce_recorder(recorder: Recorder, args: argparse.Namespace) -> None:
    journal, agent = recorder.journal, recorder.agent
    told = {"name": agent.name, "rep_endpoint": agent.rep_endpoint, "journal": str(journal.directory)}
    sources = ", ".join(args.sources)
    write_told(told, f"{agent.name} records {sources} in {journal.directory}, until Ctrl-C", args.json)


def run_replay(args: argparse.Namespace) -> int:
    """``pzc replay``; fails when something in the journal could not be published."""
    from ..pipeline.recording.replay import Replay

    stop = threading.Event()
    with Replay(args.journal, speed=None if args.speed == math.inf else args.speed) as replay:
        _announce_agents(replay, args.json)
        if args.wait is not None and not replay.wait_for_subscribers(args.wait):
            say(f"not every topic has a subscriber after {args.wait:g} s; beginning all the same")
        counts = replay.run(stop)
    published = f"{counts.published} notifications published in {counts.seconds:.1f} s"
    write_told(asdict(counts), published, args.json)
    for count, meaning in (
        (counts.repeated, "rows were repetitions, or came late"),
        (counts.refused, "rows did not verify or decode"),
        (counts.unsent, "notifications were not published"),
    ):
        if count:
            say(f"{count} {meaning}")
    return 1 if counts.refused or counts.unsent else 0


def _announce_agents(replay: Replay, as_json: bool) -> None:
    for (name, publisher), topics in sorted(replay.topics.items()):
        agent = replay.agents[name or publisher]
        told = {"name": name, "rep_endpoint": agent.rep_endpoint, "topics": sorted(topics)}
        shown = ", ".join(sorted(topics))
        write_told(told, f"{name or publisher} at {agent.rep_endpoint} publishes {shown}", as_json)
