"""A look at MessagePack of a stranger before it is decoded: how deep, how many items, which keys.

A decoder makes 64 bytes of each one-byte list and fails on deep nesting only when the stack is used up. So
the tokens are counted first, without recursion, also inside the extensions that hold MessagePack.
"""

from __future__ import annotations

from .errors import DecodeError
from .restricted import LEVELS

ITEMS = 1 << 20
"""Items in a message of a stranger, in all its containers; an array is one."""

NESTED = (1, 3)
"""Codes of the extensions that hold MessagePack: a kind with its payload, and a tuple."""

_SIZES = {
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3), 1),
    0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
    **{code: 1 + code - 0xA0 for code in range(0xA0, 0xC0)},
}  # fmt: skip
"""Bytes of the tokens whose first byte says their size."""

_COUNTED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes of the length of text and bytes."""

_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD4: 0, 0xD5: 0, 0xD6: 0, 0xD7: 0, 0xD8: 0}
"""Bytes of the length of extensions; 0 where the first byte says it."""


def check(data: bytes | bytearray | memoryview) -> None:
    """Judge MessagePack before it is decoded.

    Raises:
        DecodeError: it is truncated, nested deeper than `LEVELS`, has more than `ITEMS` items, or a map whose
            keys are not plain.
    """
    sizes, size = _SIZES, len(data)
    # Of each open container: items to come, whether it is a map, and where an extension has to end.
    outer: list[tuple[int, bool, int]] = []
    at, left, is_map, end, items = 0, 1, False, size, 0
    while True:
        while not left:
            if not outer:
                if at != size:
                    raise DecodeError(f"{size - at} bytes after the end of the content")
                return
            if end >= 0 and at != end:
                raise DecodeError("an extension is not as long as its content")
            left, is_map, end = outer.pop()
        if at >= size:
            raise DecodeError("the content is truncated")
        code = data[at]
        is_key = is_map and not left & 1
        left -= 1
        items += 1
        if code in sizes:
            at += sizes[code]
            continue
        if code in _COUNTED:
            width = _COUNTED[code]
            at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width])
            continue
        at, inside, maps, stop = _open(data, at, code)
        if is_key:
            raise DecodeError("a map has a key that is no text, number or bytes")
        if stop >= 0 and inside == 0:
            at = stop
            continue
        if items + inside > ITEMS or len(outer) >= LEVELS:
            raise DecodeError(
                f"the content has more than {ITEMS} items, or is nested more than {LEVELS} deep"
            )
        outer.append((left, is_map, end))
        left, is_map, end = inside, maps, stop


def _open(data: bytes | bytearray | memoryview, at: int, code: int) -> tuple[int, int, bool, int]:
    """Where the items of a container begin, how many there are, whether it is a map, where it has to end."""
    if code in _EXTENSIONS:
        width = _EXTENSIONS[code]
        length = int.from_bytes(data[at + 1 : at + 1 + width]) if width else 1 << (code - 0xD4)
        start = at + 2 + width
        if start > len(data):
            raise DecodeError("the content is truncated")
        return start, int(data[start - 1] in NESTED), False, start + length
    if code < 0xA0:
        return at + 1, (code & 0x0F) * (2 if code < 0x90 else 1), code < 0x90, -1
    if code == 0xC1:
        raise DecodeError("the content has a byte that MessagePack does not use")
    width = 4 if code & 1 else 2
    count = int.from_bytes(data[at + 1 : at + 1 + width])
    return at + 1 + width, count * (2 if code >= 0xDE else 1), code >= 0xDE, -1
