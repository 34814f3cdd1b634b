"""Descriptions: what a server tells of an object that stays with it: that there is one, and what is in it.

::

    key                        in what is told of       what
    path                       a reference              to it, as on the wire
    type, module               a reference              its class
    kind                       a reference              see `members`
    callable                   a reference, a member    it can be called
    items                      a reference, a member    mapping, sequence, or empty: it has no items
    iterable, len, context     a reference              it can be iterated, has a length, is for ``with``
    idempotent, urgent,        what can be called       as it is marked (`marks`)
    reading, concurrent, on_cancel
    doc, signature, ...        a description            of its class, or of the function; see `described`
    members                    a description            see `described`; of each: kind and more
    types                      a description            of what is in it: "module.Class" -> doc, members
    item                       a member with items      class of its first item, when that is a reference
    refers                     a property               what it gives is annotated as no value

Nothing of this runs a property.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from ...protocol import paths
from ...protocol.paths import Path
from ...protocol.values import PLAIN, first_reference, is_class_of_values
from . import members
from .described import describe, described_call, documentation, flags_of, full_name

MOST_TYPES = 100
"""Classes in one description."""

Told = dict[str, Any]


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
        told.update(flags_of(thing))
    return told


def table(
    target: object, among: Iterable[str], is_remote: Callable[[object], bool] | None = None
) -> dict[str, Told]:
    """What is told of members to those that read no references.

    Args:
        target: whose members.
        among: names of those that are served.
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
    return {name: describe(target, name, kind) for name, kind in found.items()}


def description(
    thing: object, path: Path, among: Iterable[str], is_remote: Callable[[object], bool] | None = None
) -> Told:
    """What is told of an object and all that is in it.

    Args:
        thing: that object.
        path: to it.
        among: names of its members that are served.
        is_remote: as of `table`.
    """
    types: dict[str, Told] = {}
    told = {**about(thing, path), "doc": documentation(thing if inspect.isroutine(thing) else type(thing))}
    if told["callable"]:
        told.update(described_call(thing))
    inside: dict[str, object] = {}
    told["members"] = _members(thing, among, inside)
    for name, entry in told["members"].items():
        if is_remote is not None and entry["kind"] in ("items", "value", "reference"):
            entry["kind"] = "reference" if is_remote(getattr(thing, name)) else "value"
    while inside and len(types) < MOST_TYPES:
        name, found = inside.popitem()
        if name in types:
            continue
        types[name] = {"doc": documentation(type(found))}
        if callable(found):
            types[name].update(described_call(found))
        types[name]["members"] = _members(found, members.names(found), inside)
        inside = {each: model for each, model in inside.items() if each not in types}
    return {**told, "types": types}


def _members(target: object, among: Iterable[str], inside: dict[str, object]) -> dict[str, Told]:
    """Entries of members; ``inside`` gets an object of each class that they refer to."""
    found = members.kinds(target, among, members.kind_told)
    return {name: _member(target, name, kind, inside) for name, kind in found.items()}


def _member(target: object, name: str, kind: str, inside: dict[str, object]) -> Told:
    told = describe(target, name, kind)
    if kind == "property":
        return {**told, "refers": True} if _refers(target, name) else told
    if kind not in ("reference", "items"):
        return told
    thing = members.still(target, name)
    if thing is members.MISSING:
        return told
    told["items"] = members.items_of(thing)
    if kind == "reference":
        told.update(type=full_name(type(thing)), callable=callable(thing))
        inside.setdefault(told["type"], thing)
    first = _first_item(thing)
    if type(first) not in PLAIN and first_reference(first) is first:
        told["item"] = full_name(type(first))
        inside.setdefault(told["item"], first)
    return told


def _first_item(thing: object) -> object:
    module = type(thing).__module__
    if type(thing) in (list, tuple):
        return next(iter(cast("list[object]", thing)), None)
    if isinstance(thing, Mapping) and module in ("builtins", "collections"):
        return next(iter(cast("Mapping[object, object]", thing).values()), None)
    return None


def _refers(target: object, name: str) -> bool:
    """Whether a property says that it gives something that is no value."""
    static = inspect.getattr_static(target, name)
    getter: Any = static.fget if isinstance(static, property) else getattr(static, "func", None)
    try:
        gives = typing.get_type_hints(getter).get("return")
    except Exception:  # nothing is said, or by names that nobody knows
        return False
    return isinstance(gives, type) and gives is not object and not is_class_of_values(gives)
