"""Members of a class in a stub file, written out of what a server tells of them; see `stubs`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import Any, cast

from .known_types import HELPERS
from .signatures import SourceText, literal, parse_expression, parse_signature, positional
from .stub_types import Names, Types

_WIDER = {"float": (int, float), "complex": (int, float, complex)}
_LONGEST_DEFAULT = 60
_NO_BODY = "\n    ..."

Entry = Mapping[str, object]


def docstring(doc: object, depth: int) -> ast.stmt:
    """A docstring whose lines stand under its first one; ``...`` when there is none."""
    text = doc.strip() if isinstance(doc, str) else ""
    if not text:
        return ast.Expr(ast.Constant(...))
    text = text.replace("\n", "\n" + "    " * depth)
    return ast.Expr(ast.Constant(re.sub(r"[ \t]+\n", "\n", text)))


class Writer:
    """Writes members; ``types`` gathers what the stub imports."""

    def __init__(self, types: Types) -> None:
        self.types = types

    def member(self, name: str, entry: Entry) -> str:
        """One member."""
        kind, names = entry.get("kind"), _names(entry)
        if kind == "method":
            return _text(self._method(name, entry, names))
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

    def _method(self, name: str, entry: Entry, names: Names) -> ast.FunctionDef:
        return self.signed(name, entry, names, [self.types.name(f"{HELPERS}.remote_method")])

    def signed(self, name: str, entry: Entry, names: Names, decorators: list[ast.expr]) -> ast.FunctionDef:
        """A function with the signature that the server tells."""
        parsed = parse_signature(entry.get("signature"))
        arguments = None if parsed is None else self._arguments(parsed.args, names)
        returns = None if parsed is None or arguments is None else parsed.returns
        if entry.get("stream") is True:
            result = self.types.generic(f"{HELPERS}.RemoteIterator", self.types.stream(returns, names))
        else:
            result = self.types.read(returns, names)
        function = _function(name, [], result, decorators, entry.get("doc"))
        function.args = arguments or self._any_arguments()
        return function

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

    def call(self, entry: Entry) -> str:
        """``__call__`` of something that can be called and has members."""
        return _text(self.signed("__call__", entry, _names(entry), []))

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
    told = entry.get("names")
    pairs = cast("Mapping[object, object]", told).items() if isinstance(told, Mapping) else ()
    return {key: value for key, value in pairs if isinstance(key, str) and isinstance(value, str)}


def _function(
    name: str, arguments: list[ast.arg], returns: ast.expr, decorators: list[ast.expr], doc: object = ""
) -> ast.FunctionDef:
    parameters = ast.arguments([], arguments, None, [], [], None, [])
    return ast.FunctionDef(name, parameters, [docstring(doc, 1)], decorators, returns)


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
