"""What a server tells of one member, in text, so that a reader needs none of its classes.

::

    key         of                          what
    kind        every member                see `members`
    doc         method, property; signal    documentation
    signature   method                      "(volts: float) -> None"; "(...)" when nobody knows it
    returns     method, when annotated      text of the annotation
    stream      generator                   True
    async       coroutine function          True; also for an asynchronous generator
    idempotent, urgent, reading  method declared so  True
    on_cancel   method declared so          name of the method that is called when it was cancelled
    poll        member that is polled       seconds between two reads
    writable    property                    whether it has a setter
    type        property, value, items      annotation, else the type of the present value
    mapping     items                       True for a mapping, missing for a sequence
    names       method, property, ...       what names in postponed annotations stand for:
                                            {"np": "numpy", "Iterator": "collections.abc.Iterator"}
    enums       method, property, ...       what is in the enums of its annotations, by full name:
                                            {"enum": "IntEnum", "doc": "", "values": {"LOW": "1"}}

A text names builtins bare and everything else as ``module.Name``; postponed annotations stay as they
were written. Every value is a str, a bool, a float or a dict of these, which each serializer can carry.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import keyword
import logging
import sys
import typing
from collections.abc import Callable, Mapping, MutableMapping
from enum import Enum, EnumType
from types import EllipsisType, ModuleType, NoneType, UnionType
from typing import Any, cast

from ..stubs.signatures import SourceText, parse_expression
from .marks import given_of, marks_of

logger = logging.getLogger("pzc.described")

UNKNOWN = "typing.Any"
NO_SIGNATURE = "(...)"

_LONGEST_DEFAULT = 200
_MOST_ENUMS = 20
_MOST_MEMBERS = 200
_WRAPPERS = (typing.Annotated, typing.ClassVar, typing.Final)
_ALIAS: Any = getattr(typing, "TypeAliasType", ())  # of the statement ``type``, which Python 3.12 brought


class Texts:
    """Writes annotations, and gathers what the names in postponed ones stand for.

    Args:
        scope: where postponed annotations were written: the globals of their module.
    """

    def __init__(self, scope: Mapping[str, object]) -> None:
        self.names: dict[str, str] = {}
        self.enums: dict[str, dict[str, Any]] = {}
        self._scope = scope
        self._resolving: set[object] = set()

    def of(self, annotation: Any) -> str:
        """Text of an annotation or type."""
        if isinstance(annotation, typing.ForwardRef):
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            return self._written(annotation)
        if isinstance(annotation, list):
            return f"[{', '.join(map(self.of, cast('list[Any]', annotation)))}]"
        if isinstance(annotation, typing.TypeVar):
            return UNKNOWN if annotation.__bound__ is None else self.of(annotation.__bound__)
        if isinstance(annotation, typing.NewType):
            return self.of(annotation.__supertype__)
        self.meet(annotation)
        origin = typing.get_origin(annotation)
        if isinstance(alias := origin or annotation, _ALIAS):
            return self._resolved(alias, typing.get_args(annotation))
        return full_name(annotation) if origin is None else self._generic(origin, typing.get_args(annotation))

    def meet(self, thing: object) -> None:
        """Tell what is in a class if that is an enum."""
        if isinstance(thing, EnumType) and thing.__members__ and len(self.enums) < _MOST_ENUMS:
            self.enums[full_name(thing)] = described_enum(cast("type[Enum]", thing))

    def _resolved(self, alias: Any, args: tuple[Any, ...]) -> str:
        """Text of what an alias stands for, evaluated only now; unknown within itself."""
        if alias in self._resolving:
            return UNKNOWN
        self._resolving.add(alias)
        try:
            return self.of(alias.__value__[args] if args else alias.__value__)
        except Exception:
            return UNKNOWN
        finally:
            self._resolving.discard(alias)

    def _generic(self, origin: Any, args: tuple[Any, ...]) -> str:
        if not args:
            return full_name(origin)
        if origin in _WRAPPERS:
            return self.of(args[0])
        if origin is typing.Union or origin is UnionType:
            return " | ".join(map(self.of, args))
        if origin is typing.Literal:
            plain = all(
                isinstance(arg, str | bytes | int | None) and not isinstance(arg, Enum) for arg in args
            )
            return f"typing.Literal[{', '.join(map(repr, args))}]" if plain else UNKNOWN
        return f"{full_name(origin)}[{', '.join(map(self.of, args))}]"

    def _written(self, text: str) -> str:
        """A postponed annotation, in a form that cannot spoil the signature around it."""
        if text.isidentifier() and not keyword.iskeyword(text):  # most are: spare them the parser
            self._gather(text)
            return text
        tree = parse_expression(text)
        if tree is None:
            return repr(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self._gather(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != text:
                self._written(node.value)
        return ast.unparse(tree) if isinstance(tree, ast.Tuple) or not {"\n", "#"}.isdisjoint(text) else text

    def _gather(self, name: str) -> None:
        if name in self.names or name not in self._scope:
            return
        thing = self._scope[name]
        self.names[name] = UNKNOWN  # an alias may contain itself
        self.names[name] = _alias(thing) or Texts({}).of(thing)
        self.meet(thing)
        if self.names[name] == name:
            del self.names[name]

    def default(self, value: object) -> str:
        """Text of a default; ``...`` when no expression shows it."""
        try:
            text = f"{full_name(type(value))}.{value.name}" if isinstance(value, Enum) else repr(value)
        except Exception:
            return "..."
        if isinstance(value, type):
            return full_name(value)
        return "..." if len(text) > _LONGEST_DEFAULT or parse_expression(text) is None else text

    def signature(self, function: Callable[..., Any]) -> tuple[str, str | None]:
        """Texts of a signature and of its return annotation."""
        try:
            signature = inspect.signature(function)
        except Exception:  # nobody wrote one, or an annotation cannot be evaluated
            return NO_SIGNATURE, None
        empty = inspect.Parameter.empty
        parameters = [
            parameter.replace(
                annotation=empty
                if parameter.annotation is empty
                else SourceText(self.of(parameter.annotation)),
                default=empty if parameter.default is empty else SourceText(self.default(parameter.default)),
            )
            for parameter in signature.parameters.values()
        ]
        if signature.return_annotation is inspect.Signature.empty:
            return str(signature.replace(parameters=parameters)), None
        returns = self.of(signature.return_annotation)
        return str(signature.replace(parameters=parameters, return_annotation=SourceText(returns))), returns


def _alias(thing: object) -> str | None:
    """Name of what has no type's name: a module, or numpy's alias for its arrays."""
    if isinstance(thing, ModuleType):
        return thing.__name__
    aliases = sys.modules.get("numpy.typing")
    is_array = aliases is not None and thing is getattr(aliases, "NDArray", None)
    return "numpy.typing.NDArray" if is_array else None


def full_name(thing: Any) -> str:
    """A class as it is written: ``int``, ``mylab.Channel``; ``typing.Any`` for what is none."""
    if thing is None or thing is NoneType:
        return "None"
    if thing is ... or thing is EllipsisType:
        return "..."
    if not isinstance(thing, type):
        return (
            repr(thing) if repr(thing).startswith("typing.") and repr(thing)[7:].isidentifier() else UNKNOWN
        )
    name, module = thing.__qualname__, cast(object, thing.__module__)
    if getattr(builtins, name, None) is thing:
        return name
    if "<" in name or not isinstance(module, str):
        return thing.__name__
    public = module.split("._")[0].lstrip("_")  # concurrent.futures._base.Future is known without its _base
    return f"{public if getattr(sys.modules.get(public), name, None) is thing else module}.{name}"


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


def _with_names(told: dict[str, Any], texts: Texts) -> dict[str, Any]:
    found = {"names": texts.names, "enums": texts.enums}
    return {**told, **{name: each for name, each in found.items() if each}}


def described_enum(cls: type[Enum]) -> dict[str, Any]:
    """What is told of an enum: its kind, its text, and its members with their values as text."""
    kind = next(base for base in cls.__mro__ if base.__module__ == "enum").__name__
    values = {
        name: repr(each.value) if type(each.value) in (int, str) and len(repr(each.value)) < 100 else "..."
        for name, each in list(cls.__members__.items())[:_MOST_MEMBERS]
    }
    doc = documentation(cls) if vars(cls).get("__doc__") else ""
    return {"enum": kind, "doc": "" if doc == inspect.getdoc(cls.__mro__[1]) else doc, "values": values}


def described_call(function: Any) -> dict[str, Any]:
    """What is told of something that can be called; see the table above."""
    texts = Texts(_scope(function))
    told: dict[str, Any] = {"doc": documentation(function)}
    told["signature"], returns = texts.signature(function)
    if returns is not None:
        told["returns"] = returns
    told.update(flags_of(function))
    return _with_names(told, texts)


def flags_of(function: Any) -> dict[str, Any]:
    """How something is called: as a stream, as a coroutine, and what its marks say."""
    told: dict[str, Any] = {}
    bodies: tuple[Any, ...] = (function, getattr(function, "__call__", None))  # noqa: B004 - an object may be the method
    yields_later = any(map(inspect.isasyncgenfunction, bodies))
    if yields_later or any(map(inspect.isgeneratorfunction, bodies)):
        told["stream"] = True
    if yields_later or any(map(inspect.iscoroutinefunction, bodies)):
        told["async"] = True
    return {**told, **given_of(marks_of(function))}


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
    texts = Texts(_scope(getter))
    annotations = _annotations(getter)
    if "return" in annotations:
        told["type"] = texts.of(annotations["return"])
    return _with_names(told, texts)


def _value(target: object, name: str, kind: str) -> dict[str, Any]:
    value: object = getattr(target, name)
    if kind == "signal":
        return {} if getattr(value, "__doc__", None) == type(value).__doc__ else {"doc": documentation(value)}
    own, told = full_name(type(value)), dict[str, Any]()
    if kind == "items" and isinstance(value, MutableMapping):
        told["mapping"] = True
    for cls in type(target).__mro__:
        annotations = _annotations(cls)
        if name in annotations:
            texts = Texts(_scope(cls))
            return _with_names({**told, "type": texts.of(annotations[name])}, texts)
    texts = Texts({})
    return _with_names({**told, "type": texts.of(type(value)) if isinstance(value, Enum) else own}, texts)


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


def _scope(thing: Any) -> Mapping[str, object]:
    """Globals of the module in which a function or class was written."""
    while isinstance(thing, functools.partial):
        thing = cast("functools.partial[Any]", thing).func
    scope: object = getattr(inspect.unwrap(thing), "__globals__", None)
    if isinstance(scope, dict):
        return cast("dict[str, object]", scope)
    module = sys.modules.get(str(getattr(thing, "__module__", None)))
    return {} if module is None else vars(module)
