"""The program ``pzc``: parser, dispatch, and what becomes of errors.

::

    exit status   when
    0             done
    1             an error of the remote object, the network, a key or a file; stderr tells class and text
    2             the command line cannot mean anything
    130           Ctrl-C
    141           the reader of the output is gone, as in ``pzc watch 'psu/*' | head -1``
"""

from __future__ import annotations

import argparse
import io
import logging
import shutil
import sys
import textwrap
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .. import __version__
from ..protocol.shown import plain
from .options import WRONG, Commands, Formatter, Parser
from .output import OutputClosed, describe, folded, indented, say
from .targets import UsageError, is_negative_literal, shield

GROUPS = {
    "Instruments": {
        "serve": "serve", "members": "info get set call ping", "stopping": "running cancel stop",
        "holding": "lock unlock", "stubs": "stubs",
    },
    "Notifications": {"watch": "watch", "publishing": "pub", "rates": "hz bw", "top": "top"},
    "Recording": {"recording": "record replay", "journal": "journal", "pipeline": "pipeline sql report"},
    "Lab": {"ls": "ls", "lab": "up down status restart logs check", "monitoring": "monitor metrics"},
    "Keys and networks": {"keys": "keygen", "registry": "registry", "doctor": "doctor"},
    "Tools": {"demo": "demo", "bench": "bench", "completion": "completion", "version": "version"},
}  # fmt: skip
"""Modules and the commands that their `add_commands` adds, by the headings of the help."""

MODULES = {
    name: module for part in GROUPS.values() for module, names in part.items() for name in names.split()
}

INSTRUMENTS = ("serve", "up")
"""Commands whose instruments go on when the program that started them is interrupted."""

FAILED, INTERRUPTED, PIPE_CLOSED = 1, 130, 141

DESCRIPTION = """\
Serve instruments, and use those that others serve.

N is the REP endpoint of an agent (tcp://127.0.0.1:5555, ipc:///run/lab/psu.sock) or its name: out of \
PZC_PEERS (psu=tcp://127.0.0.1:5555,...), or as pzc ls shows it."""

EXAMPLE = """\
example:
  pzc serve mylab:PowerSupply --name psu --bind tcp://127.0.0.1:5555
  pzc get tcp://127.0.0.1:5555.voltage

pzc COMMAND --help tells more."""


def build_parser(command: str = "") -> Parser:
    """The parser of all commands, or of one and those beside it: nothing else is imported for that."""
    parser = Parser(
        prog="pzc",
        usage=_filled("usage: pzc [-h] [--version] [--debug] COMMAND ...", 11).removeprefix("usage: "),
        description=DESCRIPTION,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pzc {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks, and log what happens")
    commands = parser.add_subparsers(prog="pzc", metavar="COMMAND", dest="command", help=argparse.SUPPRESS)
    if command in MODULES and command != "completion":  # which tells of all
        _add(MODULES[command], commands)
        return parser
    told: list[str] = []
    for heading, modules in GROUPS.items():
        for module in modules:
            _add(module, commands)
        names = " ".join(modules.values()).split()
        told += [f"{heading}:", *(_line(name, commands) for name in names), ""]
    parser.epilog = "\n".join([*told, EXAMPLE])
    return parser


def _add(module: str, commands: Commands) -> None:
    import_module(f".{module}", __package__).add_commands(commands)


def _line(name: str, commands: Commands) -> str:
    summary = commands.choices[name].description or ""
    return _filled(f"  {name:<12}{summary[:1].lower()}{summary[1:].rstrip('.')}", 14)


def _filled(text: str, indent: int) -> str:
    width = max(38, shutil.get_terminal_size().columns - 2)
    return textwrap.fill(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Arguments of a command; those that follow an option belong to it as well.

    Raises:
        SystemExit: for ``--help``, ``--version`` and, with status 2, what cannot be parsed.
    """
    command = next((text for text in argv if not text.startswith("-")), "")
    parser = build_parser(command)
    args, extra = parser.parse_known_args([shield(text) for text in argv])
    before = argv[: argv.index(command)] if command else argv
    if wrong := [text for text in before if text in extra]:
        parser.refuse(wrong)
    if not args.command:
        parser.error("a COMMAND is missing; pzc --help lists them")
    end = extra.index("--") if "--" in extra else len(extra)
    unknown = [text for text in extra[:end] if text.startswith("-") and not is_negative_literal(text)]
    if unknown or (extra and not hasattr(args, "arguments")):
        args.parser.refuse(unknown or extra)
    if extra:
        args.arguments.extend(extra[:end] + extra[end + 1 :])
    return args


class _Once(logging.Filter):
    """Lets a message pass once: every agent of the process reads the settings and warns about them."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.name != "pzc.settings" or text not in self._seen:
            self._seen.add(text)
            return True
        return False


class _Lines(logging.Formatter):
    """A record begins a line and nothing in it can: its text is one line, what belongs to it is indented.

    The text of an exception or a name may come from a peer, and would forge a line of its own otherwise.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return folded(plain(super().formatMessage(record), keep=""), 5, sys.stderr)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return indented(super().formatException(ei))


def _log(debug: bool) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_Once())
    form = "pzc: %(levelname)s %(name)s: %(message)s" if debug else "pzc: %(message)s"
    handler.setFormatter(_Lines(form))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    Args:
        argv: arguments without the program's name; default those of the process.

    Raises:
        SystemExit: as `parse`.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # by lines: what a driver prints is not kept back
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    args = argparse.Namespace(debug=False)
    try:
        args = parse(sys.argv[1:] if argv is None else argv)
        if argv is None and args.command in INSTRUMENTS:
            from .running import leave_group

            leave_group()
        _log(args.debug)
        return args.run(args)
    except KeyboardInterrupt as exc:
        for note in getattr(exc, "__notes__", ()):
            say(note)
        return INTERRUPTED
    except OutputClosed:
        return PIPE_CLOSED
    except UsageError as exc:
        say(f"{args.command}: {exc}; see pzc {args.command} --help")
        return WRONG
    except Exception as exc:
        if args.debug:
            print(indented("".join(traceback.format_exception(exc))), file=sys.stderr)
        say(describe(exc))
        return FAILED
