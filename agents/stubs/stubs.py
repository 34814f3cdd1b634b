"""Stub files: what an editor and a type checker are told of a remote instrument.

::

    kind        in the stub
    method      function under `remote_method`: a call with its signature, future, oneway, options;
                a generator gives a `RemoteIterator`
    signal      read-only property of type `RemoteSignal`
    items       property of type `RemoteMapping` or `RemoteSequence`; a mapping or sequence may be assigned
    property    property, with a setter when it has one
    value       property with a setter
    remote      `RemoteAttribute`: an original server tells no more

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
from collections.abc import Mapping
from typing import Any, cast

from ..calling.proxy import Proxy
from .known_types import HELPERS, alias_of
from .signatures import SourceText, literal, parse_expression, parse_signature
from .stub_types import Names, Types

_HEADER = """\
# What an editor knows of a remote instrument. Written by pzc stubs: write it again rather than edit it.
# Saved as psu.pyi it is used like this, where TYPE_CHECKING and cast come from typing:
#     if TYPE_CHECKING:
#         from psu import {name}
#     psu = cast("{name}", pzc.Proxy("psu"))
# pyright: basic
"""
_WIDER = {"float": (int, float), "complex": (int, float, complex)}
_LONGEST_DEFAULT = 60
_NO_BODY = "\n    ..."

Entry = Mapping[str, object]


def stubs(proxy: Proxy) -> str:
    """Text of a stub file (``.pyi``) for the object behind a proxy.

    Args:
        proxy: of a server; one of an original Pizco tells less.

    Raises:
        CallTimeout, PeerLost: as `Agent.request`, when the server has been replaced.
    """
    remote = proxy._proxy_remote  # pyright: ignore[reportPrivateUsage]
    remote.member("")  # reads the table again when another server is there now
    serves = remote.agent.peer(remote.endpoint, remote.timeout).details.get("serves")
    name = serves if isinstance(serves, str) else "RemoteObject"
    return stub_text(name, remote.table, f"{name} as {remote.target} serves it.")


def stub_text(class_name: str, table: Mapping[str, Entry], doc: str = "") -> str:
    """Text of a stub file for an object with these members.

    Args:
        class_name: of the served object; what no class can be named is replaced.
        table: members by name, as a server tells them; entries that cannot be used are left out.
        doc: docstring of the class.
    """
    name = _class_name(class_name)
    members = {key: table[key] for key in sorted(key for key in table if _is_member(key, table[key]))}
    writer = _Writer(Types({*members, name}))
    told = [writer.member(key, entry) for key, entry in members.items()]
    if all(entry.get("kind") != "remote" for entry in members.values()):
        told.append(writer.nothing_else())
    bases = [writer.types.name("pzc.Proxy")]
    head = ast.ClassDef(name, bases, [], [_docstring(doc, 1), *writer.enter()], [])
    modules = sorted(writer.types.modules)
    parts = [
        _HEADER.format(name=name),
        "\n".join(f"import {module} as {alias_of(module)}" for module in modules),
        f"\n\n{ast.unparse(ast.fix_missing_locations(head))}\n",
        *(textwrap.indent(f"\n{text}\n", "    ") for text in told),
    ]
    return "".join(parts)


def _class_name(text: str) -> str:
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


def _docstring(doc: object, depth: int) -> ast.stmt:
    """A docstring whose lines stand under its first one; ``...`` when there is none."""
    text = doc.strip() if isinstance(doc, str) else ""
    if not text:
        return ast.Expr(ast.Constant(...))
    text = text.replace("\n", "\n" + "    " * depth)
    return ast.Expr(ast.Constant(re.sub(r"[ \t]+\n", "\n", text)))


class _Writer:
    """Writes members; ``types`` gathers what the stub imports."""

    def __init__(self, types: Types) -> None:
        self.types = types

    def member(self, name: str, entry: Entry) -> str:
        kind, names = entry.get("kind"), _names(entry)
        if kind == "method":
            return _text(self._method(name, entry, names))
        if kind == "signal":
            return self._property(name, entry, self.types.name(f"{HELPERS}.RemoteSignal"))
        if kind == "remote":
            return self._property(name, entry, self.types.name("pzc.RemoteAttribute"))
        if kind == "items":
            return self._items(name, entry, names)
        unset = kind == "value" and entry.get("type") == "None"
        type_ = self.types.read(None if unset else parse_expression(entry.get("type")), names)
        read_only = kind == "property" and entry.get("writable") is not True
        return self._property(name, entry, type_, None if read_only else type_)

    def _items(self, name: str, entry: Entry, names: Names) -> str:
        kind, count = ("Mapping", 2) if entry.get("mapping") is True else ("Sequence", 1)
        inner = self.types.arguments(parse_expression(entry.get("type")), names, count)
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

    def _method(self, name: str, entry: Entry, names: Names) -> ast.FunctionDef:
        parsed = parse_signature(entry.get("signature"))
        arguments = None if parsed is None else self._arguments(parsed.args, names)
        returns = None if parsed is None or arguments is None else parsed.returns
        if entry.get("stream") is True:
            result = self.types.generic(f"{HELPERS}.RemoteIterator", self.types.stream(returns, names))
        else:
            result = self.types.read(returns, names)
        decorator = self.types.name(f"{HELPERS}.remote_method")
        function = _function(name, [], result, [decorator], entry.get("doc"))
        function.args = arguments or self._any_arguments()
        return function

    def _any_arguments(self) -> ast.arguments:
        args, kwargs = ast.arg("args", self.types.any()), ast.arg("kwargs", self.types.any())
        return ast.arguments([], [ast.arg("self")], args, [], [], kwargs, [])

    def _arguments(self, told: ast.arguments, names: Names) -> ast.arguments | None:
        """Parameters behind a first one for the object; None when they are odd."""
        everyone = [*told.posonlyargs, *told.args, *told.kwonlyargs, told.vararg, told.kwarg]
        used = [each.arg for each in everyone if each is not None]
        if len(set(used)) < len(used) or any(name.startswith("__") for name in used):
            return None
        positional = [*told.posonlyargs, *told.args]
        missing: list[ast.expr | None] = [None] * (len(positional) - len(told.defaults))
        made = [
            self._parameter(argument, default, names)
            for argument, default in zip(positional, [*missing, *told.defaults], strict=True)
        ]
        only = [self._parameter(a, d, names) for a, d in zip(told.kwonlyargs, told.kw_defaults, strict=True)]
        count = len(told.posonlyargs)
        myself = [ast.arg("_self" if "self" in used else "self")]
        by_position, either = (
            [argument for argument, _ in made[:count]],
            [argument for argument, _ in made[count:]],
        )
        return ast.arguments(
            [*myself, *by_position] if count else [],
            either if count else [*myself, *either],
            told.vararg and self._parameter(told.vararg, None, names)[0],
            [argument for argument, _ in only],
            [default for _, default in only],
            told.kwarg and self._parameter(told.kwarg, None, names)[0],
            [default for _, default in made if default is not None],
        )

    def _parameter(
        self, argument: ast.arg, default: ast.expr | None, names: Names
    ) -> tuple[ast.arg, ast.expr | None]:
        annotation = self.types.read(argument.annotation, names)
        if default is None:
            return ast.arg(argument.arg, annotation), None
        value = literal(default)
        if value is None and not _allows_none(annotation):
            annotation = self.types.union(annotation, ast.Constant(None))
        shown = value is None or (_fits(value, annotation) and len(repr(value)) <= _LONGEST_DEFAULT)
        return ast.arg(argument.arg, annotation), ast.Constant(value if shown else ...)

    def enter(self) -> list[ast.stmt]:
        """``with`` gives the same type; the base class could only promise a Proxy."""
        return [_function("__enter__", [ast.arg("self")], self.types.name("typing.Self"), [])]

    def nothing_else(self) -> str:
        """A name that is no member is an error, where the base class allows every name."""
        myself, never = ast.arg("self"), self.types.name("typing.Never")
        get = _function("__getattr__", [myself, ast.arg("name", never)], never, [])
        arguments = [myself, ast.arg("name", never), ast.arg("value", never)]
        return f"{_text(get)}\n{_text(_function('__setattr__', arguments, ast.Constant(None), []))}"


def _names(entry: Entry) -> Names:
    told = entry.get("names")
    pairs = cast("Mapping[object, object]", told).items() if isinstance(told, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}


def _function(
    name: str, arguments: list[ast.arg], returns: ast.expr, decorators: list[ast.expr], doc: object = ""
) -> ast.FunctionDef:
    parameters = ast.arguments([], arguments, None, [], [], None, [])
    return ast.FunctionDef(name, parameters, [_docstring(doc, 1)], decorators, returns)


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
