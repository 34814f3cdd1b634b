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
from typing import Any, NamedTuple

from ....agents.client.described import About
from ....agents.stubs import declared
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
    try:
        (made,) = ast.parse(f"def f{signature}: pass").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(made, ast.FunctionDef):
        return None
    given = made.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    found = [_argument(each, default) for each, default in zip(plain, defaults, strict=True)]
    if given.vararg is not None:
        found.append(_argument(given.vararg, None)._replace(name=f"*{given.vararg.arg}"))
    found += [_argument(*each) for each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return found[:32]


def _argument(given: ast.arg, default: ast.expr | None) -> Argument:
    kind = given.annotation
    choices: tuple[str, ...] = ()
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value).rpartition(".")[2] == "Literal":
        items = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        choices = tuple(ast.unparse(item) for item in items)
    shown = "" if kind is None else ast.unparse(kind)
    return Argument(given.arg, shown[:80], None if default is None else ast.unparse(default)[:80], choices)


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
