"""Array headers: a pickle of nothing but one array, remembered, because a stream of them repeats it.

The pickle beside a buffer says dtype, shape and order, no more, and is the same for every array of a kind.
Once the restricted unpickler has found it to be that, the next array is made without any: about thirty
microseconds less for each unsigned one, and three for a signed one. To make it takes numpy six microseconds,
and more than ten times that when it did so last a while ago. What is remembered is a hint only, and is
forgotten when there is too much of it.
"""

from __future__ import annotations

import copyreg
import pickle
import pickletools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from . import limits, pickles
from .lazily import Lazily, is_array

if TYPE_CHECKING:
    import numpy as np

    from .arrays import Array
else:
    np = Lazily("numpy")

_LONGEST = 256
_KINDS = "biufc"  # those whose bytes can be anything


class _Header(NamedTuple):
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    fixed: bool


_known: dict[bytes, _Header] = {}
_made: dict[tuple[str, tuple[int, ...], bool], bytes] = {}


def make(content: object) -> tuple[bytes, memoryview] | None:
    """The pickle of a plain array that lies in one piece, and the bytes that go beside it.

    None for any other content, which is to be pickled.
    """
    if not (is_array(content) and content.flags.c_contiguous):
        return None
    dtype = content.dtype
    if dtype.isbuiltin != 1 or dtype.kind not in _KINDS:
        return None
    raw = pickle.PickleBuffer(cast(bytes, content)).raw()  # numpy's stubs know buffers from Python 3.12 on
    kind = dtype.char, content.shape, raw.readonly
    pickled = _made.get(kind)
    if pickled is None:
        if type(content) in copyreg.dispatch_table:
            return None
        if len(_made) >= limits.current.known_array_headers:
            _made.clear()
        pickled = _made[kind] = pickles.dumps(content, 5, buffer_callback=_beside)
    return pickled, raw


def _beside(buffer: pickle.PickleBuffer) -> None:
    """A buffer is not part of the pickle."""


def recall(pickled: memoryview, views: Sequence[memoryview]) -> Array | None:
    """The array over its only buffer that a pickle is known to make; None when it is not known.

    Args:
        pickled: of a ``buffers`` frame.
        views: its buffers; the array is as writable as they are, unless it was read-only for its sender.
    """
    if len(views) != 1 or len(pickled) > _LONGEST:
        return None
    known = _known.get(bytes(pickled))
    if known is None or known.size != views[0].nbytes:
        return None
    array = np.ndarray(known.shape, known.dtype, cast(bytearray, views[0]), order=known.order)
    if known.fixed:
        array.flags.writeable = False
    return array


def learn(pickled: memoryview, views: Sequence[memoryview], made: object) -> None:
    """Remember what the restricted unpickler made of a pickle, when it is an array over its only buffer."""
    if len(views) != 1 or len(pickled) > _LONGEST or not is_array(made):
        return
    array, view = made, views[0]
    dtype, flags = array.dtype, array.flags
    if dtype.kind not in _KINDS or not flags.forc or not 0 < array.nbytes == view.nbytes:
        return
    if array.ctypes.data != np.frombuffer(view, np.uint8).ctypes.data:
        return
    if len(_known) >= limits.current.known_array_headers:
        _known.clear()
    order, raw = "C" if flags.c_contiguous else "F", bytes(pickled)
    fixed = any(opcode.name == "READONLY_BUFFER" for opcode, _, _ in pickletools.genops(raw))
    _known[raw] = _Header(view.nbytes, array.shape, dtype, order, fixed)
