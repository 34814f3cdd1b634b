"""Stubs: what an editor and a type checker learn of a remote instrument; and signatures as text.

A server sends signatures as text. Here `ast` parses them and writes them again: nothing of them runs, and no
text of a server becomes code of a stub. Of types a stub keeps plain builtins; all others are Any. What is
declared of a member, such as ``urgent``, ends its docstring.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
import textwrap
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ..protocol.contents import as_table
from ..protocol.shown import plain

MAX_TEXT = 4000  # characters of a signature; a longer one counts as none

P = ParamSpec("P")
R = TypeVar("R")
Entry = Mapping[str, object]

_DECLARED = {
    "urgent": "urgent", "reading": "reading", "concurrent": "concurrent", "on_cancel": "on_cancel {}",
    "idempotent": "idempotent", "poll": "polled every {} s",
}  # fmt: skip
_ERRORS = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
_PLAIN = ("bool", "bytes", "complex", "float", "int", "str")
_ANY = "_typing.Any"
_ITEMS = f"""\
def __getitem__(self, key: {_ANY}) -> {_ANY}: ...
def __len__(self) -> _builtins.int: ...
def __iter__(self) -> _typing.Iterator[{_ANY}]: ..."""
_ANY_MEMBER = f"""\
def __getattr__(self, name: _builtins.str) -> {_ANY}: ...
def __setattr__(self, name: _builtins.str, value: {_ANY}) -> None: ..."""
_HEADER = """\
# Written by pzc stubs: write it again rather than edit it. Saved as psu.pyi it is used like this:
#     if typing.TYPE_CHECKING:
#         from psu import {name}
#     psu = typing.cast("{name}", pzc.Proxy("psu"))
# pyright: basic
import builtins as _builtins
import typing as _typing
import pzc.agents.stub as _remote"""


class Remote:
    """Base of the classes of a stub file, for which a `pzc.Proxy` stands or what was reached through one."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class RemoteMethod(Generic[P, R]):
    """Decorator in a stub file: a method of a remote object, with its signature."""

    future: Callable[P, Any]
    oneway: Callable[P, None]
    options: Callable[..., RemoteMethod[P, R]]

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...  # noqa: D102 - as the class says


def declared(entry: Entry) -> str:
    """What is declared of a member, such as ``reading, on_cancel stop``; empty when nothing is."""
    given = [(words, entry[key]) for key, words in _DECLARED.items() if entry.get(key) not in (None, False)]
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for _, value in given]
    return ", ".join(words.format(plain(text)[:100]) for (words, _), text in zip(given, texts, strict=True))


class SourceText(str):
    """Source text in place of a value: it shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def signature_of(text: object) -> inspect.Signature | None:
    """Signature out of a text such as ``(volts: float, steps: int = 10) -> None``; None for what is none.

    Annotations stay text, and so do defaults that are no literals. Nothing is evaluated or imported.
    """
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        (function,) = ast.parse(f"def _{text.strip()}: ...").body
        if not isinstance(function, ast.FunctionDef) or [*map(ast.unparse, function.body)] != ["..."]:
            return None
        given, kinds = function.args, inspect.Parameter
        places = [*given.posonlyargs, *given.args]
        defaults = dict(zip(reversed(places), reversed(given.defaults), strict=False))
        defaults |= dict(zip(given.kwonlyargs, given.kw_defaults, strict=True))
        rows = [
            (kinds.POSITIONAL_ONLY, given.posonlyargs), (kinds.POSITIONAL_OR_KEYWORD, given.args),
            (kinds.VAR_POSITIONAL, [given.vararg]), (kinds.KEYWORD_ONLY, given.kwonlyargs),
            (kinds.VAR_KEYWORD, [given.kwarg]),
        ]  # fmt: skip
        parameters = [
            kinds(one.arg, kind, default=_value(defaults.get(one)), annotation=_source(one.annotation))
            for kind, arguments in rows
            for one in arguments
            if one is not None
        ]
        return inspect.Signature(parameters, return_annotation=_source(function.returns))
    except _ERRORS:
        return None


def _source(node: ast.expr | None) -> Any:
    return inspect.Parameter.empty if node is None else SourceText(ast.unparse(node))


def _value(node: ast.expr | None) -> Any:
    source = _source(node)
    try:
        return source if source == "..." else ast.literal_eval(source)
    except _ERRORS:
        return source


def stub_text(class_name: str, about: Entry, types: Mapping[str, Entry]) -> str:
    """Text of a stub file for an object.

    Args:
        class_name: of the served object; what no class can be named is replaced.
        about: what its server says of it; members that cannot be used are left out.
        types: what is said of each class of what is in the object, by its full name.
    """
    told, names = {**types, "": about}, dict[str, str]()
    for full in sorted(told):
        own = _class_name(full.rpartition(".")[2] if full else class_name)
        while own in names.values():
            own += "_"
        names[full] = own
    written = [_class(own, told[full], names) for full, own in names.items()]
    return "\n\n\n".join([_HEADER.format(name=names[""]), *written]) + "\n"


def _class(name: str, told: Entry, classes: Mapping[str, str]) -> str:
    table = as_table(told.get("members"))
    members: dict[str, Entry] = {key: table[key] for key in sorted(filter(_is_name, table))}
    free = {full: own for full, own in classes.items() if own not in members}
    parts = [_docstring(told.get("doc")), *(_member(key, entry, free) for key, entry in members.items())]
    if told.get("callable") or (told.get("signature") and "callable" not in told):
        parts.append(_function("__call__", _signature(told.get("signature")), told))
    if told.get("items") in ("mapping", "sequence"):
        parts.append(_ITEMS)
    if any(
        entry.get("kind") == "remote" for entry in members.values()
    ):  # a server that is not native says no more
        parts.append(_ANY_MEMBER)
    return f"class {name}(_remote.Remote):\n" + textwrap.indent("\n\n".join(parts), "    ")


def _member(name: str, entry: Entry, classes: Mapping[str, str]) -> str:
    kind, told = entry.get("kind"), entry.get("type")
    if kind == "method":
        return f"@_remote.RemoteMethod\n{_function(name, _signature(entry.get('signature')), entry)}"
    type_ = classes.get(str(told), _ANY) if kind == "reference" else _type(told)
    written = f"@_builtins.property\n{_function(name, f'(self) -> {type_}', entry)}"
    if kind in ("items", "value") or (kind == "property" and entry.get("writable") is True):
        written += f"\n\n@{name}.setter\ndef {name}(self, value: {type_}) -> None: ..."
    return written


def _function(name: str, signature: str, entry: Entry) -> str:
    said, doc = declared(entry), str(entry.get("doc") or "").strip()
    text = _docstring("\n\n".join(filter(None, [doc, f"({said})" if said else ""])))
    return f"def {name}{signature}:\n" + textwrap.indent(text, "    ")


def _signature(text: object) -> str:
    """Signature of a method in a stub; any call where the server's text is odd."""
    told = signature_of(text)
    if told is None or any(name.startswith("__") for name in told.parameters):
        return f"(self, *args: {_ANY}, **kwargs: {_ANY}) -> {_ANY}"
    found = [
        each.replace(
            annotation=_type(each.annotation),
            default=each.empty if each.default is each.empty else SourceText("..."),
        )
        for each in told.parameters.values()
    ]
    kind = min([inspect.Parameter.POSITIONAL_OR_KEYWORD, *(each.kind for each in found)])
    myself = inspect.Parameter("_self" if "self" in told.parameters else "self", kind)
    returns = "None" if told.return_annotation == "None" else _type(told.return_annotation)
    return str(inspect.Signature([myself, *found], return_annotation=SourceText(returns)))


def _docstring(doc: object) -> str:
    """A docstring, to be indented; ``...`` when there is none."""
    text = "\n".join(map(str.rstrip, doc.strip().split("\n"))) if isinstance(doc, str) else ""
    return ast.unparse(ast.Module([ast.Expr(ast.Constant(text or ...))], []))


def _type(told: object) -> SourceText:
    """A plain builtin, whatever a member is called; else Any."""
    return SourceText(f"_builtins.{told}" if isinstance(told, str) and told in _PLAIN else _ANY)


def _class_name(text: str) -> str:
    name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", text[:100])).lstrip("_")
    return name if _is_name(name) else "RemoteObject"


def _is_name(name: object) -> bool:
    """True for a public name; Python reads names in their NFKC form only."""
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_") or not name.isprintable():
        return False
    return not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name
