"""A look at the keys of large MessagePack maps, before a decoder puts them into tables.

Hashes of texts, bytes, integers of 64 bits and doubles cannot be made equal in number; those of arrays and
extensions (tuples, decimals) can, and then the decoder's work is quadratic. A sender of this package writes a
map with such keys as an extension of its own, which is checked where it is read.
"""

from __future__ import annotations

import re

from .errors import DecodeError
from .weighing import EQUAL_HASHES

_HASH_UNCHECKED = 1 << 15
"""Bytes of a MessagePack content up to which the keys of its maps are not looked at."""


_COUNTED = {
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0), 0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0),
    0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
}  # fmt: skip
"""Bytes of the count of texts, bytes and extensions, and what stands behind it beside the content."""

_SCALAR = {
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC1, 0xC2, 0xC3), 1),
    0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
    0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18,
}  # fmt: skip
"""Bytes of the tokens of a fixed size."""

_UNUSUAL = frozenset({*range(0x90, 0xA0), 0xDC, 0xDD, *range(0xC7, 0xCA), *range(0xD4, 0xD9)})
"""Arrays and extensions."""

_LARGE_MAPS = re.compile(rb"[\xde\xdf]").search


def has_large_maps(data: bytes | bytearray | memoryview) -> bool:
    """Whether data, or what is nested in it, may have a map of many keys."""
    return len(data) > _HASH_UNCHECKED and _LARGE_MAPS(data) is not None


def checked(data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """Return the data, unless a map has many keys that are arrays or extensions.

    What is malformed is left to the decoder, and so is what is too small to cost much.

    Raises:
        DecodeError: naming the limit.
    """
    if len(data) > _HASH_UNCHECKED:
        _scan(memoryview(data).cast("B"), EQUAL_HASHES)
    return data


def _scan(data: memoryview, most: int) -> None:
    """One pass over the tokens, without recursion; errors as `checked`."""
    # Of each open container: values to come, and for a map of many keys those not plain so far, else -1.
    outer: list[tuple[int, int]] = []
    at, left, odd, end = 0, 1, -1, len(data)
    while at < end:
        if not left:
            if not outer:
                return
            left, odd = outer.pop()
            continue
        code = data[at]
        if odd >= 0 and not left & 1 and code in _UNUSUAL:
            odd += 1
            if odd > most:
                raise DecodeError(f"a map has more than {most} keys that are arrays or extensions")
        left -= 1
        if code in _SCALAR:
            at += _SCALAR[code]
            continue
        at, inside, entries = _token(data, at, code)
        if inside:
            outer.append((left, odd))
            left, odd = inside, 0 if entries > most else -1


def _token(data: memoryview, at: int, code: int) -> tuple[int, int, int]:
    """Where the next token begins, how many values this one holds, and how many keys a counted map has."""
    if code in _COUNTED:
        size, more = _COUNTED[code]
        return at + 1 + size + more + int.from_bytes(data[at + 1 : at + 1 + size]), 0, 0
    if code < 0xA0:
        return at + 1, (code & 0x0F) * (2 if code < 0x90 else 1), 0
    if code < 0xDC:
        return at + 1 + (code & 0x1F), 0, 0
    size = 4 if code & 1 else 2
    count = int.from_bytes(data[at + 1 : at + 1 + size])
    return at + 1 + size, count * (2 if code >= 0xDE else 1), count if code >= 0xDE else 0
