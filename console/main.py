"""The program ``pzc``: parser, dispatch, and what becomes of errors.

::

    exit status   when
    0             done
    1             an error of the remote object, the network, a key or a file; stderr tells class and text
    2             the command line cannot mean anything
    130           Ctrl-C
    141           the reader of the output is gone, as in ``pzc watch psu.* | head -1``
"""

from __future__ import annotations

import argparse
import io
import logging
import sys
import traceback
from collections.abc import Sequence

from .. import __version__
from . import (
    doctor,
    journal,
    keys,
    lab,
    ls,
    members,
    pipeline,
    rates,
    recording,
    registry,
    serve,
    stopping,
    stubs,
    top,
    watch,
)
from .output import OutputClosed, describe, say
from .targets import UsageError, is_negative_literal, shield

GROUPS = (
    serve,
    ls,
    members,
    stopping,
    watch,
    rates,
    top,
    recording,
    journal,
    pipeline,
    lab,
    registry,
    doctor,
    stubs,
    keys,
)

FAILED, USAGE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141

DESCRIPTION = """\
Serve instruments, and use those that others serve.

N is the REP endpoint of an agent (tcp://127.0.0.1:5555, ipc:///run/lab/psu.sock)
or its name: out of PZC_PEERS (psu=tcp://127.0.0.1:5555,...), or as pzc ls shows it."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="pzc",
        description=DESCRIPTION,
        epilog="example:\n  pzc serve mylab:PowerSupply --name psu --bind tcp://127.0.0.1:5555\n"
        "  pzc get tcp://127.0.0.1:5555.voltage\n\npzc COMMAND --help tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pzc {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks, and log what happens")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for group in GROUPS:
        group.add_commands(commands)
    return parser


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
        parser.error(f"unrecognized arguments: {' '.join(unknown or extra)}")
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
