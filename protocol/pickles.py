"""Pickles: how contents are pickled, and how those of senders that are trusted are read, by the C unpickler.

`dumps` is that of ``pickle`` until somebody teaches it more (`teach`): call it as ``pickles.dumps``, never by
a name of your own.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable
from typing import Any, cast

from .errors import DecodeError

Data = bytes | bytearray | memoryview


def load_exactly(data: Data, views: list[memoryview] | None = None) -> object:
    """Return the object in exactly one pickle, which must use all of its out-of-band buffers.

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
    global dumps
    _reducers.find = find
    dumps = _dumps


def _dumps(content: object, protocol: int, *, buffer_callback: Buffers | None = None) -> bytes:
    sink = io.BytesIO()
    pickler = pickle.Pickler(sink, protocol, buffer_callback=buffer_callback)
    pickler.dispatch_table = _reducers
    pickler.dump(content)
    return sink.getvalue()
