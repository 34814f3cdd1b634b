"""Stubs: what an editor and a type checker learn of a remote instrument, and signatures as text.

A server writes signatures and types as text; a reader makes `inspect.Signature` of them and runs nothing. In
a stub a type is that of the annotation where it is made of builtins, else Any; a name that is no member is
an error, and what is declared of a member, such as ``urgent``, ends its docstring. Names and signatures are
parsed and written again, so that no text of a server stands in a stub as code.
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

KINDS = {
    "urgent": "urgent",
    "reading": "reading",
    "concurrent": "concurrent",
    "on_cancel": "on_cancel {}",
    "idempotent": "idempotent",
    "poll": "polled every {} s",
}
"""By key of a member's description, in the order in which they are shown."""

MAX_TEXT = 4000  # characters of a signature; a longer one counts as none

P = ParamSpec("P")
R = TypeVar("R")
Entry = Mapping[str, object]

_MAX_BITS = 4096  # Python refuses to write much larger integers in decimal
_LONGEST_DEFAULT = 60
_ERRORS = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
_KINDS = inspect.Parameter
_PLAIN = ("bool", "bytes", "complex", "float", "int", "str")
_TAKES = {"dict": 2, "frozenset": 1, "list": 1, "set": 1}
_FITS = {"float": "float | int", "complex": "complex | float | int"}
_ANY = "_typing.Any"
_ANY_CALL = f"(self, *args: {_ANY}, **kwargs: {_ANY}) -> {_ANY}"
_ITEMS = f"""\
def __getitem__(self, key: {_ANY}) -> {_ANY}: ...
def __len__(self) -> _builtins.int: ...
def __iter__(self) -> _typing.Iterator[{_ANY}]: ..."""
_ANY_MEMBER = f"""\
def __getattr__(self, name: _builtins.str) -> {_ANY}: ...
def __setattr__(self, name: _builtins.str, value: {_ANY}) -> None: ..."""
_HEADER = """\
# What an editor knows of a remote instrument. Written by pzc stubs: write it again rather than edit it.
# Saved as psu.pyi it is used like this, where TYPE_CHECKING and cast come from typing:
#     if TYPE_CHECKING:
#         from psu import {name}
#     psu = cast("{name}", pzc.Proxy("psu"))
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
    given = [(words, entry[key]) for key, words in KINDS.items() if entry.get(key) not in (None, False)]
    return ", ".join(words.format(_text(value)) for words, value in given)


def _text(given: object) -> str:
    return f"{given:g}" if isinstance(given, float) else plain(str(given))[:100]


class SourceText(str):
    """Source text in place of a value: it shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def parse_expression(text: object) -> ast.expr | None:
    """The expression that a text is; None for anything else. Nothing is evaluated."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except _ERRORS:
        return None
    return expression if _can_be_written(expression) else None


def signature_of(text: object) -> inspect.Signature | None:
    """Signature out of a text such as ``(volts: float, steps: int = 10) -> None``.

    Annotations stay text. A default that is no literal becomes a `SourceText`, which shows itself as
    it was written. Nothing is evaluated or imported, whatever the text is.

    Returns:
        None when the text is no signature, as ``(...)`` of a method whose signature is unknown.
    """
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        (function,) = ast.parse(f"def _{text.strip()}: ...").body
        if not isinstance(function, ast.FunctionDef) or function.name != "_":
            return None
        (only,) = function.body
        if not (ast.unparse(only) == "..." and _can_be_written(function)):
            return None
        return inspect.Signature(_parameters(function.args), return_annotation=_source(function.returns))
    except _ERRORS:
        return None


def _can_be_written(tree: ast.AST) -> bool:
    numbers = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return all(number.bit_length() <= _MAX_BITS for number in numbers if isinstance(number, int))


def _parameters(arguments: ast.arguments) -> list[inspect.Parameter]:
    kinds = [_KINDS.POSITIONAL_ONLY] * len(arguments.posonlyargs)
    kinds += [_KINDS.POSITIONAL_OR_KEYWORD] * len(arguments.args)
    places = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(places) - len(arguments.defaults))
    found = list(map(_parameter, places, kinds, [*missing, *arguments.defaults]))
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, _KINDS.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(argument, _KINDS.KEYWORD_ONLY, default))
    if arguments.kwarg is not None:
        found.append(_parameter(arguments.kwarg, _KINDS.VAR_KEYWORD))
    return found


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None = None) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else _literal(default)
    return inspect.Parameter(argument.arg, kind, default=value, annotation=_source(argument.annotation))


def _literal(node: ast.expr) -> Any:
    """Value of a literal; `SourceText` for any other expression, and for ``...``, which stands for one."""
    try:
        value = ast.literal_eval(node)
    except _ERRORS:
        return _source(node)
    return SourceText("...") if value is ... else value


def _source(node: ast.expr | None) -> Any:
    try:
        return inspect.Signature.empty if node is None else SourceText(ast.unparse(node))
    except RecursionError:
        return SourceText("...")


def stub_text(class_name: str, about: Entry, doc: str = "", types: Mapping[str, Entry] | None = None) -> str:
    """Text of a stub file for an object.

    Args:
        class_name: of the served object; what no class can be named is replaced.
        about: what its server says of it; members that cannot be used are left out.
        doc: docstring of the class.
        types: what is said of each class of what is in the object, by its full name.
    """
    name = class_name_of(class_name)
    names: dict[str, str] = {}
    for full in sorted(types or {}):
        own = class_name_of(full.rpartition(".")[2])
        while own in (name, *names.values()):
            own += "_"
        names[full] = own
    written = [_class(name, {**about, "doc": doc}, names)]
    written += [_class(own, (types or {})[full], names) for full, own in names.items()]
    return "\n\n\n".join([_HEADER.format(name=name), *written]) + "\n"


def _class(name: str, told: Entry, classes: Mapping[str, str]) -> str:
    table = as_table(told.get("members"))
    members: dict[str, Entry] = {key: table[key] for key in sorted(filter(_is_member, table))}
    parts = [_docstring(told.get("doc"))]
    parts += [_member(key, entry, members, classes) for key, entry in members.items()]
    if told.get("callable") or (told.get("signature") and "callable" not in told):
        parts.append(_function("__call__", _signature(told.get("signature"), members), told))
    if told.get("items") in ("mapping", "sequence"):
        parts.append(_ITEMS)
    if any(entry.get("kind") == "remote" for entry in members.values()):  # an original server says no more
        parts.append(_ANY_MEMBER)
    return "\n\n".join([f"class {name}(_remote.Remote):", *(textwrap.indent(part, "    ") for part in parts)])


def _member(name: str, entry: Entry, hidden: Mapping[str, Entry], classes: Mapping[str, str]) -> str:
    kind, type_ = entry.get("kind"), _ANY
    if kind == "method":
        signature = _signature(entry.get("signature"), hidden)
        return f"@_remote.RemoteMethod\n{_function(name, signature, entry)}"
    if kind == "reference":
        type_ = classes.get(str(entry.get("type")), _ANY)
        type_ = _ANY if type_ in hidden else type_
    elif kind in ("property", "value") and entry.get("type") != "None":
        type_ = _type(entry.get("type"), hidden)
    written = f"@_builtins.property\n{_function(name, f'(self) -> {type_}', entry)}"
    if kind in ("items", "value") or (kind == "property" and entry.get("writable") is True):
        written += f"\n\n@{name}.setter\ndef {name}(self, value: {type_}) -> None: ..."
    return written


def _function(name: str, signature: str, entry: Entry) -> str:
    said, doc = declared(entry), entry.get("doc")
    parts = filter(None, [doc.strip() if isinstance(doc, str) else "", f"({said})" if said else ""])
    return f"def {name}{signature}:\n" + textwrap.indent(_docstring("\n\n".join(parts)), "    ")


def _docstring(doc: object) -> str:
    """A docstring, to be indented; ``...`` when there is none."""
    text = "\n".join(map(str.rstrip, doc.strip().split("\n"))) if isinstance(doc, str) else ""
    return ast.unparse(ast.Module([ast.Expr(ast.Constant(text or ...))], []))


def _signature(text: object, hidden: Mapping[str, Entry]) -> str:
    """Signature of a method in a stub; any call where the server's text is odd."""
    told = signature_of(text)
    if told is None or any(name.startswith("__") for name in told.parameters):
        return _ANY_CALL
    found = [_typed(each, hidden) for each in told.parameters.values()]
    kind = min([_KINDS.POSITIONAL_OR_KEYWORD, *(each.kind for each in found)])
    myself = inspect.Parameter("_self" if "self" in told.parameters else "self", kind)
    try:
        returns = SourceText(_type(told.return_annotation, hidden))
        return str(inspect.Signature([myself, *found], return_annotation=returns))
    except ValueError:
        return _ANY_CALL


def _typed(parameter: inspect.Parameter, hidden: Mapping[str, Entry]) -> inspect.Parameter:
    """A parameter whose default fits its type, as every checker asks for."""
    type_, default = _type(parameter.annotation, hidden), parameter.default
    if default is None and not type_.endswith(("None", _ANY)):
        type_ = f"{type_} | None"
    elif default is not None and default is not inspect.Parameter.empty:
        fits = type(default).__name__ in (_PLAIN if type_ == _ANY else _FITS.get(type_, type_).split(" | "))
        if not fits or len(repr(default)) > _LONGEST_DEFAULT or repr(default) in ("inf", "-inf"):
            default = SourceText("...")
    return parameter.replace(annotation=SourceText(type_), default=default)


def _type(text: object, hidden: Mapping[str, Entry]) -> str:
    """Type out of an annotation, made of builtins that no member hides; else Any."""
    tree = parse_expression(text)
    return _ANY if tree is None or not _is_builtin(tree, hidden) else ast.unparse(tree)


def _is_builtin(node: ast.expr, hidden: Mapping[str, Entry]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.Name):
        return node.id not in hidden and (node.id in _PLAIN or node.id in _TAKES)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_builtin(node.left, hidden) and _is_builtin(node.right, hidden)
    if not isinstance(node, ast.Subscript) or not _is_builtin(node.value, hidden):
        return False
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return _TAKES.get(ast.unparse(node.value)) == len(inner) and all(_is_builtin(i, hidden) for i in inner)


def class_name_of(text: str) -> str:
    """A name that a class can have."""
    name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", text[:100])).lstrip("_")
    if not name.isidentifier() or keyword.iskeyword(name) or name in _PLAIN or name in _TAKES:
        name = f"Remote{name.capitalize()}"
    return name if name.isidentifier() and name.isprintable() else "RemoteObject"


def _is_member(name: object) -> bool:
    """True for what can be written behind a dot; Python reads names in their NFKC form only."""
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        return False
    return not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name
