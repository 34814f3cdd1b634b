"""Array headers: what stands before nothing but one array, remembered, because a stream of them repeats it.

The pickle beside a buffer says dtype, shape and order, no more, and is the same for every array of a kind.
Once the restricted unpickler has found it to be that, the next array behind the same bytes is made without
any: about thirty microseconds less for each unsigned one, and three for a signed one. To make it takes numpy
six microseconds, and more than ten times that when it did so last a while ago. What is remembered is a hint
only, and is forgotten when there is too much of it.
"""

from __future__ import annotations

import copyreg
import pickle
import pickletools
import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import limits, pickles
from .lazily import Lazily, is_array
from .memo import Memo
from .pickles import Data

if TYPE_CHECKING:
    import numpy as np
else:
    np = Lazily("numpy")

MAGIC = b"PZB1"
ALIGNMENT = 64

FIXED = struct.Struct("<4sIQ")
"""Magic, count of buffers, length of the pickle."""

_bytes_of = attrgetter("nbytes")

LONGEST = 256
"""Bytes of a pickle that is worth remembering."""

_KINDS = "biufc"  # those whose bytes can be anything


class Header(NamedTuple):
    """What a pickle makes of its only buffer.

    Attributes:
        size: bytes of the buffer.
        shape: of the array.
        dtype: of the array.
        order: of the array.
        fixed: it was read-only for its sender.
    """

    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    fixed: bool


def head_of(pickled: bytes, views: Sequence[memoryview]) -> bytes:
    """The head of a pickle and these buffers, with zeros up to where the first of them begins."""
    count = len(views)
    lengths = struct.pack(f"<{count}Q", *map(_bytes_of, views))
    head = FIXED.pack(MAGIC, count, len(pickled)) + lengths + pickled
    return head + bytes(-len(head) % ALIGNMENT) if views else head


known: Memo[bytes, Header] = Memo()
"""By all that stands before the buffer."""

_made: Memo[tuple[str, tuple[int, ...], bool], bytes] = Memo()


def make(content: object) -> tuple[bytes, tuple[memoryview]] | None:
    """The head of the frame of a plain array that lies in one piece, and the bytes that go behind it.

    None for any other content, which is to be pickled.
    """
    if not is_array(content):
        return None
    dtype, shape = content.dtype, content.shape
    if dtype.isbuiltin != 1 or (len(shape) > 1 and not content.flags.c_contiguous):
        return None
    array: Any = content  # numpy's stubs know buffers from Python 3.12 on
    try:
        raw = pickle.PickleBuffer(array).raw()
    except (BufferError, ValueError):  # it does not lie in one piece, or its elements have no plain form
        return None
    kind = dtype.char, shape, raw.readonly
    head = _made.get(kind)
    if head is None:
        if dtype.kind not in _KINDS or type(content) in copyreg.dispatch_table:
            return None
        pickled = pickles.dumps(content, 5, buffer_callback=_beside)
        head = _made.keep(kind, head_of(pickled, (raw,)), limits.current.known_array_headers)
    return head, (raw,)


def _beside(buffer: pickle.PickleBuffer) -> None:
    """A buffer is not part of the pickle."""


def learn(frame: Data, pickled: memoryview, views: Sequence[memoryview], made: object) -> None:
    """Remember what the restricted unpickler made of a pickle, when it is an array over its only buffer.

    Args:
        frame: of ``buffers``, found to be whole.
        pickled: in it.
        views: its buffers.
        made: of these.
    """
    if len(views) != 1 or len(pickled) > LONGEST or not is_array(made):
        return
    array, view = made, views[0]
    dtype, flags = array.dtype, array.flags
    if dtype.kind not in _KINDS or not flags.forc or not 0 < array.nbytes == view.nbytes:
        return
    if array.ctypes.data != np.frombuffer(view, np.uint8).ctypes.data:
        return
    fixed = any(opcode.name == "READONLY_BUFFER" for opcode, _, _ in pickletools.genops(bytes(pickled)))
    order = "C" if flags.c_contiguous else "F"
    header = Header(view.nbytes, array.shape, dtype, order, fixed)
    known.keep(bytes(frame[: -view.nbytes]), header, limits.current.known_array_headers)
