"""Which parts of this process are compiled: all, unless that is off, was not built, or finds no libcrypto."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import _lane as c

LIMIT = 1 << 16
"""Bytes of the largest body that a lane carries."""


def _choose() -> tuple[Any, str]:
    """A compiled module, or None; and what is to be said about that."""
    if os.environ.get("PZC_COMPILED", "1").lower() in ("0", "false", "no", "off"):
        return None, "plain Python: PZC_COMPILED turned the compiled lane off"
    try:
        module: Any = importlib.import_module(f"{__package__}._lane")
    except ImportError as exc:
        built = "cannot be loaded" if exc.path else "was not built when pzc was installed"
        return None, f"plain Python: the compiled lane {built}"
    if not module.CRYPTO:
        return None, "plain Python: the compiled lane found no libcrypto"
    return module, f"compiled, with {module.CRYPTO}"


_lane, WHICH = _choose()

LANE: type[c.Lane] | None = _lane and _lane.Lane
"""What makes compiled lanes, or None; `WHICH` is what `pzc version` says about that."""


class _Never(Exception):
    """Of a lane that is not there."""


LaneError: type[Exception] = _lane.LaneError if _lane else _Never
"""What ends an operation of a lane, in one word; what a signal's handler raises is never one."""
