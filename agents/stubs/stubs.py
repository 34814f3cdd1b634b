"""Stub files: what an editor and a type checker are told of a remote instrument.

::

    kind        in the stub
    method      function under `remote_method`: a call with its signature, future, oneway, options;
                a generator gives a `RemoteIterator`
    signal      read-only property of type `RemoteSignal`
    items       property of type `RemoteMapping` or `RemoteSequence`; one of values may be assigned
    reference   read-only property, of a class that is written as well: what is in the served object
    property    property, with a setter when it has one
    value       property with a setter
    remote      `Member`: an original server tells no more

A name that is no member is an error: a class has no base that would allow every name, as `pzc.Proxy` does.
Functions such as `pzc.lock` take an instance of it as they take a proxy.

The table comes from a stranger: names, signatures and types are parsed and built anew, and what is odd
becomes Any or is left out, so that no text of the server runs or stands in the stub as code.
"""

from __future__ import annotations

import ast
import keyword
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, cast

from .known_types import HELPERS, alias_of
from .signatures import literal, parse_expression
from .stub_members import Entry, Writer, docstring
from .stub_types import Types

_HEADER = """\
# What an editor knows of a remote instrument. Written by pzc stubs: write it again rather than edit it.
# Saved as psu.pyi it is used like this, where TYPE_CHECKING and cast come from typing:
#     if TYPE_CHECKING:
#         from psu import {name}
#     psu = cast("{name}", pzc.Proxy("psu"))
# pyright: basic
"""


def stub_text(
    class_name: str,
    table: Mapping[str, Entry],
    doc: str = "",
    types: Mapping[str, Entry] | None = None,
    about: Entry | None = None,
) -> str:
    """Text of a stub file for an object with these members.

    Args:
        class_name: of the served object; what no class can be named is replaced.
        table: members by name, as a server tells them; entries that cannot be used are left out.
        doc: docstring of the class.
        types: of what is in the object: what is told of each class, by its full name.
        about: what is told of the object itself, such as its items.
    """
    name, told = class_name_of(class_name), types or {}
    enums = _enums_of([{**(about or {}), "members": table}, *told.values()])
    classes = _names_of({**told, **enums}, name)
    shadowed = {name, *classes.values(), *table}
    for entry in told.values():
        shadowed.update(_members_of(entry))
    built = Types(shadowed, classes)
    bodies = [_class(Writer(built), name, {**(about or {}), "members": table, "doc": doc})]
    bodies += [
        _enum(built, classes[full], entry) for full, entry in sorted(enums.items()) if full not in told
    ]
    for full, entry in sorted(told.items()):
        if full in classes:
            bodies.append(_class(Writer(built), classes[full], entry))
    modules = sorted(built.modules)
    imports = "\n".join(f"import {module} as {alias_of(module)}" for module in modules)
    return "\n\n".join([_HEADER.format(name=name) + imports, *bodies])


def _class(writer: Writer, name: str, told: Entry) -> str:
    members = _members_of(told)
    parts = [writer.member(key, entry) for key, entry in members.items()]
    if told.get("callable") or (told.get("signature") and "callable" not in told):
        parts.append(writer.call(told))
    if told.get("items") in ("mapping", "sequence"):
        parts += writer.items(told)
    if any(entry.get("kind") == "remote" for entry in members.values()):
        parts.append(writer.anything_else())
    head = ast.ClassDef(
        name, [writer.types.name(f"{HELPERS}.Remote")], [], [docstring(told.get("doc"), 1)], []
    )
    body = "".join(textwrap.indent(f"\n{text}\n", "    ") for text in parts)
    return f"{ast.unparse(ast.fix_missing_locations(head))}\n{body}"


_ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")


def _table(told: object) -> Mapping[object, object]:
    return cast("Mapping[object, object]", told) if isinstance(told, Mapping) else {}


def _enums_of(classes: Iterable[Entry]) -> dict[str, Entry]:
    """What is told of the enums of all members, by their full names."""
    found: dict[str, Entry] = {}
    for told in classes:
        for entry in (told, *_members_of(told).values()):
            for full, each in _table(entry.get("enums")).items():
                if isinstance(full, str) and isinstance(each, Mapping):
                    found[full] = cast("Entry", each)
    return found


def _enum(types: Types, name: str, told: Entry) -> str:
    """An enum with its members; what cannot be one is left out."""
    kind = told.get("enum")
    body: list[ast.stmt] = [docstring(told.get("doc"), 1)]
    for member, text in _table(told.get("values")).items():
        if _is_member(member, {}) and member not in ("mro", "name", "value"):
            value = literal(tree) if (tree := parse_expression(text)) is not None else None
            shown = value if type(value) in (int, str) else ...
            body.append(ast.Assign([ast.Name(str(member))], ast.Constant(shown)))
    base = types.name(f"enum.{kind if kind in _ENUMS else 'Enum'}")
    return ast.unparse(ast.fix_missing_locations(ast.ClassDef(name, [base], [], body, []))) + "\n"


def _names_of(types: Mapping[str, Entry], taken: str) -> dict[str, str]:
    """Names of classes in the stub, by their full names at the server."""
    names: dict[str, str] = {}
    used = {taken}
    for full in sorted(types):
        own = name = class_name_of(full.rpartition(".")[2])
        number = 2
        while name in used:
            name, number = f"{own}{number}", number + 1
        used.add(name)
        names[full] = name
    return names


def _members_of(told: Entry) -> dict[str, Entry]:
    table = told.get("members")
    pairs: Mapping[Any, Any] = cast("Mapping[Any, Any]", table) if isinstance(table, Mapping) else {}
    return {key: pairs[key] for key in sorted(key for key in pairs if _is_member(key, pairs[key]))}


def class_name_of(text: str) -> str:
    """A name that a class can have."""
    name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", text[:100])).lstrip("_")
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"Remote{name.capitalize()}"
    return name if name.isidentifier() and name.isprintable() else "RemoteObject"


def _is_member(name: object, entry: object) -> bool:
    """True for what can be written behind a dot; Python reads names in their NFKC form only."""
    return (
        isinstance(name, str)
        and isinstance(entry, Mapping)
        and name.isidentifier()
        and not name.startswith("_")
        and not keyword.iskeyword(name)
        and unicodedata.normalize("NFKC", name) == name
    )
