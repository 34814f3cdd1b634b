"""Words shared by the machine and its rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeGuard

from .errors import DecodeError

Args = tuple[object, ...]


class Meter(Protocol):
    """The part of the machine that rules see."""

    def charge(self, amount: int) -> None:
        """Take an amount of bytes or steps from the budget."""
        ...

    def check_keys(self, keys: Collection[object], table: Collection[object] = ()) -> None:
        """Take the cost of hashing these keys from the budget, and count equal hashes in their table."""
        ...


Rule = Callable[[Meter, Args], object]


class Name:
    """A function that a pickle may name; it has a rule but is not callable."""

    __slots__ = ("rule", "text")

    def __init__(self, text: str, rule: Rule) -> None:
        self.text = text
        self.rule = rule


class Draft:
    """An object between its creation and its state (dtype, array, UUID); never visible in the content.

    ``final`` is None until it has its state.
    """

    __slots__ = ("final", "finish")

    def __init__(self, finish: Callable[[Meter, object], object]) -> None:
        self.finish = finish
        self.final: object = None


def expect(args: Args, *kinds: type | tuple[type, ...]) -> None:
    """Raise :class:`DecodeError` unless the arguments have exactly these types."""
    if len(args) != len(kinds):
        raise DecodeError(f"{len(kinds)} arguments expected, {len(args)} found")
    for arg, kind in zip(args, kinds, strict=True):
        if type(arg) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise DecodeError(f"an argument of type {type(arg).__name__} does not fit")


def is_tuple(value: object) -> TypeGuard[Args]:
    """Return whether the value is a tuple and no subclass."""
    return type(value) is tuple


def is_dict(value: object) -> TypeGuard[dict[object, object]]:
    """Return whether the value is a dict and no subclass."""
    return type(value) is dict
