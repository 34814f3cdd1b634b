"""Descriptions: what a server tells of an object that stays with it: that there is one, and what is in it.

::

    key                        in what is told of       what
    path                       a reference              to it, as on the wire
    type                       a reference, a member    its class, or what is annotated
    kind                       a reference, a member    see `members`
    callable                   a reference, a member    it can be called
    items                      a reference, a member    mapping, sequence, or empty: it has no items
    doc                        a description, a member  documentation
    signature                  what can be called       "(volts: float) -> None"; "(...)" when it is unknown
    idempotent, urgent,        a member                 as it is declared, by `marks` or by the server
    reading, concurrent,
    on_cancel, poll
    writable                   a property               whether it has a setter
    members                    a description            by name
    types                      a description            of what is in it: "module.Class" -> doc, members
    item                       a member with items      class of its first item, when that is a reference

Every value is a text, a flag, a number or a table of these, so a reader needs none of the classes. A text
names builtins bare and all else as ``module.Name``. Postponed annotations stay as they were written. No
property is run.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, cast

from ...protocol import paths
from ...protocol.paths import Path
from ...protocol.values import PLAIN, first_reference
from ..stub import SourceText
from . import members
from .marks import given_of, marks_of

logger = logging.getLogger("pzc.described")

MOST_TYPES = 100
"""Classes in one description."""

_LONGEST = 1000  # characters of an annotation or default

Told = dict[str, Any]

Declared = Callable[[Path], Told]
"""What a server declares of a member, beside the marks that its author gave it."""

Inside = dict[str, tuple[object, Path]]
"""By class one of its objects, and the path to it."""


def about(thing: object, path: Path) -> Told:
    """What is told of a reference."""
    return {
        "path": paths.to_wire(path),
        "type": type(thing).__name__,
        "kind": members.kind_told(thing),
        "callable": callable(thing),
        "items": members.items_of(thing),
        **(given_of(marks_of(thing)) if callable(thing) else {}),
    }


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
        is_remote: whether an attribute is held remotely instead of being sent by value; None for the rule.
    """
    types: dict[str, Told] = {}
    inside: Inside = {}
    told = about(thing, path) | _described(thing, path, among, declared, inside)
    if told["callable"]:
        told.update(declared(path))
    for name, entry in told["members"].items():
        if is_remote is not None and entry["kind"] in ("items", "value", "reference"):
            entry["kind"] = "reference" if is_remote(getattr(thing, name)) else "value"
    while inside and len(types) < MOST_TYPES:
        name, (found, where) = inside.popitem()
        if name not in types:
            types[name] = _described(found, where, members.names(found), declared, inside)
    return {**told, "types": types}


def _described(thing: object, path: Path, among: Iterable[str], declared: Declared, inside: Inside) -> Told:
    """Documentation and members; ``inside`` gets an object of each class that they refer to."""
    told = {"doc": _documentation(thing if inspect.isroutine(thing) else type(thing))}
    if callable(thing):
        told |= _call(thing)
    found = members.kinds(thing, among, members.kind_told)
    entries = {
        name: {"kind": kind} | _member(thing, (*path, name), kind, inside) | declared((*path, name))
        for name, kind in found.items()
    }
    return {**told, "members": entries}


def _member(target: object, path: Path, kind: str, inside: Inside) -> Told:
    name = cast(str, path[-1])
    try:
        if kind == "method":
            return _call(getattr(target, name))
        if kind == "property":
            return _property(inspect.getattr_static(target, name))
        if kind in ("reference", "items"):
            return _held(target, path, kind, inside)
        value: object = getattr(target, name)
        if kind == "signal":
            own = getattr(value, "__doc__", None) != type(value).__doc__
            return {"doc": _documentation(value)} if own else {}
        return {"type": _type(target, name, value)}
    except Exception as exc:  # a member that cannot be described is still there
        logger.debug("member %s cannot be described: %r", name, exc)
        return {}


def _call(function: Any) -> Told:
    """What is told of something that can be called."""
    return {
        "doc": _documentation(function), "signature": _signature(function), **given_of(marks_of(function))
    }  # fmt: skip


def _property(static: object) -> Told:
    getter = getattr(static, "fget", None) or getattr(static, "func", None)  # func: of a cached property
    settable = static.fset is not None if isinstance(static, property) else hasattr(type(static), "__set__")
    told: Told = {"doc": _documentation(static), "writable": settable}
    if marks_of(getter).concurrent:  # the only mark that holds for a property
        told["concurrent"] = True
    annotations = _annotations(getter)
    if "return" in annotations:
        told["type"] = str(_shown(annotations["return"], postponed=True))
    return told


def _held(target: object, path: Path, kind: str, inside: Inside) -> Told:
    name = cast(str, path[-1])
    thing = members.still(target, name)
    told: Told = {"type": _type(target, name, getattr(target, name))}
    if thing is members.MISSING:
        return told
    told["items"] = members.items_of(thing)
    if kind == "reference":
        told.update(type=_full_name(type(thing)), callable=callable(thing))
        inside.setdefault(told["type"], (thing, path))
    key, first = _first_item(thing)
    if type(first) not in PLAIN and first_reference(first) is first:
        told["item"] = _full_name(type(first))
        inside.setdefault(told["item"], (first, (*path, (key,))))
    return told


def _first_item(thing: object) -> tuple[Any, object]:
    """Key and value."""
    if type(thing) in (list, tuple):
        return next(enumerate(cast("list[object]", thing)), (0, None))
    module = type(thing).__module__
    if isinstance(thing, Mapping) and module in ("builtins", "collections"):
        return next(iter(cast("Mapping[object, object]", thing).items()), (0, None))
    return 0, None


def _signature(function: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(function)
    except Exception:  # there is none, or an annotation cannot be evaluated
        return "(...)"
    parameters = [
        each.replace(annotation=_shown(each.annotation, postponed=True), default=_shown(each.default))
        for each in signature.parameters.values()
    ]
    returns = _shown(signature.return_annotation, postponed=True)
    return str(signature.replace(parameters=parameters, return_annotation=returns))


def _shown(given: Any, *, postponed: bool = False) -> Any:
    """Text of a default, or of an annotation, which may be postponed; ``...`` when no expression shows it."""
    if given is inspect.Parameter.empty:
        return given
    with contextlib.suppress(Exception):  # whatever its repr raises, or a parser
        is_text = postponed and isinstance(given, str)
        text: str = given if is_text else inspect.formatannotation(given)
        if isinstance(given, Enum):
            text = f"{type(given).__qualname__}.{given.name}"
        if len(text) <= _LONGEST:
            return SourceText(ast.unparse(ast.parse(text.strip(), mode="eval")))
    return SourceText("...")


def _type(target: object, name: str, value: object) -> str:
    annotations = (_annotations(cls) for cls in type(target).__mro__)
    texts = (str(_shown(each[name], postponed=True)) for each in annotations if name in each)
    return next(texts, _full_name(type(value)))


def _full_name(cls: type) -> str:
    """A class as it is written: ``int``, ``mylab.Channel``."""
    module = cast(object, cls.__module__)
    if cls is NoneType:
        return "None"
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def _documentation(thing: object) -> str:
    """Documentation of something, in text that every serializer takes."""
    text = inspect.getdoc(thing) or ""
    return text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair is no UTF-8


def _annotations(thing: Any) -> Mapping[str, Any]:
    """Annotations as they are; none when they cannot be had."""
    try:
        return inspect.get_annotations(thing)
    except Exception:
        return {}
