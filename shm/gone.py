"""Gone: calls a function when an object is gone, which costs a third of what `weakref.finalize` does."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any


class _Reference(weakref.ref[Any]):
    __slots__ = ("call",)

    call: Callable[[], object]


_kept: dict[int, _Reference] = {}  # by their own ids: what they refer to may have no hash


def when_gone(thing: object, call: Callable[[], object]) -> None:
    """Call a function once when an object is gone: in any thread, at any moment, but not at exit.

    Args:
        thing: that can be referred to weakly.
        call: takes no lock, and does not keep the object.
    """
    reference = _Reference(thing, _end)
    reference.call = call
    _kept[id(reference)] = reference


def _end(reference: weakref.ref[Any]) -> None:
    kept = _kept.pop(id(reference), None)
    if kept is not None and not sys.is_finalizing():
        kept.call()
