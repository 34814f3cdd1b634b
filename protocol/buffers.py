"""One frame for a pickle and its out-of-band buffers.

Pickle 5 with its buffers beside it, in one frame, integers little-endian::

    offset  size     content
    0       4        b"PZB1"
    4       4        count of buffers, unsigned
    8       8        length of the pickle, unsigned
    16      8*count  length of each buffer, unsigned
    16+8*count       the pickle
    ...              each buffer, at the next multiple of 64 from the frame start, zeros between

The frame ends with the last byte of the last buffer (of the pickle when there is none). Encoding copies
every buffer once; decoding copies none: arrays are views that keep the frame alive, and read-only where
it is.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import array_header, pickles
from .array_header import ALIGNMENT, FIXED, MAGIC, head_of
from .errors import DecodeError
from .lazily import Lazily

if TYPE_CHECKING:
    import numpy as np

    from .arrays import Array
else:
    np = Lazily("numpy")

Allocate = Callable[[int], "bytearray | memoryview"]
"""Gives memory of at least that many bytes, which may hold anything."""

LARGE = 1 << 16
"""Buffers of together more than this many bytes are worth a frame of their own making."""

HUGE = 1 << 22
"""Bytes of a buffer that takes so long to copy, half a millisecond, that other threads run meanwhile."""


def encode(content: object, allocate: Allocate | None = None) -> memoryview:
    """Return content as one frame; every contiguous array is copied once.

    Args:
        content: what to send.
        allocate: gives the memory that the frame begins in; default new memory.

    Whatever pickle raises for content that it cannot express passes through.
    """
    return write(*(array_header.make(content) or _taken_apart(content)), allocate)


def encode_around(content: object, allocate: Allocate | None = None) -> tuple[memoryview, list[memoryview]]:
    """As `encode`, but the buffers are not copied: where they belong in the frame is returned with it.

    The frame is whole once each of these views is written; until then it may hold anything there.
    """
    return _lay_out(*(array_header.make(content) or _taken_apart(content)), allocate)


def _taken_apart(content: object) -> tuple[bytes, Sequence[memoryview]]:
    """The head of the frame of a content that is pickled, and its buffers."""
    found: list[pickle.PickleBuffer] = []
    pickled = pickles.dumps(content, 5, buffer_callback=found.append)
    views = [buffer.raw() for buffer in found]
    return head_of(pickled, views), views


class Outside(list[memoryview]):
    """The buffers that do not fit into the pickle: the first ones go inside, up to `LARGE` bytes together."""

    seen = 0

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        """True for a buffer that goes inside the pickle; the others are kept."""
        view = buffer.raw()
        self.seen += view.nbytes
        if self.seen > LARGE:
            self.append(view)
        return self.seen <= LARGE

    def beside(self, pickled: bytes, allocate: Allocate | None) -> memoryview:
        """The frame of the pickle and these buffers, in memory that ``allocate`` gives."""
        return write(head_of(pickled, self), self, allocate)


def write(head: bytes, views: Sequence[memoryview], allocate: Allocate | None) -> memoryview:
    """The frame with this head and the buffers that it is of, which are copied; arguments as `encode`."""
    frame, places = _lay_out(head, views, allocate)
    for place, view in zip(places, views, strict=True):
        if view.nbytes < HUGE:
            place[:] = view
        else:
            np.frombuffer(place, np.uint8)[:] = np.frombuffer(view, np.uint8)
    return frame


def _lay_out(
    head: bytes, views: Sequence[memoryview], allocate: Allocate | None
) -> tuple[memoryview, list[memoryview]]:
    """A frame without the buffers, and where in it they belong."""
    end = offset = len(head)
    for view in views:
        end += -end % ALIGNMENT + view.nbytes
    # Unlike bytearray, `empty` does not write zeros first.
    frame = memoryview(np.empty(end, np.uint8).data if allocate is None else allocate(end))[:end]
    frame[:offset] = head
    places: list[memoryview] = []
    for view in views:
        if gap := -offset % ALIGNMENT:
            frame[offset : offset + gap] = bytes(gap)
        start = offset + gap
        offset = start + view.nbytes
        places.append(frame[start:offset])
    return frame, places


def is_light(data: bytes | bytearray | memoryview) -> bool:
    """Whether a frame, as far as its head tells, takes microseconds to decode, whatever its size."""
    _, count, pickled = FIXED.unpack_from(data)
    return 8 * count + pickled <= LARGE


def recall(data: bytes | bytearray | memoryview) -> Array | None:
    """The one array that a frame is known to hold, in place; None when that is to be found out.

    It is as writable as the data is, unless it was read-only for its sender.
    """
    if len(data) < FIXED.size:
        return None
    _, count, pickled = FIXED.unpack_from(data)
    if count != 1 or pickled > array_header.LONGEST:
        return None
    start = FIXED.size + 8 + pickled
    start += -start % ALIGNMENT
    known = array_header.known.get(bytes(data[:start]))
    if known is None or known.size != len(data) - start:
        return None
    array: Array = np.ndarray(known.shape, known.dtype, data, start, order=known.order)
    if known.fixed:
        array.flags.writeable = False
    return array


def split(data: bytes | bytearray | memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return the pickle and its buffers as views, read-only ones where the data is.

    Raises:
        DecodeError: magic, count, length, padding or total size do not fit together.
    """
    frame = memoryview(data).cast("B")
    if len(frame) < FIXED.size:
        raise DecodeError(f"a frame of {len(frame)} bytes is too short for 'buffers'")
    magic, count, pickled = FIXED.unpack_from(frame)
    offset = FIXED.size + 8 * count
    if magic != MAGIC or offset + pickled > len(frame):
        raise DecodeError("not a 'buffers' frame, or a truncated one")
    lengths: tuple[int, ...] = struct.unpack_from(f"<{count}Q", frame, FIXED.size)
    body = frame[offset : offset + pickled]
    offset += pickled
    views: list[memoryview] = []
    for length in lengths:
        start = offset + -offset % ALIGNMENT
        if start + length > len(frame):
            raise DecodeError("a buffer reaches beyond the end of the frame")
        if any(frame[offset:start]):
            raise DecodeError("padding between buffers is not zero")
        offset = start + length
        views.append(frame[start:offset])
    if offset != len(frame):
        raise DecodeError(f"{len(frame) - offset} bytes after the last buffer")
    return body, views
