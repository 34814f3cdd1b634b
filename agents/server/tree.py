"""Tree: the objects that a server serves, and which paths into them a peer may use.

A path is followed anew for each call, in its turn. What is said of members beforehand (``expose``, marks)
names them without items: ``channels.off`` is that of every channel.
"""

from __future__ import annotations

import contextlib
import inspect
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from ...protocol import paths
from ...protocol.errors import (
    ConfigError,
    LocalProtocolError,
    MemberRefused,
    OperationRefused,
    PzcError,
)
from ...protocol.memo import Memo
from ...protocol.paths import Handle, Path, Step
from ...protocol.shown import printable
from ...protocol.values import PLAIN, TRAVELLING, first_reference
from .. import operations
from . import members
from .marks import NONE, NOTHING, Marks, Member, given_of, marks_of
from .members import MISSING
from .objects import Objects, objects_of

Find = Callable[[Any, Any], object]

_MOST_KNOWN = 4096
"""Paths of which is remembered what is said of them."""

_MOST_OPEN = 256
"""Types of which is remembered that their instances have members."""

MOST_SEARCHED = 1000
"""Objects that are searched for signals."""

MOST_DEEP = 6
"""Steps to the objects that are searched for signals."""


_LANE = 4
"""Digits of an id of a handle that tell its lane."""


class Tree:
    """What is served, by path; safe from any thread.

    Args:
        served: object, or dict of objects by name.
        expose: names and dotted paths that are served, with all that is in them; None for every public one.
        lanes: ``one`` for all objects, or one for ``each``.

    Attributes:
        kept: what a handle is for, whoever has it; `MISSING` when it is kept no more.
        periods: seconds between two reads of the members that are polled.

    Raises:
        ConfigError: for names that cannot be those of objects, or of members.
    """

    def __init__(self, served: object, expose: Collection[str] | None = None, lanes: str = "one") -> None:
        if lanes not in ("one", "each"):
            raise ConfigError(f"lanes={lanes!r} is neither 'one' nor 'each'")
        self._exposed = None if expose is None else _exposed(expose)
        self.serve(served)
        self.lanes = len(self.objects) if lanes == "each" and self.objects else 1
        self._numbers = {name: number for number, name in enumerate(self.objects)} if self.lanes > 1 else {}
        self._given: dict[tuple[str, ...], Marks] = {}
        self.periods: Mapping[Path, float] = {}
        self._open: set[type] = set()  # types whose instances have members that are served
        self.kept: Callable[[str], object] = lambda handle: MISSING

    def serve(self, served: object) -> None:
        """Serve something, in the place of what was served before."""
        self.objects = objects_of(served)
        self.root: object = Objects(self.objects) if self.objects else served
        self._known: Memo[tuple[Any, Any], Member] = Memo()
        self._urgent: set[Path] = set()  # of what is only found in its turn
        self._signals: dict[str, Any] = {}  # by topic
        self._search()

    def mark(self, given: Mapping[tuple[str, ...], Marks], periods: Mapping[Path, float]) -> None:
        """Take marks that stand for those of the members themselves, and what is polled."""
        self._given, self.periods = dict(given), periods
        self._known = Memo()

    def member(self, options: dict[str, Any]) -> Member:
        """What a message names; never fails, and runs nothing of the objects. Any thread."""
        try:
            return self._known[options.get("on", ()), options.get("name")]
        except (KeyError, TypeError):
            return self._learn(options)

    def _learn(self, options: dict[str, Any]) -> Member:
        try:
            path = path_of(options)
            member = self.look(path)
        except Exception:  # the same is found, and told, in its turn
            name = options.get("name", "")
            return NOTHING._replace(text=printable(name, 100) if isinstance(name, str) else "", path=None)
        if not path or not isinstance(path[0], Handle):
            on, name = options.get("on", ()), options.get("name")
            if (type(on) is tuple and type(name) is str) or name is None:
                about: Any = on, name
                with contextlib.suppress(TypeError):  # lists, by a serializer that has no tuples
                    self._known.keep(about, member, _MOST_KNOWN)
        return member

    def meet_urgent(self, path: Path) -> None:
        """Know that what is behind a property is urgent."""
        if path not in self._urgent and not isinstance(path[0], Handle):
            if len(self._urgent) >= _MOST_KNOWN:
                self._urgent.clear()
            self._urgent.add(path)
            self._known = Memo()

    def look(self, path: Path) -> Member:
        """What a path is about.

        Raises:
            MemberRefused: when it is not exposed.
        """
        narrowed = self._within(path) is not None
        given = self._said_of(path)
        if given is not None:
            found, sure = given, True
        else:
            thing, sure = self._still(path)
            found = marks_of(thing)
            if not sure:
                found = Marks(urgent=path in self._urgent, concurrent=self._getter(path).concurrent)
        settled = sure and not narrowed and (given is not None or not found.reading)
        marks = found.urgent, found.reading, found.on_cancel, found.concurrent
        return Member(paths.text(path), *marks, self._lane(path), path, narrowed, sure, settled)

    def _getter(self, path: Path) -> Marks:
        """Marks of the function that a property is made of."""
        owner, step = self.still(path[:-1]), path[-1]
        static = inspect.getattr_static(owner, step, None) if isinstance(step, str) else None
        return marks_of(static.fget) if isinstance(static, property) else NONE

    def _lane(self, path: Path) -> int:
        first = path[0] if path and self.lanes > 1 else None
        if isinstance(first, Handle):
            return min(int(first.id[:_LANE], 16), self.lanes - 1)
        return self._numbers.get(first, 0) if isinstance(first, str) else 0

    def _within(self, path: Path) -> dict[str, Any] | None:
        """What is exposed of the members of what a path leads to; None for all of them.

        Raises:
            MemberRefused: beside the way to what is exposed.
        """
        within: dict[str, Any] | None = None if path and isinstance(path[0], Handle) else self._exposed
        names = paths.names(path)
        for name in names:
            if within is None:
                break
            if name not in within:
                raise MemberRefused(f"{paths.text(names)!r} is not exposed by this server")
            within = within[name]
        return within

    def still(self, path: Path) -> object:
        """What a path leads to when nothing has to be run for that, a method bare; `MISSING` otherwise."""
        return self._still(path)[0]

    def _still(self, path: Path) -> tuple[object, bool]:
        """As `still`, and whether it is known what marks there are."""
        target: Any = self.root
        for step in path:
            if type(target) in TRAVELLING or issubclass(type(target), members.CLOSED):
                return MISSING, True
            if isinstance(step, str):
                target = members.still(target, step)
            elif isinstance(step, Handle):
                target = self.kept(step.id)
            elif type(target) in (list, tuple, dict):
                try:
                    target = target[paths.key_of(step)]
                except (LookupError, TypeError):
                    target = MISSING
            else:
                target = MISSING
            if target is MISSING:
                return MISSING, False
        return members.bare(target), True

    def given(self, member: Member) -> bool:
        """True when the marks of a member stand for those of whatever is there."""
        return member.path is not None and self._said_of(member.path) is not None

    def marks(self, path: Path, found: object) -> Marks:
        """What was said of a member beforehand, else the marks of what was found there."""
        given = self._said_of(path)
        return marks_of(members.bare(found)) if given is None else given

    def _said_of(self, path: Path) -> Marks | None:
        """What was said of a member beforehand; nothing of what a method returned."""
        return None if path and isinstance(path[0], Handle) else self._given.get(paths.names(path))

    def declared(self, path: Path) -> dict[str, Any]:
        """What the server declares of a member, as its description says it."""
        marks = self._said_of(path)
        found: dict[str, Any] = {} if marks is None else given_of(marks)
        period = self.periods.get(path)
        return found if period is None else {**found, "poll": float(period)}

    def find(self, path: Path, held: Find, call: Any = None, start: object = MISSING) -> Any:
        """What a path leads to now.

        Args:
            path: a usable one.
            held: gives what a handle is for; gets the call and the handle.
            call: that asks.
            start: where the path begins; default what is served.

        Raises:
            MemberRefused: for what is not there, with the nearest names; for what has no members of its own.
            Exception: what an object raised on the way.
        """
        target: Any = self.root if start is MISSING else start
        for step in path:
            if type(step) is str:  # written out, because every call comes here
                if type(target) not in self._open:
                    self._check_open(target, step)
                try:
                    target = getattr(target, step)
                except AttributeError as exc:
                    members.check_missing(target, step, exc)
                    raise
            elif type(step) is tuple:
                target = item_of(target, step)
            else:
                target = held(call, step)
        return target

    def _check_open(self, target: object, step: str) -> None:
        kind = type(target)
        if isinstance(target, members.CLOSED) or kind in PLAIN:
            raise MemberRefused(f"a {kind.__name__} has no members that are served, such as {step!r}")
        if len(self._open) >= _MOST_OPEN:
            self._open.clear()
        self._open.add(kind)

    def names(self, target: object, path: Path) -> list[str]:
        """Names of the members of what a path has led to that are served."""
        within = self._within(path)
        return [name for name in members.names(target) if within is None or name in within]

    def meet(self, target: object, path: Path, among: Iterable[str]) -> None:
        """Know signals and urgent methods of what a path has led to, or that it led to a signal itself.

        They may be behind properties.
        """
        if not path:
            return
        self._meet_signal(path, target)
        for name in among:
            thing = members.still(target, name)
            if marks_of(members.bare(thing)).urgent:
                self.meet_urgent((*path, name))
            self._meet_signal((*path, name), thing)

    def _meet_signal(self, path: Path, thing: object) -> None:
        if members.is_signal(thing):
            self._signals[paths.text(path)] = thing
            if len(self._signals) > _MOST_KNOWN:
                self._signals.pop(next(iter(self._signals)), None)

    def topics(self) -> set[str]:
        """Topics of the signals that are known: found when they were served, or met since."""
        return set(self._signals)

    def signal(self, topic: str) -> Any:
        """The signal of a topic, by its path alone, as far as nothing has to be run for that; else None."""
        with contextlib.suppress(PzcError):  # a topic may be anything
            path = paths.parse(topic)
            self._within(path)
            if path:
                self._meet_signal(path, self.still(path))
        return self._signals.get(topic)

    def _search(self) -> None:
        """Know the signals that are reached without running anything, for who subscribes to all topics."""
        waiting: list[tuple[Path, object]] = [((), self.root)]
        seen: set[int] = set()
        while waiting and len(seen) < MOST_SEARCHED:
            path, target = waiting.pop(0)
            if id(target) in seen:
                continue
            seen.add(id(target))
            with contextlib.suppress(Exception):  # what cannot be looked at must not hide the others
                for step, thing in self._inside(target, path):
                    if type(thing) in PLAIN or type(thing) in TRAVELLING or isinstance(thing, type):
                        continue
                    if members.is_signal(thing):
                        self._meet_signal((*path, step), thing)
                    elif first_reference(thing) is not None and len(path) < MOST_DEEP:
                        waiting.append(((*path, step), thing))

    def _inside(self, target: Any, path: Path) -> Iterator[tuple[Step, object]]:
        kind = cast("type[Any]", type(target))
        if kind in (list, tuple):
            yield from (((number,), thing) for number, thing in enumerate(target))
        elif kind is dict:
            yield from (((key,), thing) for key, thing in target.items() if paths.is_key(key))
        elif not isinstance(target, members.CLOSED):
            for name in self.names(target, path):
                thing = members.still(target, name)
                if thing is not MISSING and not isinstance(thing, members.METHOD_MAKERS):
                    yield name, thing


def new_handle(lane: int) -> str:
    """An id for an object that a method returned, which tells the number of the lane in which it is used."""
    return f"{lane:0{_LANE}x}{secrets.token_hex(8)}"


def item_of(target: object, step: tuple[Any, ...]) -> Any:
    """The item that a step leads to.

    Raises:
        OperationRefused: for what has no items.
        Exception: what the object raised, such as KeyError.
    """
    kind = type(target)
    if kind in PLAIN or not members.items_of(target):
        raise OperationRefused(f"a {kind.__name__} has no items such as {paths.text([step])}")
    return operations.item(target, paths.key_of(step))


def put_item(target: object, step: tuple[Any, ...], value: object) -> None:
    """Set the item that a step leads to; errors as `item_of`."""
    if not members.items_of(target) or not hasattr(type(target), "__setitem__"):
        raise OperationRefused(
            f"a {type(target).__name__} has no items that can be set, such as {paths.text([step])}"
        )
    cast("Any", target)[paths.key_of(step)] = value


def path_of(options: dict[str, Any]) -> Path:
    """The path in the options of a message.

    Raises:
        RemoteProtocolError: when it is none.
        MemberRefused: for a name in it that is private, or no name.
    """
    on = paths.from_wire(options.get("on", ()))
    name = options.get("name")
    return on if name is None else (*on, paths.check_name(name))


def names_in(what: str, written: str, path: Path) -> tuple[str, ...]:
    """The names of a path that something is said of.

    Raises:
        ConfigError: for one with items, of which nothing can be said alone.
    """
    names = paths.names(path)
    if len(names) != len(path):
        raise ConfigError(
            f"{what} names {written}, an item: what is said holds for all items, so write {'.'.join(names)!r}"
        )
    return names


def _exposed(expose: Iterable[str]) -> dict[str, Any]:
    """What is exposed, as dicts in dicts by name; None at the end of each path, for all that is in it."""
    table: dict[str, Any] = {}
    for written in expose:
        try:
            names = names_in("expose", written, paths.parse(written))
        except MemberRefused:  # a private name is not served, exposed or not
            continue
        except LocalProtocolError as exc:
            raise ConfigError(f"expose names {written!r:.80}: {exc}") from None
        within: dict[str, Any] | None = table
        for name in names[:-1]:
            within = within.setdefault(name, {})
            if within is None:
                break
        if within is not None and names:
            within[names[-1]] = None
    return table
