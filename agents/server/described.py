"""What a server tells of one member, in text, so that a reader needs none of its classes.

::

    key         of                          what
    kind        every member                see `members`
    doc         method, property; signal    documentation
    signature   method                      "(volts: float) -> None"; "(...)" when nobody knows it
    idempotent, urgent, reading  method declared so  True
    on_cancel   method declared so          name of the method that is called when it was cancelled
    poll        member that is polled       seconds between two reads
    writable    property                    whether it has a setter
    type        property, value, items      annotation, else the type of the present value

A text names builtins bare and everything else as ``module.Name``; postponed annotations stay as they
were written. Every value is a str, a bool or a float, which each serializer can carry.
"""

from __future__ import annotations

import ast
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, cast

from ..stub import SourceText, parse_expression
from .marks import given_of, marks_of

logger = logging.getLogger("pzc.described")

NO_SIGNATURE = "(...)"

_LONGEST_DEFAULT = 200


def text_of(annotation: Any) -> str:
    """Text of an annotation, in a form that cannot spoil the signature around it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    tree = parse_expression(text)
    if tree is None:
        return repr(text)
    return ast.unparse(tree) if isinstance(tree, ast.Tuple) or not {"\n", "#"}.isdisjoint(text) else text


def _default(value: object) -> str:
    """Text of a default; ``...`` when no expression shows it."""
    if isinstance(value, type):
        return full_name(value)
    try:
        text = f"{full_name(type(value))}.{value.name}" if isinstance(value, Enum) else repr(value)
    except Exception:
        return "..."
    return "..." if len(text) > _LONGEST_DEFAULT or parse_expression(text) is None else text


def _signature(function: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(function)
    except Exception:  # there is none, or an annotation cannot be evaluated
        return NO_SIGNATURE
    empty = inspect.Parameter.empty
    parameters = [
        each.replace(
            annotation=empty if each.annotation is empty else SourceText(text_of(each.annotation)),
            default=empty if each.default is empty else SourceText(_default(each.default)),
        )
        for each in signature.parameters.values()
    ]
    returns = signature.return_annotation
    if returns is not inspect.Signature.empty:
        returns = SourceText(text_of(returns))
    return str(signature.replace(parameters=parameters, return_annotation=returns))


def full_name(cls: type) -> str:
    """A class as it is written: ``int``, ``mylab.Channel``."""
    module = cast(object, cls.__module__)
    if cls is NoneType:
        return "None"
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def describe(target: object, name: str, kind: str) -> dict[str, Any]:
    """Entry of a member for the table that peers get; see the table above. No property is run."""
    try:
        return _describe(target, name, kind)
    except Exception as exc:  # a member that cannot be described is still there
        logger.debug("member %s cannot be described: %r", name, exc)
        return {"kind": kind}


def _describe(target: object, name: str, kind: str) -> dict[str, Any]:
    static = inspect.getattr_static(target, name)
    if kind == "method":
        told = described_call(getattr(target, name))
    elif kind == "property":
        told = _property(static)
    else:
        told = _value(target, name, kind)
    return {"kind": kind, **told}


def described_call(function: Any) -> dict[str, Any]:
    """What is told of something that can be called; see the table above."""
    return {"doc": documentation(function), "signature": _signature(function), **given_of(marks_of(function))}


def _property(static: object) -> dict[str, Any]:
    kind = type(static)
    settable, getter = hasattr(kind, "__set__"), cast("Any", getattr(kind, "__get__", None))
    told: dict[str, Any] = {"doc": documentation(static), "writable": settable}
    if isinstance(static, property):
        getter, told["writable"] = cast("Any", static.fget), static.fset is not None
        if marks_of(getter).concurrent:  # the only mark that holds for a property
            told["concurrent"] = True
    elif isinstance(static, functools.cached_property):
        getter = cast("Any", static).func
    annotations = _annotations(getter)
    if "return" in annotations:
        told["type"] = text_of(annotations["return"])
    return told


def _value(target: object, name: str, kind: str) -> dict[str, Any]:
    value: object = getattr(target, name)
    if kind == "signal":
        return {} if getattr(value, "__doc__", None) == type(value).__doc__ else {"doc": documentation(value)}
    for cls in type(target).__mro__:
        annotations = _annotations(cls)
        if name in annotations:
            return {"type": text_of(annotations[name])}
    return {"type": full_name(type(value))}


def documentation(thing: object) -> str:
    """Documentation of something, in text that every serializer takes."""
    text = inspect.getdoc(thing) or ""
    return text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair is no UTF-8


def _annotations(thing: Any) -> Mapping[str, Any]:
    """Annotations as they are; none when they cannot be had."""
    try:
        return inspect.get_annotations(thing)
    except Exception:
        return {}
