"""Targets and values as they are written on a command line.

::

    written                          agent                       member or topic
    tcp://10.0.0.7:5555.voltage      tcp://10.0.0.7:5555         voltage     first dot behind the port
    ipc:///run/lab/psu.sock.voltage  ipc:///run/lab/psu.sock     voltage     last dot
    psu.voltage                      psu                         voltage     behind the longest name of
                                                                             PZC_PEERS, else last dot
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

_TCP = re.compile(r"(tcp://(?:\[[^\]]+\]|[^:\[\]]+):\d+)\.(.+)", re.DOTALL)
_LAST_DOT = re.compile(r"(.+)\.([^.]+)", re.DOTALL)
_ARGPARSE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class UsageError(Exception):
    """The command line cannot mean anything; exit status 2."""


def split_target(text: str, names: Iterable[str] = ()) -> tuple[str, str]:
    """Agent and member (or topic) of ``N.member``; see the table.

    Args:
        text: as written.
        names: known names of agents, which may contain dots themselves.

    Raises:
        UsageError: saying what was expected.
    """
    scheme = text.partition("://")[0] if "://" in text else None
    if scheme not in (None, "tcp", "ipc"):
        raise UsageError(f"{text!r}: only tcp:// and ipc:// endpoints and names reach another process")
    if scheme == "tcp":
        found = _TCP.fullmatch(text)
    else:
        known = [name for name in names if scheme is None and text.startswith(f"{name}.")]
        name = max(known, key=len, default="")
        if name and len(text) > len(name) + 1:
            return name, text[len(name) + 1 :]
        found = _LAST_DOT.fullmatch(text)
    if found is None or found[1].endswith("://"):
        raise UsageError(f"{text!r} is not N.MEMBER, such as psu.voltage or tcp://127.0.0.1:5555.voltage")
    return found[1], found[2]


def split_member(text: str, names: Iterable[str] = ()) -> tuple[str, str]:
    """As `split_target`, for members, which are Python identifiers."""
    target, member = split_target(text, names)
    if not member.isidentifier():
        raise UsageError(f"{text!r}: {member!r} behind {target} is not the name of a member")
    return target, member


def parse_value(text: str) -> Any:
    """The Python literal that a text is (``3.3``, ``True``, ``[1, 2]``, ``'3'``), else the text itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def parse_arguments(texts: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments; what begins with ``NAME=`` is a keyword.

    Raises:
        UsageError: for a keyword given twice.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            args.append(parse_value(text))
        elif name in kwargs:
            raise UsageError(f"keyword argument {name} is given twice")
        else:
            kwargs[name] = parse_value(value)
    return tuple(args), kwargs


def is_negative_literal(text: str) -> bool:
    """True for negative numbers in any notation of Python, such as ``-1e-3``."""
    return text.startswith("-") and isinstance(parse_value(text), int | float | complex)


def shield(text: str) -> str:
    """A negative number that argparse would take for an option, with a space in front, which it would not."""
    return f" {text}" if is_negative_literal(text) and not _ARGPARSE_NUMBER.fullmatch(text) else text
