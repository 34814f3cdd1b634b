"""Pickles: how contents are pickled, and how those of senders that are trusted are read, by the C unpickler.

`dumps` is that of ``pickle`` until somebody teaches it more (`teach`): call it as ``pickles.dumps``, never by
a name of your own.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

from .errors import DecodeError

Data = bytes | bytearray | memoryview

_SIZED = frozenset({bytes, bytearray, str})
HOLDING = _SIZED | {tuple, list, dict}
"""Classes of contents that may be bulky."""


def load_exactly(data: Data, views: list[memoryview] | None = None, *, writable: bool = False) -> object:
    """Return the object in exactly one pickle, which must use all of its out-of-band buffers.

    Args:
        data: the pickle.
        views: the buffers.
        writable: True also copies arrays that were read-only for their sender.

    Raises:
        DecodeError: bytes follow the pickle, or buffers are left over.
        Exception: whatever unpickling raises.
    """
    source = _Source(memoryview(data))
    unused = iter(views or ())
    unpickler = _Unpickler if writable else pickle.Unpickler
    content = unpickler(cast(io.BytesIO, source), buffers=unused).load()
    if source.position != len(data):
        raise DecodeError(f"{len(data) - source.position} bytes after the end of the pickle")
    if next(unused, None) is not None:
        raise DecodeError("more buffers than the pickle refers to")
    return content


class _Unpickler(pickle.Unpickler):
    """Makes arrays that may be written, as a pickle says of each whether it was read-only."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return partial(_own_array, found) if name == "_frombuffer" and module.startswith("numpy.") else found


def _own_array(make: Callable[..., Any], raw: Data, *rest: Any) -> Any:
    return make(bytearray(raw) if memoryview(raw).readonly else raw, *rest)


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


BULKY = 1 << 16
"""Bytes of a text or of bytes in a content that are not worth a copy more."""

_FEW = 16


def is_bulky(content: object) -> bool:
    """Whether a content is a large text or bytes, or one of few things that it holds is."""
    kind = type(content)
    if kind in _SIZED:
        return len(cast("str", content)) > BULKY
    if kind is tuple or kind is list:
        held: Iterable[object] = cast("tuple[object, ...]", content)
    elif kind is dict:
        held = cast("dict[object, object]", content).values()
    else:
        return False
    if len(cast("tuple[object, ...]", content)) > _FEW:
        return False
    for each in held:  # noqa: SIM110 - a generator costs more than the look
        if type(each) in _SIZED and len(cast("str", each)) > BULKY:
            return True
    return False


def pieces(content: object, protocol: int, buffer_callback: Buffers | None = None) -> list[bytes]:
    """As `dumps`, in pieces: large bytes are one as they are, where `dumps` copies them several times."""
    sink = _Pieces()
    _pickler(cast(io.BytesIO, sink), protocol, buffer_callback).dump(content)
    return sink.written


def joined(found: Sequence[bytes], allocate: Callable[[int], bytearray | memoryview] | None) -> Data:
    """Pieces behind one another, in memory that ``allocate`` gives; without one in bytes."""
    if allocate is None:
        return b"".join(found)
    size, at = sum(map(len, found)), 0
    memory = memoryview(allocate(size))[:size]
    for each in found:
        memory[at : at + len(each)] = each
        at += len(each)
    return memory


class _Pieces:
    """What a pickler writes to."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append


def _pickler(sink: io.BytesIO, protocol: int, buffer_callback: Buffers | None) -> pickle.Pickler:
    pickler = pickle.Pickler(sink, protocol, buffer_callback=buffer_callback)
    if dumps is _dumps:
        pickler.dispatch_table = _reducers
    return pickler


def _dumps(content: object, protocol: int, *, buffer_callback: Buffers | None = None) -> bytes:
    sink = io.BytesIO()
    _pickler(sink, protocol, buffer_callback).dump(content)
    return sink.getvalue()
