"""Topic settings: defaults of topics out of the settings file.

::

    [topics."camera.*"]           a topic, or a pattern with *, ? and [...]; of several that match, the later
    buffers = 8                   one in the file wins, key by key
    policy = "block(timeout=2)"

==========  ==========  =====================================================================================
key         used by     value
==========  ==========  =====================================================================================
buffers     publisher   messages that a reader with ``block`` may not be done with, 1 or more
ack_wait    publisher   seconds, 0 or more
zero_copy   publisher   false: contents do not lie in shared memory
throttle    publisher   most messages in a second, above 0
scope       publisher   ``process``, ``host`` or ``all``
keep_last   publisher   true: the last notification of each key is kept
policy      subscriber  ``drop``, ``latest``, ``block`` or ``mailbox``, with arguments as in Python or without
transport   subscriber  ``auto``, ``inproc``, ``unix`` or ``tcp``
==========  ==========  =====================================================================================
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, cast

from ..delivery.policies import Policy, block, drop, latest, mailbox
from ..protocol.errors import ConfigError, PzcError
from ..protocol.shown import hint

TRANSPORTS = ("auto", "inproc", "unix", "tcp")
"""How a call, or a notification, may travel; ``auto`` takes the first of the others that works."""

_REMEMBERED = 10_000
_MAKERS: Mapping[str, Callable[..., Policy]] = {
    "drop": drop, "latest": latest, "block": block, "mailbox": mailbox,
}  # fmt: skip


def policy_of(value: object) -> Policy:
    """The policy that a text such as ``latest(3)`` or ``block(timeout=2.0)`` names.

    Raises:
        ValueError: saying what was expected.
    """
    expected = "expected such as drop, drop(100), latest(3) or block(timeout=2.0)"
    if type(value) is not str:
        raise ValueError(expected)
    try:
        node = ast.parse(value.strip(), mode="eval").body
        called = node if isinstance(node, ast.Call) else None
        name = node if called is None else called.func
        make = _MAKERS[name.id] if isinstance(name, ast.Name) else None
        if make is None:
            raise ValueError(expected)
        arguments = [] if called is None else [ast.literal_eval(each) for each in called.args]
        named = [] if called is None else called.keywords
        return make(*arguments, **{str(each.arg): ast.literal_eval(each.value) for each in named})
    except PzcError:
        raise
    except (SyntaxError, KeyError, TypeError, ValueError, RecursionError, MemoryError):
        raise ValueError(expected) from None


def _number(what: str, *, above: bool = False) -> Callable[[object], float]:
    def parse(value: object) -> float:
        number = float(cast("float", value)) if type(value) in (int, float) else -1.0
        if not math.isfinite(number) or number < 0.0 or (above and not number):
            raise ValueError(what)
        return number

    return parse


def _whole(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("expected a whole number of 1 or more")
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("expected true or false")
    return value


def one_of(*allowed: str) -> Callable[[object], str]:
    """What takes one of these texts; its ValueError says them."""

    def parse(value: object) -> str:
        if type(value) is not str or value not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return value

    return parse


_KNOWN: Mapping[str, Callable[[object], Any]] = {
    "buffers": _whole,
    "ack_wait": _number("expected 0 seconds or more"),
    "zero_copy": _flag,
    "throttle": _number("expected more than 0 messages per second", above=True),
    "scope": one_of("process", "host", "all"),
    "keep_last": _flag,
    "policy": policy_of,
    "transport": one_of(*TRANSPORTS),
}


class TopicSettings:
    """Defaults of topics.

    Args:
        table: ``topics`` of the settings file.
        table_name: how the file is called in messages.

    Attributes:
        unknown: where each unknown key stands, with what was probably meant.

    Raises:
        ConfigError: for a value that cannot be used; says where it stands and what was expected.
    """

    def __init__(self, table: object = None, table_name: str = "pzc.toml") -> None:
        self.unknown: dict[str, str] = {}
        self._values: dict[str, dict[str, Any]] = {}
        if table is not None and not isinstance(table, dict):
            raise ConfigError(
                f"{table_name}: topics cannot be used: expected tables, each a topic or pattern"
            )
        for pattern, keys in cast("dict[str, object]", table or {}).items():
            where = f"{table_name}: topics.{pattern}"
            if not isinstance(keys, dict):
                raise ConfigError(f"{where} = {keys!r} cannot be used: expected a table")
            for key, value in cast("dict[str, object]", keys).items():
                self._take(pattern, key, value, f"{where}.{key}")
        self.of = lru_cache(_REMEMBERED)(self._of)

    def _take(self, pattern: str, key: str, value: object, where: str) -> None:
        parse = _KNOWN.get(key)
        if parse is None:
            self.unknown[where] = hint(key, _KNOWN)
            return
        try:
            self._values.setdefault(pattern, {})[key] = parse(value)
        except (ValueError, PzcError) as exc:
            raise ConfigError(f"{where} = {value!r} cannot be used: {exc}") from exc

    def __bool__(self) -> bool:
        return bool(self._values)

    def _of(self, topic: str) -> Mapping[str, Any]:
        """The defaults of a topic, by key."""
        found: dict[str, Any] = {}
        for pattern, values in self._values.items():
            if fnmatchcase(topic, pattern):
                found.update(values)
        return found
