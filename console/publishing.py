"""``pzc pub``: notifications from a command line, for scripts and for trying out."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ..agents import Agent
from ..discovery.names import is_pattern
from ..protocol.errors import ReceiveTimeout
from ..transport.threads import waited
from .options import Commands, add_command, add_json, positive, seconds
from .output import say, write_json
from .reaching import check_name
from .serve import pub_beside
from .targets import UsageError, parse_value, split_topic

SOON = 0.5
"""Seconds after which whoever waits is told for whom."""

WAIT = 10.0
"""Seconds for the first subscriber to come; one that follows a name needs about one."""


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    pub = add_command(
        commands, "pub", run_pub, "publish values under a name",
        "pzc pub notes/shift \"'sample changed'\"\n  pzc pub sim/voltage 1.0 1.5 2.0 --every 0.5\n"
        "  tail -f log.txt | pzc pub notes/log   (each line)",
    )  # fmt: skip
    pub.add_argument("target", metavar="N/TOPIC", help="name to publish under, and topic")
    pub.add_argument(
        "arguments", nargs="*", metavar="V", help="Python literals, else text; none: each line of the input"
    )
    pub.add_argument("--key", metavar="KEY", help="of each notification, such as left; default none")
    pub.add_argument("--every", type=seconds, metavar="S", help="seconds between two values; default none")
    pub.add_argument(
        "-n", "--count", type=positive, default=1, metavar="N", help="all values so often; default 1"
    )
    pub.add_argument(
        "--wait", type=seconds, default=WAIT, metavar="S",
        help=f"seconds for the first subscriber to come; default {WAIT:g}; none by then is an error",
    )  # fmt: skip
    pub.add_argument(
        "--bind", default="tcp://127.0.0.1:0", metavar="EP",
        help="REP endpoint, as of serve; default any free port of this machine only",
    )  # fmt: skip
    add_json(pub)


def run_pub(args: argparse.Namespace) -> int:
    """``pzc pub``; fails when nobody subscribes."""
    name, topic = split_topic(args.target)
    if "://" in name or is_pattern(name) or is_pattern(topic):
        raise UsageError(f"{args.target!r}: notifications come under one name and topic, as in notes/shift")
    check_name(name, "its name would lead here meanwhile; publish under another one")
    pause, number = threading.Event(), 0
    with Agent(args.bind, pub_beside(args.bind), name=name) as agent:
        if not agent.wait_for_subscribers(topic, 1, min(args.wait, SOON)):
            say(f"waiting for a subscriber of {args.target}, for {args.wait:g} s")
        if not agent.wait_for_subscribers(topic, 1, args.wait):
            raise ReceiveTimeout(
                f"nobody subscribed to {args.target} within {args.wait:g} s, nothing was published; "
                f"pzc watch {args.target} would"
            )
        for value in _values(args.arguments, args.count):
            if number and args.every is not None:
                waited(pause.wait, args.every)
            agent.publish(topic, value, key=args.key)
            number += 1
    if args.json:
        write_json({"name": name, "topic": topic, "published": number})
    else:
        say(f"{number} of {args.target} published")
    return 0


def _values(texts: Sequence[str], count: int) -> Iterator[Any]:
    """What is to be said: each text ``count`` times, in turns; else each line of the input as it comes."""
    if texts:
        for _ in range(count):
            yield from map(parse_value, texts)
    elif sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing to publish: give values, or lines on the input")
    else:
        for line in sys.stdin:
            yield parse_value(line.rstrip("\n"))
