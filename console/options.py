"""What all commands have in common: their options, and how they are added to the parser."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TypeAlias

EVERY = 1.0
"""Seconds after which a command that goes on looks or prints again."""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # pyright: ignore[reportPrivateUsage]
Run = Callable[[argparse.Namespace], int]


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def positive(text: str) -> int:
    """A positive whole number."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def add_command(
    commands: Commands, name: str, run: Run, summary: str, example: str
) -> argparse.ArgumentParser:
    """A command with its function, one sentence, and an example for its help."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show tracebacks, those of the remote side included, and log what happens",
    )
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON, one value per line")


def add_timeout(
    parser: argparse.ArgumentParser, meaning: str = "of each exchange; default PZC_TIMEOUT, else 30"
) -> None:
    """``--timeout``."""
    parser.add_argument("--timeout", type=seconds, metavar="S", help=f"seconds, {meaning}")


def add_every(parser: argparse.ArgumentParser, meaning: str) -> None:
    """``--every``."""
    parser.add_argument(
        "--every",
        type=seconds,
        default=EVERY,
        metavar="S",
        help=f"seconds between two {meaning}; default {EVERY:g}",
    )


def add_agent(parser: argparse.ArgumentParser) -> None:
    """The agent that a command talks to."""
    parser.add_argument("agent", metavar="N", help="REP endpoint, or the name of an agent")
