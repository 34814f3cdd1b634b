"""Signatures as text: a server writes them, a reader makes `inspect.Signature` of them and runs nothing."""

from __future__ import annotations

import ast
import inspect
from typing import Any

MAX_TEXT = 4000
"""Characters of a signature; a longer one counts as none."""

_MAX_BITS = 4096  # Python refuses to write much larger integers in decimal

_ERRORS = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
_KINDS = inspect.Parameter


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


def parse_signature(text: object) -> ast.FunctionDef | None:
    """A function without body that has this signature; None when the text is anything else or more."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        body = ast.parse(f"def _{text.strip()}: ...").body
    except _ERRORS:
        return None
    function = body[0]
    if len(body) != 1 or not isinstance(function, ast.FunctionDef) or function.name != "_":
        return None
    only = function.body[0]
    bodiless = len(function.body) == 1 and isinstance(only, ast.Expr) and is_ellipsis(only.value)
    return function if bodiless and _can_be_written(function) else None


def is_ellipsis(node: ast.expr) -> bool:
    """True for ``...``."""
    return isinstance(node, ast.Constant) and node.value is ...


def _can_be_written(tree: ast.AST) -> bool:
    numbers = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return all(number.bit_length() <= _MAX_BITS for number in numbers if isinstance(number, int))


def literal(node: ast.expr) -> Any:
    """Value of a literal; `SourceText` for any other expression, which is not evaluated.

    ``...`` counts as such text: a server writes it for what it cannot show.
    """
    try:
        return SourceText("...") if is_ellipsis(node) else ast.literal_eval(node)
    except _ERRORS:
        return _source(node)


def _source(node: ast.expr) -> SourceText:
    try:
        return SourceText(ast.unparse(node))
    except RecursionError:
        return SourceText("...")


def signature_of(text: object) -> inspect.Signature | None:
    """Signature out of a text such as ``(volts: float, steps: int = 10) -> None``.

    Annotations stay text. A default that is no literal becomes a `SourceText`, which shows itself as
    it was written. Nothing is evaluated or imported, whatever the text is.

    Args:
        text: as a server tells it in its table of members.

    Returns:
        None when the text is no signature, as ``(...)`` of a method whose signature nobody knows.
    """
    function = parse_signature(text)
    if function is None:
        return None
    try:
        return inspect.Signature(_parameters(function.args), return_annotation=_annotation(function.returns))
    except _ERRORS:
        return None


def positional(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """The parameters that may be given by their place, each with its default."""
    found = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(found) - len(arguments.defaults))
    return list(zip(found, [*missing, *arguments.defaults], strict=True))


def _parameters(arguments: ast.arguments) -> list[inspect.Parameter]:
    kinds = [_KINDS.POSITIONAL_ONLY] * len(arguments.posonlyargs)
    kinds += [_KINDS.POSITIONAL_OR_KEYWORD] * len(arguments.args)
    pairs = zip(positional(arguments), kinds, strict=True)
    found = [_parameter(argument, kind, default) for (argument, default), kind in pairs]
    if arguments.vararg is not None:
        found.append(_parameter(arguments.vararg, _KINDS.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(argument, _KINDS.KEYWORD_ONLY, default))
    if arguments.kwarg is not None:
        found.append(_parameter(arguments.kwarg, _KINDS.VAR_KEYWORD))
    return found


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None = None) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else literal(default)
    return inspect.Parameter(argument.arg, kind, default=value, annotation=_annotation(argument.annotation))


def _annotation(node: ast.expr | None) -> Any:
    return inspect.Signature.empty if node is None else _source(node)
