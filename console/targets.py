"""Targets and values as they are written on a command line.

::

    written                          agent                    member
    tcp://10.0.0.7:5555.voltage      tcp://10.0.0.7:5555      voltage      first dot behind the port
    ipc:///run/lab/psu.sock.voltage  ipc:///run/lab/psu.sock  voltage      behind a socket that is there,
                                                                           else last dot
    psu.ch1.voltage                  psu                      ch1.voltage  behind the longest name that is
                                                                           known, else first dot

Behind the agent stands the path of a member: ``ch1.voltage``, ``channels[0].off``, ``limits['low']``. Topics
are written with a slash (`discovery.spelling`): ``psu/voltage``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ..discovery import spelling
from ..discovery.spelling import EXAMPLES, is_socket
from ..protocol.errors import ConfigError, LocalProtocolError, MemberRefused
from ..protocol.paths import parse

_TCP = re.compile(r"(tcp://(?:\[[^\]]+\]|[^:\[\]]+):\d+)\.(.+)", re.DOTALL)
_BARE = re.compile(r"(?:\[[^\]]+\]|[\w.-]+):\d+(?:\..*)?", re.DOTALL)
_ARGPARSE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class UsageError(Exception):
    """The command line cannot mean anything; exit status 2."""


def split_member(text: str, names: Iterable[str] = ()) -> tuple[str, str]:
    """Agent, and path of a member as text, of ``N.MEMBER``; see the table.

    Args:
        text: as written.
        names: known names of agents, which may contain dots themselves.

    Raises:
        UsageError: saying what was expected.
    """
    scheme = text.partition("://")[0] if "://" in text else None
    if scheme not in (None, "tcp", "ipc"):
        raise UsageError(f"{text!r}: only tcp:// and ipc:// endpoints and names reach another process")
    if not scheme and _BARE.fullmatch(text):
        raise UsageError(f"{text!r}: an endpoint begins with its scheme, as in tcp://{text}")
    if scheme == "tcp":
        found = _TCP.fullmatch(text)
        target, member = ("", "") if found is None else found.groups()
    else:
        target, member = _split_path(text) if scheme else _split_name(text, names)
    if not target or not member or target.endswith("://"):
        told = f"; pzc info {text} lists members" if text and not member else ""
        raise UsageError(
            f"{text!r} is not N.MEMBER, such as psu.voltage or tcp://127.0.0.1:5555.voltage{told}"
        )
    try:
        parse(member)
    except LocalProtocolError as exc:
        raise UsageError(f"{text!r}: {member!r} behind {target} is not the name of a member: {exc}") from exc
    except MemberRefused:
        pass  # which whoever uses it is told in the words of the server
    return target, member


def _split_path(text: str) -> tuple[str, str]:
    ends = [at for at, sign in enumerate(text) if sign == "." and is_socket(text[6:at])]
    at = ends[-1] if ends else text.rfind(".")
    return text[: max(at, 0)], text[at + 1 :]


def _split_name(text: str, names: Iterable[str]) -> tuple[str, str]:
    name = max((each for each in names if text.startswith(f"{each}.")), key=len, default="")
    if not name:
        name = text.partition(".")[0]
    return name, text[len(name) + 1 :]


def split_topic(text: str, names: Iterable[str] = ()) -> tuple[str, str]:
    """Agent and topic of ``N/TOPIC``, which has to name one.

    Args:
        text: as written.
        names: known names of agents, which may contain slashes themselves.

    Raises:
        UsageError: saying what was expected.
    """
    target, topic = split_source(text, names)
    if not topic:
        near = f"; {target} has topics, all of which are {target}/*"
        if "://" not in text and "." in text.strip("."):
            near = f": {text} is a member, {'/'.join(text.split('.', 1))} its topic"
        raise UsageError(f"{text!r} is not N/TOPIC, such as {EXAMPLES}{near}")
    return target, topic


def split_source(text: str, names: Iterable[str] = ()) -> tuple[str, str]:
    """As `split_topic`, with an empty topic where none is named."""
    try:
        return spelling.split_topic(text, names)
    except ConfigError as exc:
        raise UsageError(str(exc)) from None


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
