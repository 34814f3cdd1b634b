"""Names of agents and topics: partitions, namespaces, remapping, patterns.

::

    written     namespace   partition   means                      in gz style
    status      robot1      sim         @sim@/robot1/status        @sim@/robot1/status
    /status     robot1      sim         @sim@/robot1/status        @sim@/status
    ~/status    robot1      sim         @sim@/robot1/psu/status    @sim@/robot1/psu/status

The last line is a name of the agent ``psu`` alone. In gz style a ``/`` in front leaves the namespace.
A name is at most 255 bytes of UTF-8, in parts between ``/``. A part holds printable characters other than
white space and ``/ @ * ? ~``, and no ``:=``. A pattern may also hold ``*`` (any characters of one part),
``?`` (one of them) and the part ``**`` (any number of parts, also none). A pattern without ``/`` is
compared with the last part of a name: ``psu*`` finds ``/psu1`` and ``/robot1/psu2``, and ``*`` everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from ..protocol.errors import ConfigError

MAX_NAME = 255
"""Bytes of UTF-8 in a name or pattern."""

ALLOWED = (
    f"a name is at most {MAX_NAME} bytes of parts between '/', and a part holds printable characters other "
    "than white space and / @ * ? ~, and no ':='"
)

Style = Literal["pzc", "gz"]

_FULL = re.compile(r"@([^@]*)@(/[^@]*)")
_OTHER = re.compile(r"[\s@*?~]|:=")
_OTHER_IN_PATTERN = re.compile(r"[\s@~]|:=")
T = TypeVar("T")


class Target(NamedTuple):
    """Where a name may be: partition, and name from the root of it."""

    partition: str
    name: str


def checked_text(given: object, what: str) -> str:
    """Return what was given as a name, or the like, when it is a text; else ConfigError."""
    if not isinstance(given, str):
        raise ConfigError(f"{given!r:.80} cannot be a {what}: expected a text")
    return given


def check_name(name: str) -> str:
    """Return a name, with or without ``/`` in front, when it can be one.

    Raises:
        ConfigError: saying what is allowed.
    """
    return _check(name, "name", _OTHER)


def check_partition(partition: str) -> str:
    """Return a partition when it can be one: empty, or one part of a name.

    Raises:
        ConfigError: saying what is allowed.
    """
    if checked_text(partition, "partition") and ("/" in partition or _fault(partition, _OTHER)):
        raise ConfigError(f"partition {partition[:80]!r} is not one part of a name: {ALLOWED}")
    return partition


def absolute(name: str, namespace: str = "", agent: str = "", style: Style = "pzc") -> str:
    """The name from the root: ``/robot1/status``.

    Args:
        name: as written; ``~…`` is private to the agent.
        namespace: where it is used, with or without ``/`` in front; empty for the root.
        agent: name of the agent, for private names.
        style: ``gz`` to leave the namespace with a ``/`` in front.

    Raises:
        ConfigError: for what cannot be a name, or a private one without agent.
    """
    if checked_text(name, "name").startswith("~"):
        if not agent:
            raise ConfigError(f"{name[:80]!r} is private to an agent, and the agent has no name; give it one")
        return absolute(f"{agent}/{name[1:].removeprefix('/')}", namespace, style=style)
    check_name(name)
    outer = "" if style == "gz" and name.startswith("/") else namespace.strip("/")
    inner = name.removeprefix("/")
    return check_name(f"/{outer}/{inner}") if outer else f"/{inner}"


def split_full(full: str) -> Target:
    """Partition and name of a full name.

    Raises:
        ConfigError: when it is none.
    """
    found = _FULL.fullmatch(full)
    if found is None:
        raise ConfigError(f"{full[:80]!r} is not a full name such as @sim@/robot1/status")
    return Target(check_partition(found[1]), check_name(found[2]))


def candidates(target: str, namespace: str = "", partition: str = "", style: Style = "pzc") -> list[Target]:
    """Where the agent may be that somebody calls ``target``; the first that exists counts.

    ``psu`` is looked for in the namespace, then at the root; the first part of ``sim/robot1/psu`` may also be
    a partition.

    Args:
        target: name as written, or a full one (``@sim@/psu``).
        namespace: of whoever looks for it.
        partition: of whoever looks for it.
        style: as for `absolute`.

    Raises:
        ConfigError: for what cannot be a name.
    """
    if target.startswith("@"):
        return [split_full(target)]
    own, root = absolute(target, namespace, style=style), absolute(target)
    found = [Target(partition, own), Target(partition, root)]
    if not target.startswith("/"):
        other, slash, name = target.partition("/")
        if slash:
            found.append(Target(other, f"/{name}"))
    return list(dict.fromkeys(found))


class Remapping:
    """Other names for names, as ``--remap voltage:=u`` gives them; applied once, never in a chain.

    Args:
        rules: ``OLD:=NEW`` each, names as `absolute` takes them.
        namespace: of whoever uses them.
        style: as for `absolute`.

    Raises:
        ConfigError: for a rule of another form, or two for one name.
    """

    def __init__(self, rules: Iterable[str] = (), namespace: str = "", style: Style = "pzc") -> None:
        self._new: dict[str, str] = {}
        for rule in rules:
            old, separator, new = checked_text(rule, "remapping").partition(":=")
            if not separator or ":=" in new:
                raise ConfigError(f"remapping {rule[:160]!r} is not OLD:=NEW, such as voltage:=u")
            if "~" in rule:
                raise ConfigError(
                    f"remapping {rule[:160]!r} has a private name: write the agent's name for '~'"
                )
            old, new = (absolute(name.strip(), namespace, style=style) for name in (old, new))
            if self._new.setdefault(old, new) != new:
                raise ConfigError(f"{old} is remapped twice, to {self._new[old]} and to {new}")

    def __bool__(self) -> bool:
        return bool(self._new)

    def apply(self, name: str) -> str:
        """The name (from the root) to use instead of a name (from the root); itself without a rule."""
        return self._new.get(name, name)


class Pattern:
    """A name with ``*``, ``?`` and ``**``; see the module's docstring.

    Patterns come from the network, so matching takes at most len(pattern) * len(name) steps.

    Args:
        text: the pattern, without a partition: each partition has a directory of its own.

    Raises:
        ConfigError: saying what is allowed.
    """

    __slots__ = ("_last_part", "_parts", "text")

    def __init__(self, text: str) -> None:
        self.text = _check(text, "pattern", _OTHER_IN_PATTERN)
        self._last_part = "/" not in text
        self._parts = text.removeprefix("/").split("/")

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def matches(self, name: str) -> bool:
        """Whether a name (from the root) is meant."""
        if self._last_part:
            return _part_matches(self.text, name[name.rfind("/") + 1 :])
        return _glob(self._parts, name.removeprefix("/").split("/"), "**", _part_matches)


def is_pattern(text: str) -> bool:
    """Whether the text has a ``*`` or a ``?``."""
    return "*" in text or "?" in text


def type_name(given: str | type | None) -> str:
    """What a topic's messages are called, out of a class or a text; empty for None.

    Raises:
        ConfigError: for what is neither, or cannot be UTF-8.
    """
    if given is None or isinstance(given, str):
        try:
            (given or "").encode()
        except UnicodeEncodeError as exc:
            raise ConfigError(f"type={given!r:.60} cannot be written as UTF-8: {exc.reason}") from None
        return given or ""
    if not hasattr(given, "__qualname__"):
        raise ConfigError(f"type={given!r:.60} cannot be used: expected a class or its name")
    module = given.__module__
    return given.__qualname__ if module == "builtins" else f"{module}.{given.__qualname__}"


def _part_matches(pattern: str, part: str) -> bool:
    if not is_pattern(pattern):
        return pattern == part
    return _glob(pattern, part, "*", lambda each, character: each in ("?", character))


def _glob(pattern: Sequence[T], text: Sequence[T], star: T, matches: Callable[[T, T], bool]) -> bool:
    """Match ``text`` against items and stars; only the last star met ever has to take one item more."""
    p = t = after_star = from_star = 0
    starred = False
    while t < len(text):
        if p < len(pattern) and pattern[p] == star:
            p += 1
            starred, after_star, from_star = True, p, t
        elif p < len(pattern) and matches(pattern[p], text[t]):
            p, t = p + 1, t + 1
        elif starred:
            from_star += 1
            p, t = after_star, from_star
        else:
            return False
    return all(item == star for item in pattern[p:])


def _check(text: str, what: str, other: re.Pattern[str]) -> str:
    if fault := _fault(checked_text(text, what), other):
        raise ConfigError(f"{text[:80]!r} cannot be a {what}: {fault}; {ALLOWED}")
    return text


def _fault(text: str, other: re.Pattern[str]) -> str:
    """What is wrong with a name or pattern; empty when it is right."""
    if found := other.search(text):
        return f"it has {found[0]!r}"
    if not text.isprintable():
        return "it has a character that cannot be printed"
    if len(text) > MAX_NAME or len(text.encode()) > MAX_NAME:
        return "it is too long"
    relative = text.removeprefix("/")
    return "" if relative and "" not in relative.split("/") else "a part is empty"
