"""Originals: what differs when the server that is asked is an original Pizco's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ...protocol.contents import as_list, shown
from ...protocol.errors import RemoteProtocolError
from ...protocol.frames import PZC00
from ...protocol.operations import ITEM_METHODS, OPERATIONS
from .interfaces import Served

_SENT = frozenset({"__call__", "__getitem__", "__setitem__"})
"""Methods that an original's proxy asks for. Others may end its server: it cannot send a view of keys."""

_READING = ITEM_METHODS - _SENT - {"__delitem__"}


def instead(served: Served, method: str) -> Callable[..., Any] | None:
    """What is done with a copy of the member instead of asking for a method; None when that is asked for.

    Raises:
        Refused: for what an original's proxy cannot say.
    """
    if served.peer.dialect != PZC00 or method in _SENT:
        return None
    if method not in _READING:
        served.need(f"be asked for {method!r}")
    return OPERATIONS[method].do


def table_of(told: Any, endpoint: str) -> dict[str, dict[str, Any]]:
    """The table out of an answer to ``inspect``: names held remotely, and names sent by value.

    Raises:
        RemoteProtocolError: when it is something else.
    """
    sets = as_list(told)
    if len(sets) != 2 or not all(map(_is_names, sets)):
        raise RemoteProtocolError(
            f"{endpoint} answered 'inspect' with {shown(told)} instead of two sets of names: "
            "it is no original Pizco's server"
        )
    return {name: {"kind": "remote"} for name in sets[0] if name.isidentifier() and not name.startswith("_")}


def _is_names(told: object) -> bool:
    if not isinstance(told, set | frozenset | list | tuple):
        return False
    return all(isinstance(name, str) for name in cast("set[object]", told))
