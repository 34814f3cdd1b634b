"""Descriptions: what a server tells of an object that stays with it: that there is one, and what is in it.

::

    key                        in what is told of       what
    path                       a reference              to it, as on the wire
    type, module               a reference              its class
    kind                       a reference              see `members`
    callable                   a reference, a member    it can be called
    items                      a reference, a member    mapping, sequence, or empty: it has no items
    iterable, len, context     a reference              it can be iterated, has a length, is for ``with``
    idempotent, urgent,        a member                 as it is declared, by `marks` or by the server
    reading, concurrent,
    on_cancel, poll
    doc, signature, ...        a description            of its class, or of the function; see `described`
    members                    a description            see `described`; of each: kind and more
    types                      a description            of what is in it: "module.Class" -> doc, members
    item                       a member with items      class of its first item, when that is a reference

Nothing of this runs a property.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from ...protocol import paths
from ...protocol.paths import Path
from ...protocol.values import PLAIN, first_reference
from . import members
from .described import describe, described_call, documentation, full_name
from .marks import given_of, marks_of

MOST_TYPES = 100
"""Classes in one description."""

Told = dict[str, Any]

Declared = Callable[[Path], Told]
"""What a server declares of a member, beside the marks that its author gave it."""


def about(thing: object, path: Path) -> Told:
    """What is told of a reference."""
    cls = type(thing)
    told: Told = {
        "path": paths.to_wire(path),
        "type": cls.__name__,
        "module": str(cls.__module__),
        "kind": members.kind_told(thing),
        "callable": callable(thing),
        "items": members.items_of(thing),
        "iterable": hasattr(cls, "__iter__") or hasattr(cls, "__getitem__") or hasattr(cls, "__aiter__"),
        "len": hasattr(cls, "__len__"),
        "context": hasattr(cls, "__enter__") or hasattr(cls, "__aenter__"),
    }
    if told["callable"]:
        told.update(given_of(marks_of(thing)))
    return told


def table(
    target: object,
    path: Path,
    among: Iterable[str],
    declared: Declared,
    is_remote: Callable[[object], bool] | None = None,
) -> dict[str, Told]:
    """What is told of members to those that read no references.

    Args:
        target: whose members.
        path: to it.
        among: names of those that are served.
        declared: by the server.
        is_remote: whether an attribute is held remotely instead of being sent by value; None for what its
            kind says. Kind ``remote`` is not asked for its value, ``value`` always is.
    """
    found = members.kinds(target, among, members.kind_of)
    if is_remote is not None:
        for name, kind in found.items():
            if kind in ("items", "value") and is_remote(getattr(target, name)):
                found[name] = "remote" if kind == "value" else kind
            elif kind == "items":
                found[name] = "value"
    return {name: describe(target, name, kind) | declared((*path, name)) for name, kind in found.items()}


def description(
    thing: object,
    path: Path,
    among: Iterable[str],
    declared: Declared,
    is_remote: Callable[[object], bool] | None = None,
) -> Told:
    """What is told of an object and all that is in it.

    Args:
        thing: that object.
        path: to it.
        among: names of its members that are served.
        declared: by the server.
        is_remote: as of `table`.
    """
    types: dict[str, Told] = {}
    told = {**about(thing, path), "doc": documentation(thing if inspect.isroutine(thing) else type(thing))}
    if told["callable"]:
        told.update(described_call(thing), **declared(path))
    inside: Inside = {}
    told["members"] = _members(thing, path, among, declared, inside)
    for name, entry in told["members"].items():
        if is_remote is not None and entry["kind"] in ("items", "value", "reference"):
            entry["kind"] = "reference" if is_remote(getattr(thing, name)) else "value"
    while inside and len(types) < MOST_TYPES:
        name, (found, where) = inside.popitem()
        if name in types:
            continue
        types[name] = {"doc": documentation(type(found))}
        if callable(found):
            types[name].update(described_call(found))
        types[name]["members"] = _members(found, where, members.names(found), declared, inside)
        inside = {each: model for each, model in inside.items() if each not in types}
    return {**told, "types": types}


Inside = dict[str, tuple[object, Path]]
"""By class one of its objects, and the path to it."""


def _members(
    target: object, path: Path, among: Iterable[str], declared: Declared, inside: Inside
) -> dict[str, Told]:
    """Entries of members; ``inside`` gets an object of each class that they refer to."""
    found = members.kinds(target, among, members.kind_told)
    return {
        name: _member(target, (*path, name), kind, inside) | declared((*path, name))
        for name, kind in found.items()
    }


def _member(target: object, path: Path, kind: str, inside: Inside) -> Told:
    name = cast(str, path[-1])
    told = describe(target, name, kind)
    if kind not in ("reference", "items"):
        return told
    thing = members.still(target, name)
    if thing is members.MISSING:
        return told
    told["items"] = members.items_of(thing)
    if kind == "reference":
        told.update(type=full_name(type(thing)), callable=callable(thing))
        inside.setdefault(told["type"], (thing, path))
    key, first = _first_item(thing)
    if type(first) not in PLAIN and first_reference(first) is first:
        told["item"] = full_name(type(first))
        inside.setdefault(told["item"], (first, (*path, (key,))))
    return told


def _first_item(thing: object) -> tuple[Any, object]:
    """Key and value."""
    module = type(thing).__module__
    if type(thing) in (list, tuple):
        return next(enumerate(cast("list[object]", thing)), (0, None))
    if isinstance(thing, Mapping) and module in ("builtins", "collections"):
        return next(iter(cast("Mapping[object, object]", thing).items()), (0, None))
    return 0, None
