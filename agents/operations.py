"""Operations: what can be done with a thing beside reading, setting and calling its members.

The method of an ``exec`` message names one; only those of this table are done, whatever else the thing has.
"""

from __future__ import annotations

import enum
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

from ..protocol import paths
from ..protocol.contents import as_list
from ..protocol.errors import OperationRefused, RemoteProtocolError
from ..protocol.lazily import numpy_kind
from ..protocol.shown import shown
from ..protocol.values import PLAIN

CALL = "__call__"
EMIT = "emit"
GET = "__getitem__"
ITER = "__iter__"
CONTAINS = "__contains__"
ENTER, EXIT = "__enter__", "__exit__"


class Operation(NamedTuple):
    """One that a peer may ask for.

    Attributes:
        do: gets the thing and the arguments.
        reads: observers may ask for it.
        needs: special method that the class of the thing has; any of them.
        of: classes of things for which it is known to look and do nothing; empty for any.
    """

    do: Callable[..., Any]
    reads: bool
    needs: tuple[str, ...]
    of: tuple[type, ...] = ()


def check_key(key: Any) -> None:
    """See that ``things[key]`` makes nothing that is much larger than the things: a list or an array could.

    Raises:
        OperationRefused: for anything but a number, text, None, ``...``, a date, an enum member, a slice of
            integers, and a tuple of some of these.
    """
    several = cast("type[Any]", type(key)) is tuple
    parts: tuple[Any, ...] = key if several else (key,)
    if len(parts) > paths.MAX_STEPS or not all(map(_is_scalar, parts)):
        raise OperationRefused(
            f"{shown(key, 60)} cannot be used as a key: expected a number, text, a slice of integers, or a "
            f"tuple of at most {paths.MAX_STEPS} of these; a list or an array can index the fetched value"
        )


def _is_scalar(part: Any) -> bool:
    kind = cast("type[Any]", type(part))
    if kind is slice:
        return paths.step_of(part) is not None
    # NumPy takes a bytearray for an array.
    plain = kind in PLAIN and kind is not bytearray
    return plain or part is ... or isinstance(part, enum.Enum) or numpy_kind(kind) == "generic"


def item(things: Any, key: Any) -> Any:
    """``things[key]``; reading makes no item in a `defaultdict`."""
    if defaultdict in type(things).__mro__ and key not in things:
        raise KeyError(key)
    return things[key]


def _keys(things: Any) -> list[Any]:
    return list(things.keys())


def _values(things: Any) -> list[Any]:
    return list(things.values())


def _items(things: Any) -> list[Any]:
    return list(things.items())


def _get(things: Any, key: Any, default: Any = None) -> Any:
    return things.get(key, default)


def _copy(things: Any) -> Any:
    return things.copy()


def _enter(thing: Any) -> Any:
    return thing.__enter__() if hasattr(thing, "__enter__") else thing.__aenter__()


def _leave(thing: Any, kind: object = None, text: object = None, _trace: object = None) -> Any:
    """End a ``with`` block whose error, if there was one, is told by its class name and text."""
    error = None if kind is None else RuntimeError(f"{kind}: {text}")
    leave = thing.__exit__ if hasattr(thing, "__exit__") else thing.__aexit__
    return leave(None if error is None else type(error), error, None)


_MAPPINGS = (Mapping,)
_CONTAINERS = (Mapping, Sequence, Set)

KEYED = frozenset({GET, "__setitem__", "__delitem__", CONTAINS, "get"})
"""Operations whose first argument is a key."""

OPERATIONS: Mapping[str, Operation] = {
    GET: Operation(item, True, ("__getitem__",)),
    "__setitem__": Operation(operator.setitem, False, ("__setitem__",)),
    "__delitem__": Operation(operator.delitem, False, ("__delitem__",)),
    "__len__": Operation(len, True, ("__len__",)),
    CONTAINS: Operation(operator.contains, True, ("__contains__", "__iter__", "__getitem__")),
    ITER: Operation(list, True, ("__iter__", "__getitem__", "__aiter__")),
    "__bool__": Operation(bool, True, ()),
    "__int__": Operation(int, True, ("__int__", "__index__")),
    "__float__": Operation(float, True, ("__float__", "__index__")),
    ENTER: Operation(_enter, False, ("__enter__", "__aenter__")),
    EXIT: Operation(_leave, False, ("__exit__", "__aexit__")),
    "keys": Operation(_keys, True, ("keys",), _MAPPINGS),
    "values": Operation(_values, True, ("values",), _MAPPINGS),
    "items": Operation(_items, True, ("items",), _MAPPINGS),
    "get": Operation(_get, True, ("get",), _MAPPINGS),
    "copy": Operation(_copy, True, ("copy",), _CONTAINERS),
}


def fits(operation: Operation, thing: object) -> bool:
    """Whether an operation can be done with a thing."""
    needs = operation.needs
    return not needs or (not isinstance(thing, type) and any(hasattr(type(thing), name) for name in needs))


def only_looks(name: str, thing: object, by_item: bool) -> bool:
    """Whether an operation of the table uses nothing of a thing up, and comes to an end.

    Args:
        name: of the operation.
        thing: with which it fits.
        by_item: what it gives is asked for item by item.
    """
    kind = type(thing)
    if name not in (ITER, CONTAINS) or (name == CONTAINS and hasattr(kind, "__contains__")):
        return not (of := OPERATIONS[name].of) or isinstance(thing, of)
    return not hasattr(kind, "__next__") and (by_item or hasattr(kind, "__len__"))


BATCH_CALLS = 10_000
"""Calls of one batch."""


def calls_of(options: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Action and options of each call of a batch.

    Raises:
        RemoteProtocolError: when it is no batch.
    """
    sent = options.get("calls")
    calls = as_list(sent)
    if not isinstance(sent, list | tuple) or len(calls) > BATCH_CALLS:
        raise RemoteProtocolError(f"a batch has a list of at most {BATCH_CALLS} calls")
    found: list[tuple[str, dict[str, Any]]] = []
    for call in calls:
        pair = as_list(call)
        if list(map(type, pair)) != [str, dict]:
            raise RemoteProtocolError(f"a call of a batch is an action and its options, not {shown(call)}")
        action, given = pair
        if action == "batch":
            raise RemoteProtocolError("a batch has no batches inside")
        found.append((action, given))
    return found
