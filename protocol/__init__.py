"""Bytes, keys, limits and errors, without sockets, clocks or threads; ``__all__`` names what is public."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .limits import Limits

__all__ = ["Limits"]


def __getattr__(name: str) -> Any:  # not at once: the command line answers Ctrl-C before msgspec is imported
    if name != "Limits":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .limits import Limits

    return Limits
