"""Members of enums and combinations of flags by their values, which nobody vouches for.

No class is called that would run what its author wrote.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from .errors import DecodeError
from .unpickle_base import Args

COMPARED = (bool, int, float, str, bytes, tuple)
"""Types of values whose comparison runs nothing of an application."""


def member(cls: type[enum.Enum], args: Args, compared: Collection[type] | None = None) -> object:
    """A member by its value, or a combination of flags.

    Args:
        cls: of the member.
        args: nothing but the value.
        compared: types of values that are compared; default all.

    Raises:
        DecodeError: there is none.
    """
    for each in cls.__members__.values() if len(args) == 1 else ():
        value: object = each.value
        kind = type(value)
        if kind is type(args[0]) and (compared is None or kind in compared) and value == args[0]:
            return each
    if issubclass(cls, enum.Flag) and len(args) == 1 and type(args[0]) is int:
        return _combinations.of(cls, args[0])
    raise DecodeError(f"{cls.__name__} has no such member")


class Combinations:
    """Combinations of flags, each of which stays in its class for good.

    Args:
        most: that are made; what came before is found after that, too.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[tuple[type[enum.Flag], int], enum.Flag] = {}

    def of(self, cls: type[enum.Flag], value: int) -> enum.Flag:
        """The combination of a value.

        Raises:
            DecodeError: the class has none, or makes them in a way of its own, or too many were made.
        """
        made = self._made.get((cls, value))
        if made is not None:
            return made
        if not (0 <= value < 1 << 64 and type(cls) is enum.EnumMeta and _missing(cls) is _missing(enum.Flag)):
            raise DecodeError(f"{cls.__name__} has no such member")
        if len(self._made) >= self._most:
            raise DecodeError(f"more than {self._most} combinations of flags came in unsigned pickles")
        try:
            made = self._made[cls, value] = cls(value)
        except ValueError as error:
            raise DecodeError(f"{cls.__name__} has no such member") from error
        return made


def _missing(cls: type[enum.Flag]) -> object:
    return getattr(cls._missing_, "__func__", None)


_combinations = Combinations(1 << 16)
