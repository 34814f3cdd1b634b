"""Names that the public face is to have; a test that uses one fails for as long as it is missing."""

from __future__ import annotations

from typing import Any

import pzc


def coming(name: str) -> Any:
    """A public name of the package.

    Raises:
        AttributeError: while there is none.
    """
    if name not in pzc.__all__:
        raise AttributeError(f"pzc has no public name {name} yet")
    return getattr(pzc, name)
