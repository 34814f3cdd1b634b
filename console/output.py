"""Writing: data to stdout, one whole line at a time; everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any, TextIO

from ..protocol.errors import ConfigError
from ..protocol.shown import plain
from .values import to_json, to_text


class OutputClosed(Exception):
    """Whoever read our output is gone. No OSError: a remote call may raise BrokenPipeError as well."""


def write(line: str) -> None:
    """Write a line of data at once.

    Raises:
        OutputClosed: when the reader is gone.
        OSError: when it cannot be written for another reason, such as a full disk.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError as exc:
        _give_up_stdout()
        if isinstance(exc, BrokenPipeError):
            raise OutputClosed from exc
        raise


def write_new(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file that is not there yet, as a whole or not at all.

    Raises:
        FileExistsError: when it is there.
        ConfigError: when it cannot be written.
    """
    try:
        with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
    except FileExistsError:
        raise
    except OSError as exc:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {exc.strerror}") from exc


def write_whole(path: Path, text: str) -> None:
    """Write a file that no reader sees half of; where it cannot be written, the one before stays.

    Raises:
        OSError: when it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _give_up_stdout() -> None:
    """What is still buffered goes nowhere, so that the interpreter's flush at exit does not fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def columns() -> int | None:
    """Characters of a line of the terminal that data goes to; None where it goes elsewhere."""
    to_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if to_terminal else None


def is_told() -> bool:
    """True when what `say` writes goes to a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def folded(line: str, indent: int, stream: TextIO | None = None, piped: int | None = None) -> str:
    """A line broken between words where a terminal would break it anywhere; what follows is indented.

    Args:
        line: what is written.
        indent: spaces before all but the first.
        stream: to which it goes; default stdout.
        piped: characters of a line where that is no terminal; None for any number.
    """
    stream = stream or sys.stdout
    terminal = stream is not None and stream.isatty()
    width = shutil.get_terminal_size().columns if terminal else piped
    if width is None:
        return line
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def indented(text: str) -> str:
    """Several lines that belong to the one above them, such as a traceback."""
    return textwrap.indent(plain(text), " " * 5).rstrip()


def write_sentence(line: str) -> None:
    """Write a line for people; a terminal gets it broken between words. Errors as `write`."""
    write(folded(plain(line, keep=""), 4))


def write_json(value: Any) -> None:
    """Write a value as one line of JSON; errors as `write`."""
    write(json.dumps(to_json(value), allow_nan=False))


def write_told(told: Any, sentence: str, as_json: bool) -> None:
    """Write what is told for programs as JSON, or for people as a sentence; errors as `write`."""
    if as_json:
        write_json(told)
    else:
        write_sentence(sentence)


def write_value(value: Any, as_json: bool) -> None:
    """Write a value for programs or for people; errors as `write`."""
    if as_json:
        write_json(value)
    else:
        write(to_text(value, columns()))


def say(text: str) -> None:
    """One line to stderr, under the name of the program; a terminal gets it broken between words."""
    if sys.stderr is None:  # for which `print` would take stdout
        return
    with contextlib.suppress(OSError):  # nobody is left to be told
        print(folded(f"pzc: {plain(text.strip(), keep='')}", 5, sys.stderr), file=sys.stderr, flush=True)


def describe(error: BaseException) -> str:
    """Class and text of an error."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
