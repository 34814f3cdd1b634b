"""What all commands have in common: their options, and how they are added to the parser."""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from ..protocol.shown import hint
from .output import folded, write

EVERY = 1.0
"""Seconds after which a command that goes on looks or prints again."""

LONGEST = 1e9
"""Seconds that an option may say, 31 years."""

WRONG = 2
"""Exit status when the command line cannot mean anything."""

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # pyright: ignore[reportPrivateUsage]
Run = Callable[[argparse.Namespace], int]

_CHOICE = re.compile(r"argument (\S+): invalid choice: (.+) \(choose from (.+)\)", re.DOTALL)
_REQUIRED = re.compile(r"the following arguments are required: (.+)")
_QUOTES = "'\" "
_VALUE = re.compile(r"-[^-\d.]")


class Formatter(argparse.HelpFormatter):
    """Breaks what a help says between words, and nothing that is indented: that is to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = (line if line.startswith(" ") else textwrap.fill(line, width) for line in text.splitlines())
        return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """A parser that tells the nearest right word for a wrong one."""

    _jobs: Any = None
    replaced: Mapping[str, str] = MappingProxyType({})
    """Options that this command does not have any more, and what to use in their place."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `argparse.ArgumentParser`; what was given is kept for `error`."""
        self._given = list[str](args or ())
        return super().parse_known_args(args, namespace)

    def add_subparsers(self, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `argparse.ArgumentParser`; the jobs are kept for `error`."""
        self._jobs = super().add_subparsers(**kwargs)
        return self._jobs

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help is data: it may be read in part, or find a full disk."""
        if file is sys.stdout and message:
            write(message.removesuffix("\n"))
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Print the usage and an error, and end with status 2."""
        if (found := _CHOICE.fullmatch(message)) is not None:
            told, word, choices = found.groups()
            known = [each.strip(_QUOTES) for each in choices.split(",")]
            message = f"{word} is no {told}: {hint(word.strip(_QUOTES), known)}"
        elif (found := _REQUIRED.fullmatch(message)) is not None:
            message = self._missing(found[1].split(", "))
        self.print_usage(sys.stderr)
        self.exit(WRONG, f"{folded(f'{self.prog}: error: {message}', 4, sys.stderr)}\n")

    def _missing(self, names: list[str]) -> str:
        if self._jobs is not None:
            return f"a {names[0]} is missing: {', '.join(self._jobs.choices)}"
        known = self.options()
        short = self._option_string_actions
        wrong = [
            each for each in self._given
            if each.partition("=")[0] not in known and (each.startswith("--") or _VALUE.match(each))
            and each[:2] not in short
        ]  # fmt: skip
        if wrong and "--" not in wrong:
            return self._refusal(wrong)
        spare = [each.metavar for each in self._actions if each.nargs in ("?", "*")]
        needed = [name for name in names if name not in spare and not name.startswith("[")]
        return f"{' and '.join(needed)} {'is' if len(needed) == 1 else 'are'} missing"

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """As `error`, for words that mean nothing here."""
        self.error(self._refusal(words))

    def options(self) -> list[str]:
        """Its long options."""
        return sorted(each for each in self._option_string_actions if each.startswith("--"))

    def _refusal(self, words: Sequence[str]) -> str:
        wrong = words[0].partition("=")[0]
        if wrong in self.replaced:
            return f"{wrong} does not exist any more: {self.replaced[wrong]}"
        near = f": {hint(wrong, self.options())}" if wrong.startswith("-") else ""
        if _VALUE.match(wrong):
            near += "; a value that begins with - stands behind --"
        return f"unrecognized arguments: {' '.join(words)}{near}"


def seconds(text: str) -> float:
    """A positive number of seconds, for which a system can wait."""
    return _real(text, "a positive number of seconds")


def amount(text: str) -> float:
    """A positive number."""
    return _real(text, "a positive number")


def _real(text: str, what: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) <= LONGEST:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is not {what}, {LONGEST:.0e} at most")


def positive(text: str) -> int:
    """A positive whole number."""
    return _whole(text, 1, math.inf, "a positive whole number")


def port(text: str) -> int:
    """A TCP port; 0 is any free one."""
    return _whole(text, 0, 65535, "a port, 0 to 65535")


def _whole(text: str, least: int, most: float, what: str) -> int:
    with suppress(ValueError):
        if least <= int(text) <= most:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not {what}")


def add_command(commands: Commands, name: str, run: Run, summary: str, example: str) -> Parser:
    """A command with its function, one sentence, and an example for its help."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
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


def add_endpoint_file(parser: argparse.ArgumentParser) -> None:
    """``--endpoint-file``."""
    parser.add_argument(
        "--endpoint-file", type=Path, metavar="PATH", help="hold the REP endpoint in this file while serving"
    )


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


def add_listening(parser: argparse.ArgumentParser, default: int) -> None:
    """Where a page is."""
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="address to listen at; default 127.0.0.1"
    )
    parser.add_argument("--port", type=port, default=default, metavar="P", help=f"default {default}; 0: any")
