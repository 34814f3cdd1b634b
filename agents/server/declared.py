"""Declared: what whoever starts a server says of the members of an object that knows nothing of us."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from ...protocol import paths
from ...protocol.errors import ConfigError, PzcError
from ...protocol.paths import Path
from ...protocol.shown import hint, shown
from . import members, polled
from .marks import marks_of
from .members import MISSING
from .tree import Tree, names_in

_POLL_SHORTEST = 0.001
"""Seconds of the shortest period in which a member is polled."""


logger = logging.getLogger("pzc.server")

Names = tuple[str, ...]

_LONGEST = 86_400.0


class Declared(NamedTuple):
    """Members by their paths; see `Server`."""

    urgent: frozenset[str]
    reading: frozenset[str]
    concurrent: frozenset[str]
    on_cancel: Mapping[str, str]
    poll: Mapping[str, float]
    expose: frozenset[str]


def declared(
    urgent: Iterable[str],
    reading: Iterable[str],
    concurrent: Iterable[str],
    on_cancel: Mapping[str, str],
    poll: Mapping[str, float],
    expose: Iterable[str] | None,
) -> Declared:
    """What was said, when it can be meant.

    Raises:
        ConfigError: for what is no list of texts, no table, or a period that cannot be kept.
    """
    exposed: Iterable[str] = () if expose is None else expose
    lists = {"urgent": urgent, "reading": reading, "concurrent": concurrent, "expose": exposed}
    for what, given in lists.items():
        if isinstance(given, str):
            raise ConfigError(f"{what} takes a list of members, such as [{given!r}], not a text")
        if not isinstance(cast(object, given), Iterable):
            raise ConfigError(f"{what} takes a list of members, such as ['ramp'], not {shown(given)}")
    for what, table in (("on_cancel", on_cancel), ("poll", poll)):
        if not isinstance(cast(object, table), Mapping):
            raise ConfigError(f"{what} takes a table by members, such as {{'ramp': …}}, not {shown(table)}")
    check_poll(poll)
    return Declared(
        frozenset(urgent), frozenset(reading), frozenset(concurrent), dict(on_cancel), dict(poll),
        frozenset(exposed),
    )  # fmt: skip


def check_poll(poll: Mapping[str, float]) -> None:
    """Judge paths and periods, without the object.

    Raises:
        ConfigError: for a path or a period that cannot be used.
    """
    for path, period in poll.items():
        path_of("poll", path)
        number = isinstance(cast(object, period), int | float)
        if not number or not _POLL_SHORTEST <= period <= _LONGEST:
            raise ConfigError(
                f"poll={{{path!r}: {shown(period, 40)}}}: a period is a number of seconds, "
                f"{_POLL_SHORTEST:g} to {_LONGEST:g}"
            )


def classes(allowed: Iterable[type]) -> dict[str, type]:
    """Classes by the names under which proxies may instantiate them.

    Raises:
        ConfigError: for what is no list of classes.
    """
    given = () if isinstance(allowed, type) or not isinstance(cast(object, allowed), Iterable) else [*allowed]
    if given == () or not all(isinstance(cast(object, cls), type) for cls in given):
        kind = allowed.__name__ if isinstance(allowed, type) else "PowerSupply"
        raise ConfigError(
            f"allow_instantiate takes a list of classes, such as [{kind}], not {shown(allowed)}"
        )
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in given}


def check_factory(given: object, method: str) -> None:
    """Whether a method of `Server` can make an object of what it was given.

    Raises:
        ConfigError: for what is no class or function.
    """
    if not callable(given):
        raise ConfigError(
            f"{shown(given)} is no class: {method} makes the object itself, as in "
            f"{method}({type(given).__name__}, args); Server(...) serves one that is there"
        )


def apply(said: Declared, tree: Tree) -> None:
    """Let what was said hold for what is served.

    Raises:
        ConfigError: for a member that is not there, naming the nearest, or that cannot be polled.
    """
    for written in said.expose:  # it only lets less be used, and what it names may be made later
        try:
            _names(tree, "expose", written)
        except ConfigError as exc:
            logger.warning("%s", exc)
    given: dict[Names, dict[str, Any]] = {}
    lists = {"urgent": said.urgent, "reading": said.reading, "concurrent": said.concurrent}
    for what, written in ((what, each) for what, names in lists.items() for each in names):
        given.setdefault(_names(tree, what, written), {})[what] = True
    for written, method in said.on_cancel.items():
        names = _names(tree, "on_cancel", written)
        _names(tree, "on_cancel", ".".join((*names[:-1], *paths.names(path_of("on_cancel", method)))))
        given.setdefault(names, {})["on_cancel"] = method
    for written in said.poll:
        polled.check(tree, written, path_of("poll", written))
    tree.mark(
        {names: marks_of(tree.still(names))._replace(**marks) for names, marks in given.items()},
        {path_of("poll", written): period for written, period in said.poll.items()},
    )


def path_of(what: str, written: str) -> Path:
    """The path of a member that was named.

    Raises:
        ConfigError: when it is none.
    """
    try:
        path = paths.parse(written)
    except PzcError as exc:
        raise ConfigError(f"{what} names {shown(written)}: {exc}") from None
    if not path or not isinstance(path[0], str):
        raise ConfigError(f"{what} names {shown(written)}, which is no member")
    return path


def _names(tree: Tree, what: str, written: str) -> Names:
    path = path_of(what, written)
    names = names_in(what, written, path)
    target: object = tree.root
    for name in names:
        target = _first(target)
        if target is MISSING:
            break  # only found when it is used
        there = members.names(target)
        if name not in there and not members.is_dynamic(type(target)):
            near = hint(name, there, most=3, otherwise="it has")
            raise ConfigError(
                f"{what} names {shown(written)}: {type(target).__name__} has no {name!r}; {near}"
            )
        target = members.still(target, name)
    return names


def _first(things: Any) -> object:
    """What stands for all in a list or dict: what is said of their members names them without items."""
    kind = cast("type[Any]", type(things))
    if kind in (list, tuple):
        return things[0] if things else MISSING
    return next(iter(things.values()), MISSING) if kind is dict else things
