"""Pickles of senders that are trusted: the C unpickler, and exactly one pickle in the bytes it is given.

``pickle.loads`` ignores what follows the pickle. Two ways notice it: a small pickle is made to pair its
object with something that only its last opcodes can fetch; a large one, which that would copy, is read
through a file-like view that knows how far the unpickler came.
"""

from __future__ import annotations

import io
import pickle
from typing import cast

from .errors import DecodeError

Data = bytes | bytearray | memoryview

_COPIED = 1 << 16
"""Pickles up to this size in bytes are copied."""

_NEXT_BUFFER = 0x97
_PAIR_WITH_NEXT_BUFFER = b"\x97\x86."
_last = object()
_only_last = (_last,)


def load(data: Data) -> object:
    """Return the object in a pickle without out-of-band buffers.

    Raises:
        DecodeError: bytes follow the pickle.
        Exception: whatever unpickling raises.
    """
    raw = bytes(data) if len(data) <= _COPIED else b""
    # A pickle that fetches a buffer itself could imitate the pair.
    if raw[-1:] != b"." or _NEXT_BUFFER in raw:
        return load_exactly(data)
    pair: tuple[object, ...] = pickle.loads(raw[:-1] + _PAIR_WITH_NEXT_BUFFER, buffers=_only_last)
    if type(pair) is not tuple or pair[1:] != _only_last:
        raise DecodeError("bytes follow the end of the pickle")
    return pair[0]


def load_exactly(data: Data, views: list[memoryview] | None = None) -> object:
    """Return the object in a pickle of any size; it must use all of its out-of-band buffers.

    Raises:
        DecodeError: bytes follow the pickle, or buffers are left over.
        Exception: whatever unpickling raises.
    """
    source = _Source(memoryview(data))
    unused = iter(views or ())
    content = pickle.Unpickler(cast(io.BytesIO, source), buffers=unused).load()
    if source.position != len(data):
        raise DecodeError(f"{len(data) - source.position} bytes after the end of the pickle")
    if next(unused, None) is not None:
        raise DecodeError("more buffers than the pickle refers to")
    return content


class _Source:
    """File-like view that hands the unpickler everything at once and learns where it stopped."""

    __slots__ = ("_data", "position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.position = 0

    def peek(self, _size: int) -> memoryview:
        return self._data[self.position :]

    def read(self, size: int) -> memoryview:
        start = self.position
        self.position = start + size
        return self._data[start : start + size]

    def readline(self) -> bytes:
        raise EOFError("truncated line")
