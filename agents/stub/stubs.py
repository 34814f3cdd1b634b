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

What is declared of a member, such as ``urgent``, ends its docstring.

A name that is no member is an error: a class has no base that would allow every name, as `pzc.Proxy` does.
Functions such as `pzc.lock` take an instance of it as they take a proxy.

The table comes from a stranger: names, signatures and types are parsed and built anew, and what is odd
becomes Any or is left out, so that no text of the server runs or stands in the stub as code.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...protocol.contents import is_word
from .kinds import declared
from .signatures import SourceText, literal, parse_expression, parse_signature, positional
from .stub_types import HELPERS, Names, Types, alias_of

_WIDER = {"float": (int, float), "complex": (int, float, complex)}
_LONGEST_DEFAULT = 60
_NO_BODY = "\n    ..."

Entry = Mapping[str, object]


def docstring(doc: object) -> ast.stmt:
    """A docstring whose lines stand under its first one; ``...`` when there is none."""
    text = doc.strip() if isinstance(doc, str) else ""
    if not text:
        return ast.Expr(ast.Constant(...))
    lines = [line.rstrip(" \t") for line in text.split("\n")]
    return ast.Expr(
        ast.Constant("\n".join([lines[0], *(f"    {line}" if line else "" for line in lines[1:])]))
    )


class Writer:
    """Writes members; ``types`` gathers what the stub imports."""

    def __init__(self, types: Types) -> None:
        self.types = types

    def member(self, name: str, entry: Entry) -> str:
        """One member."""
        if said := declared(entry):
            entry = {
                **entry,
                "doc": "\n\n".join(filter(None, [str(entry.get("doc") or "").strip(), f"({said})"])),
            }
        kind, names = entry.get("kind"), _names(entry)
        if kind == "method":
            return self.signed(name, entry, self.types.name(f"{HELPERS}.remote_method"))
        if kind == "signal":
            return self._property(name, entry, self.types.name(f"{HELPERS}.RemoteSignal"))
        if kind == "remote":
            return self._property(name, entry, self.types.name("pzc.Member"))
        if kind == "items":
            return self._items(name, entry, names)
        if kind == "reference":
            return self._property(name, entry, self.types.remote(entry.get("type")) or self.types.any())
        unset = kind == "value" and entry.get("type") == "None"
        type_ = self.types.read(None if unset else parse_expression(entry.get("type")), names)
        read_only = kind == "property" and entry.get("writable") is not True
        return self._property(name, entry, type_, None if read_only else type_)

    def _items(self, name: str, entry: Entry, names: Names) -> str:
        kind, count = ("Mapping", 2) if entry.get("mapping") is True else ("Sequence", 1)
        inner = self.types.arguments(parse_expression(entry.get("type")), names, count)
        if entry.get("item") is not None:
            got = self.types.generic(f"{HELPERS}.Remote{kind}", *inner[:-1], self.item(entry))
            return self._property(name, entry, got)
        assigned = self.types.generic(f"collections.abc.{kind}", *inner)
        return self._property(name, entry, self.types.generic(f"{HELPERS}.Remote{kind}", *inner), assigned)

    def _property(self, name: str, entry: Entry, got: ast.expr, assigned: ast.expr | None = None) -> str:
        myself = ast.arg("self")
        getter = _function(name, [myself], got, [self.types.name("builtins.property")], entry.get("doc"))
        if assigned is None:
            return _text(getter)
        value = ast.arg("value", assigned)
        decorator = ast.Attribute(ast.Name(name), "setter")
        return f"{_text(getter)}\n{_text(_function(name, [myself, value], ast.Constant(None), [decorator]))}"

    def signed(self, name: str, entry: Entry, *decorators: ast.expr) -> str:
        """A function with the signature that the server tells."""
        names = _names(entry)
        parsed = parse_signature(entry.get("signature"))
        arguments = None if parsed is None else self._arguments(parsed.args, names)
        returns = None if parsed is None or arguments is None else parsed.returns
        if entry.get("stream") is True:
            result = self.types.generic(f"{HELPERS}.RemoteIterator", self.types.stream(returns, names))
        else:
            result = self.types.read(returns, names)
        function = _function(name, [], result, [*decorators], entry.get("doc"))
        function.args = arguments or self._any_arguments()
        return _text(function)

    def _any_arguments(self) -> ast.arguments:
        args, kwargs = ast.arg("args", self.types.any()), ast.arg("kwargs", self.types.any())
        return ast.arguments([], [ast.arg("self")], args, [], [], kwargs, [])

    def _arguments(self, told: ast.arguments, names: Names) -> ast.arguments | None:
        """The same parameters behind a first one for the object; None when they are odd."""
        everyone = [*told.posonlyargs, *told.args, *told.kwonlyargs, told.vararg, told.kwarg]
        used = [each.arg for each in everyone if each is not None]
        if len(set(used)) < len(used) or any(name.startswith("__") for name in used):
            return None
        told.defaults = [shown for pair in positional(told) if (shown := self._annotate(*pair, names))]
        told.kw_defaults = [
            self._annotate(*pair, names) for pair in zip(told.kwonlyargs, told.kw_defaults, strict=True)
        ]
        for several in filter(None, (told.vararg, told.kwarg)):
            self._annotate(several, None, names)
        (told.posonlyargs or told.args).insert(0, ast.arg("_self" if "self" in used else "self"))
        return told

    def _annotate(self, argument: ast.arg, default: ast.expr | None, names: Names) -> ast.expr | None:
        """Give a parameter its annotation in the stub; its default there."""
        argument.annotation = annotation = self.types.read(argument.annotation, names)
        if default is None:
            return None
        value = literal(default)
        if value is None and not _allows_none(annotation):
            argument.annotation = self.types.union(annotation, ast.Constant(None))
        shown = value is None or (_fits(value, annotation) and len(repr(value)) <= _LONGEST_DEFAULT)
        return ast.Constant(value if shown else ...)

    def anything_else(self) -> str:
        """Every name may be a member, of an object whose server does not tell what there is."""
        myself, any_ = ast.arg("self"), self.types.any()
        name = ast.arg("name", self.types.name("builtins.str"))
        get = _function("__getattr__", [myself, name], any_, [])
        arguments = [myself, name, ast.arg("value", any_)]
        return f"{_text(get)}\n{_text(_function('__setattr__', arguments, ast.Constant(None), []))}"

    def items(self, entry: Entry) -> list[str]:
        """What ``[]``, ``len`` and ``for`` give of something that has items."""
        myself, any_, item = ast.arg("self"), self.types.any(), self.item(entry)
        each = any_ if entry.get("items") == "mapping" else item
        iterator = self.types.generic("collections.abc.Iterator", each)
        return [
            _text(_function("__getitem__", [myself, ast.arg("key", any_)], item, [])),
            _text(_function("__len__", [myself], self.types.name("builtins.int"), [])),
            _text(_function("__iter__", [myself], iterator, [])),
        ]

    def item(self, entry: Entry) -> ast.expr:
        """Type of the items that stay at the server; Any for others."""
        return self.types.remote(entry.get("item")) or self.types.any()


def _names(entry: Entry) -> Names:
    pairs = _table(entry.get("names"))
    return {key: value for key, value in pairs.items() if isinstance(key, str) and isinstance(value, str)}


def _function(
    name: str, arguments: list[ast.arg], returns: ast.expr, decorators: list[ast.expr], doc: object = ""
) -> ast.FunctionDef:
    parameters = ast.arguments([], arguments, None, [], [], None, [])
    return ast.FunctionDef(name, parameters, [docstring(doc)], decorators, returns)


def _text(function: ast.FunctionDef) -> str:
    text = ast.unparse(ast.fix_missing_locations(function))
    return f"{text.removesuffix(_NO_BODY)} ..." if text.endswith(_NO_BODY) else text


def _allows_none(annotation: ast.expr) -> bool:
    last = annotation
    while isinstance(last, ast.BinOp):
        if _allows_none(last.right):
            return True
        last = last.left
    is_any = isinstance(last, ast.Attribute) and last.attr == "Any"
    return is_any or (isinstance(last, ast.Constant) and last.value is None)


def _fits(value: Any, annotation: ast.expr) -> bool:
    """True when a default may stand in the stub: a type checker must not find fault with it."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if isinstance(value, SourceText) or type(value) not in (str, bytes, int, float, bool):
        return False
    if isinstance(annotation, ast.Name):
        return isinstance(value, _WIDER.get(annotation.id, ())) or type(value).__name__ == annotation.id
    return isinstance(annotation, ast.Attribute) and annotation.attr == "Any"


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
        parts.append(writer.signed("__call__", told))
    if told.get("items") in ("mapping", "sequence"):
        parts += writer.items(told)
    if any(entry.get("kind") == "remote" for entry in members.values()):
        parts.append(writer.anything_else())
    head = ast.ClassDef(name, [writer.types.name(f"{HELPERS}.Remote")], [], [docstring(told.get("doc"))], [])
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
    kind = next((each for each in _ENUMS if is_word(told.get("enum"), each)), "Enum")
    body: list[ast.stmt] = [docstring(told.get("doc"))]
    for member, text in _table(told.get("values")).items():
        if _is_member(member, {}) and member not in ("mro", "name", "value"):
            value = literal(tree) if (tree := parse_expression(text)) is not None else None
            shown = value if type(value) in (int, str) else ...
            body.append(ast.Assign([ast.Name(str(member))], ast.Constant(shown)))
    base = types.name(f"enum.{kind}")
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
    pairs: Mapping[Any, Any] = _table(told.get("members"))
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
