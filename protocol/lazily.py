"""Modules that are imported when something of them is first used.

numpy takes as long to import as all the rest together, and a program that sends numbers never needs it. So
what uses it now and then takes `np` from here. What an instance of one of its classes is, `is_array` and
`numpy_kind` tell without importing anything. Whoever uses another module now and then has::

    if TYPE_CHECKING:
        import asyncio
    else:
        asyncio = Lazily("asyncio")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import numpy as np

_KINDS = ("ndarray", "generic", "dtype")


class Lazily:
    """Stands for a module.

    Args:
        name: of the module, from the top.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)  # from now on without this function
        return found


if not TYPE_CHECKING:
    np = Lazily("numpy")


def is_array(value: object) -> TypeGuard[np.ndarray[tuple[Any, ...], np.dtype[Any]]]:
    """Whether a value is one of numpy's arrays, and of no subclass."""
    cls = type(value)
    return cls.__name__ == "ndarray" and cls.__module__ == "numpy"


def numpy_kind(cls: type) -> str:
    """``ndarray``, ``generic`` or ``dtype``, for a class of arrays, scalars or dtypes; else empty."""
    for base in cls.__mro__:
        if base.__module__ == "numpy" and base.__name__ in _KINDS:
            return base.__name__
    return ""
