"""Marks: what the author of a served class says about its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def idempotent(function: F) -> F:
    """Mark a served method that may run twice without harm, such as one that only reads.

    A call of it whose reply was lost is sent again, with growing pauses, until its timeout; calls of
    other methods are sent at most once.
    """
    function._pzc_idempotent = True  # pyright: ignore[reportFunctionMemberAccess]
    return function
