"""How a value or text of a peer stands in messages and logs: short, on one line, and no code of it runs.

And the nearest right words for a wrong one.
"""

from __future__ import annotations

import datetime as dt
import decimal
import difflib
import enum
import fractions
import pathlib
import uuid
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from .lazily import numpy_kind

_ITEMS = 8
_LEVELS = 4
_LARGE_BITS = 1024
_TOLD = (
    type(None), bool, float, complex, range, dt.date, dt.time, dt.timedelta, dt.tzinfo, decimal.Decimal,
    fractions.Fraction, pathlib.PurePath, uuid.UUID,
)  # fmt: skip
"""Types whose ``repr`` is short or cheap, whatever the value is."""

_BRACKETS = ((tuple, "()"), (list, "[]"), ((set, frozenset), "{}"))


def shown(value: object, most: int = 100) -> str:
    """What a value looks like, at most ``most`` characters of it; never fails.

    The work is bounded whatever the value is: containers are cut, objects are told by their class.
    """
    try:
        return printable(_short(value, most, _LEVELS), most)
    except Exception:  # a value of a class that lies about itself
        return f"<{type(value).__name__}>"[:most]


def printable(text: str, most: int = 200) -> str:
    """A text cut to ``most`` characters, with all that would steer a terminal or break a line escaped."""
    cut = str.__getitem__(text, slice(most))
    if not cut.isprintable():
        cut = plain(cut, "")[:most]
    return cut


def plain(text: str, keep: str = "\n\t") -> str:
    """A text, whole, in which what would steer a terminal is escaped; ``keep``: what may stay of that."""
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _short(value: Any, most: int, levels: int) -> str:
    if isinstance(value, str):
        return repr(str.__getitem__(value, slice(most)))
    if isinstance(value, bytes | bytearray | memoryview):
        return repr(bytes(cast(bytes, value)[:most]))
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, int) and not isinstance(value, bool):
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= _LARGE_BITS else f"<int of {bits} bits>"
    if isinstance(value, _TOLD):
        return repr(cast(object, value))
    kind = numpy_kind(cast("type[object]", type(value)))
    if kind == "ndarray":
        return f"<array {value.dtype.str} {value.shape}>"
    if kind == "generic":
        return repr(value)
    if isinstance(value, type):
        return f"<class {value.__name__}>"
    if not levels:
        return "..."
    return _inside(value, most // 2 + 1, levels - 1)


def _inside(value: Any, most: int, levels: int) -> str:
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        pairs = islice(table.items(), _ITEMS)
        told = [f"{_short(key, most, levels)}: {_short(item, most, levels)}" for key, item in pairs]
        return _joined(told, len(table), "{}")
    if isinstance(value, BaseException):
        told = [_short(item, most, levels) for item in value.args[:_ITEMS]]
        return type(value).__name__ + _joined(told, len(value.args), "()")
    for kind, brackets in _BRACKETS:
        if isinstance(value, kind):
            told = [_short(item, most, levels) for item in islice(cast("Iterable[object]", value), _ITEMS)]
            return _joined(told, len(cast("list[object]", value)), brackets)
    return f"<{type(value).__name__}>"


def _joined(told: list[str], count: int, brackets: str) -> str:
    return brackets[0] + ", ".join([*told, "..."] if count > len(told) else told) + brackets[1]


_SHOWN = 40
"""Words that are listed when none is near."""


def hint(word: str, known: Iterable[str], *, most: int = 1, otherwise: str = "known are") -> str:
    """What may have been meant: ``did you mean voltage?``, else which words there are.

    Args:
        word: that is not known.
        known: all that are.
        most: words that may be named as near.
        otherwise: what is said before the list of all, when none is near.
    """
    words = sorted(known)
    named = {each.lstrip("-"): each for each in words}  # that both are options does not make two words alike
    near = [named[each] for each in difflib.get_close_matches(word.lstrip("-"), named, n=most)]
    return (
        f"did you mean {' or '.join(near)}?" if near else f"{otherwise} {', '.join(words[:_SHOWN]) or 'none'}"
    )
