"""A panel: the controls of one instrument, out of what its server tells of it. Pure.

::

    told as                     control
    property, value             value: text, unit, range; an input where it is writable
    method                      method: a button, an input per argument; urgent ones are red
    signal                      signal: its newest value, and a plot
    reference, items, remote    folder: asked for when it is opened
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, NamedTuple

from ....agents import About, declared, signature_of
from ....protocol.paths import Path, text
from ..live import range_of, unit_of
from ..watched import short

MOST = 300
"""Controls of one panel; how many more there are is told."""

DOC = 1000
"""Characters of documentation."""

_FOLDERS = ("reference", "items", "remote")


class Argument(NamedTuple):
    """One argument of a method.

    Attributes:
        name: of it; with stars for those that take the rest.
        type: as text; empty when it is not told.
        default: as text; None when it is needed.
        choices: as text; empty when anything may be given.
    """

    name: str
    type: str
    default: str | None
    choices: tuple[str, ...]


def arguments_of(signature: str) -> list[Argument] | None:
    """The arguments that a signature tells; None for one that cannot be read."""
    told = signature_of(signature)
    if told is None:
        return None
    given = [each for each in told.parameters.values() if each.kind is not each.VAR_KEYWORD]
    return [_argument(each) for each in given[:32]]


def _argument(given: Parameter) -> Argument:
    name = f"*{given.name}" if given.kind is given.VAR_POSITIONAL else given.name
    shown = "" if given.annotation is given.empty else str(given.annotation)
    kind = ast.parse(shown, mode="eval").body if shown.partition("[")[0].endswith("Literal") else None
    choices: tuple[str, ...] = ()
    if isinstance(kind, ast.Subscript):
        items = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        choices = tuple(ast.unparse(item) for item in items)
    default = None if given.default is given.empty else repr(given.default)[:80]
    return Argument(name, shown[:80], default, choices)


def panel_of(about: About, path: Path) -> dict[str, Any]:
    """The panel of something that is served.

    Args:
        about: what is told of it.
        path: from what is served.
    """
    members = sorted(about.members.items(), key=lambda each: (not each[1].get("urgent"), each[0]))
    controls = [_control(name, entry, path) for name, entry in members if not name.startswith("_")]
    return {
        "path": text(path) if path else "", "type": short(about.type), "doc": about.doc[:DOC],
        "items": short(about.items), "controls": controls[:MOST], "more": max(0, len(controls) - MOST),
    }  # fmt: skip


def _control(name: str, entry: Mapping[str, Any], path: Path) -> dict[str, Any]:
    kind, doc = str(entry.get("kind", "")), str(entry.get("doc") or "")[:DOC]
    control: dict[str, Any] = {
        "name": short(name), "path": text((*path, name)), "doc": doc, "type": short(entry.get("type")),
        "kind": kind, "urgent": bool(entry.get("urgent")), "declared": declared(entry),
    }  # fmt: skip
    if kind in _FOLDERS:
        return {**control, "kind": "folder"}
    if kind == "method":
        signature = short(entry.get("signature"), 500)
        arguments = arguments_of(signature)
        told = None if arguments is None else [each._asdict() for each in arguments]
        return {**control, "signature": signature, "arguments": told}
    if kind != "signal":
        bounds = range_of(doc)
        control |= {
            "kind": "value", "unit": unit_of(doc), "range": None if bounds is None else list(bounds),
            "writable": entry.get("writable") is not False,
        }  # fmt: skip
    return control


def readable(panel: Mapping[str, Any]) -> list[str]:
    """Paths of the values of a panel."""
    return [control["path"] for control in panel["controls"] if control["kind"] == "value"]
