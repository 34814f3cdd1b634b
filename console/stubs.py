"""``pzc stubs``: what an editor is to know of a remote instrument."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..agents import stubs
from .options import Commands, add_agent, add_command, add_json, add_timeout
from .output import write, write_json, write_whole
from .reaching import proxy_of
from .targets import UsageError


def add_commands(commands: Commands) -> None:
    """Add the command of this module."""
    parser = add_command(
        commands, "stubs", run_stubs, "write a stub file, so that an editor knows a remote instrument",
        "pzc stubs psu --output psu.pyi",
    )  # fmt: skip
    add_agent(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write a file; default print the stub"
    )
    add_timeout(parser)
    add_json(parser)


def run_stubs(args: argparse.Namespace) -> int:
    """``pzc stubs``."""
    if args.output is not None and args.json:
        raise UsageError("--json prints the stub and --output writes it: give one of them")
    with proxy_of(args.agent, args.timeout) as proxy:
        text = stubs(proxy)
    if args.output is not None:
        path = args.output.resolve()
        if path.exists() and not path.is_file():  # a pipe, say
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(path, text)
    elif args.json:
        write_json({"stub": text})
    else:
        write(text.rstrip("\n"))
    return 0
