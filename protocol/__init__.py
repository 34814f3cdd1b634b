"""Bytes, keys, limits and errors, without sockets, clocks or threads; ``__all__`` names what is public."""

from . import exceptions, libraries  # which add their kinds
from .limits import Limits

__all__ = ["Limits", "exceptions", "libraries"]
