"""Pickles: how contents are pickled, and how those of senders that are trusted are read, by the C unpickler.

`dumps` and `pickler` are those of ``pickle`` until somebody teaches them more (`teach`): call them as
``pickles.dumps``, never by a name of your own.

``pickle.loads`` ignores what follows the pickle. Two ways notice it: a small pickle is made to pair its
object with something that only its last opcodes can fetch; a large one, which that would copy, is read
through a file-like view that knows how far the unpickler came.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable
from typing import Any, cast

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


# --- writing -----------------------------------------------------------------------------------------

Reduce = Callable[[Any], Any]
"""What ``__reduce__`` gives, for an instance."""

Buffers = Callable[[pickle.PickleBuffer], object]
dumps: Callable[..., bytes] = pickle.dumps
pickler: Callable[..., pickle.Pickler] = pickle.Pickler


class _Reducers(dict[type, Reduce]):
    """What pickles the instances of a class: that of `teach`, else that of ``copyreg``."""

    find: Callable[[type], Reduce | None]

    def __missing__(self, cls: type) -> Reduce:
        found = self.find(cls)
        if found is None:
            return copyreg.dispatch_table[cls]
        self[cls] = found
        return found


_reducers = _Reducers()


def teach(find: Callable[[type], Reduce | None]) -> None:
    """Pickle instances of some classes in another way from now on.

    Args:
        find: gives what does it for a class; None for a class that is pickled as it is.
    """
    global dumps, pickler
    _reducers.find = find
    dumps, pickler = _dumps, _pickler


def _pickler(file: Any, protocol: int, buffer_callback: Buffers | None = None) -> pickle.Pickler:
    made = pickle.Pickler(file, protocol, buffer_callback=buffer_callback)
    made.dispatch_table = _reducers
    return made


def _dumps(content: object, protocol: int, *, buffer_callback: Buffers | None = None) -> bytes:
    sink = io.BytesIO()
    _pickler(sink, protocol, buffer_callback).dump(content)
    return sink.getvalue()
