"""Targets and values as they are written on a command line.

::

    written                          agent                       member or topic
    tcp://10.0.0.7:5555.voltage      tcp://10.0.0.7:5555         voltage     first dot behind the port
    ipc:///run/lab/psu.sock.voltage  ipc:///run/lab/psu.sock     voltage     last dot
    psu.voltage                      psu                         voltage     behind the longest name that
                                                                             is known, else last dot
    psu.ch1.voltage                  psu                         ch1.voltage  of members: else first dot

Behind the agent stands the path of a member: ``ch1.voltage``, ``channels[0].off``, ``limits['low']``.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ..protocol.errors import LocalProtocolError, MemberRefused
from ..protocol.paths import parse

_TCP = re.compile(r"(tcp://(?:\[[^\]]+\]|[^:\[\]]+):\d+)\.(.+)", re.DOTALL)
_LAST_DOT = re.compile(r"(.+)\.([^.]+)", re.DOTALL)
_BARE = re.compile(r"((?:\[[^\]]+\]|[\w.-]+):\d+)(\..*|)", re.DOTALL)
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
    """As `split_target`, for members: the agent, and the path of a member as text.

    Raises:
        UsageError: saying what was expected.
    """
    if "://" not in text and (bare := _BARE.fullmatch(text)) is not None:
        raise UsageError(f"{text!r}: an endpoint begins with its scheme, as in tcp://{bare[1]}{bare[2]}")
    target, member = _split_path(text, names)
    try:
        parse(member)
    except LocalProtocolError as exc:
        raise UsageError(f"{text!r}: {member!r} behind {target} is not the name of a member: {exc}") from exc
    except MemberRefused:
        pass  # which whoever uses it is told in the words of the server
    return target, member


def _split_path(text: str, names: Iterable[str]) -> tuple[str, str]:
    names = list(names)
    if text.startswith("ipc://"):
        ends = [at for at, sign in enumerate(text) if sign == "." and _is_socket(text[6:at])]
        if ends and len(text) > ends[-1] + 1:
            return text[: ends[-1]], text[ends[-1] + 1 :]
    elif "://" not in text and not any(text.startswith(f"{name}.") for name in names):
        name, dot, member = text.partition(".")
        if name and dot and member:
            return name, member
    return split_target(text, names)


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


def _is_socket(path: str) -> bool:
    return os.path.exists(path) and not os.path.isdir(path)
