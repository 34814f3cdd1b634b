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

from .. import __version__
from . import (
    bench,
    completion,
    demo,
    doctor,
    holding,
    journal,
    keys,
    lab,
    ls,
    members,
    monitoring,
    pipeline,
    publishing,
    rates,
    recording,
    registry,
    serve,
    stopping,
    stubs,
    top,
    version,
    watch,
)
from .options import Commands, Parser
from .output import OutputClosed, describe, say
from .targets import UsageError, is_negative_literal, shield

GROUPS = {
    "Instruments": (serve, members, stopping, holding, stubs),
    "Notifications": (watch, publishing, rates, top),
    "Recording": (recording, journal, pipeline),
    "Lab": (ls, lab, monitoring),
    "Keys and networks": (keys, registry, doctor),
    "Tools": (demo, bench, completion, version),
}
"""What `add_commands` adds, by the headings of the help."""

FAILED, USAGE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141

DESCRIPTION = """\
Serve instruments, and use those that others serve.

N is the REP endpoint of an agent (tcp://127.0.0.1:5555, ipc:///run/lab/psu.sock)
or its name: out of PZC_PEERS (psu=tcp://127.0.0.1:5555,...), or as pzc ls shows it."""

EXAMPLE = """\
example:
  pzc serve mylab:PowerSupply --name psu --bind tcp://127.0.0.1:5555
  pzc get tcp://127.0.0.1:5555.voltage

pzc COMMAND --help tells more."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(
        prog="pzc",
        usage="pzc [-h] [--version] [--debug] COMMAND ...",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pzc {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks, and log what happens")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command", help=argparse.SUPPRESS)
    told: list[str] = []
    for heading, modules in GROUPS.items():
        before = set(commands.choices)
        for module in modules:
            module.add_commands(commands)
        told += [f"{heading}:", *(_line(name, commands) for name in commands.choices if name not in before)]
        told.append("")
    parser.epilog = "\n".join([*told, EXAMPLE])
    return parser


def _line(name: str, commands: Commands) -> str:
    summary = commands.choices[name].description or ""
    width = max(40, shutil.get_terminal_size().columns - 2)
    return textwrap.fill(
        f"{summary[:1].lower()}{summary[1:].rstrip('.')}",
        width, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14,
    )  # fmt: skip


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Arguments of a command; those that follow an option belong to it as well.

    Raises:
        SystemExit: for ``--help``, ``--version`` and, with status 2, what cannot be parsed.
    """
    parser = build_parser()
    args, extra = parser.parse_known_args([shield(text) for text in argv])
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


def _log(debug: bool) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_Once())
    form = "pzc: %(levelname)s %(name)s: %(message)s" if debug else "pzc: %(message)s"
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format=form, handlers=[handler])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    Args:
        argv: arguments without the program's name; default those of the process.

    Raises:
        SystemExit: as `parse`.
    """
    args = parse(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    _log(args.debug)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputClosed:
        return PIPE_CLOSED
    except UsageError as exc:
        say(f"{args.command}: {exc}; see pzc {args.command} --help")
        return USAGE
    except Exception as exc:
        if args.debug:
            traceback.print_exception(exc)
        say(describe(exc))
        return FAILED
