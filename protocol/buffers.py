"""One frame for an encoded content and the large buffers beside it, such as the bytes of arrays.

Integers are little-endian::

    offset  size     content
    0       4        b"PZB1"
    4       4        count of buffers, unsigned
    8       8        length of the body, unsigned
    16      8*count  length of each buffer, unsigned
    16+8*count       the body: a pickle in ``buffers``, MessagePack in ``arrays``
    ...              each buffer, at the next multiple of 64 from the frame start, zeros between

The frame ends with the last byte of the last buffer (of the body when there is none). Encoding copies every
buffer once. Decoding copies none: arrays are views that keep the frame alive, and read-only where it is.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Sequence

from .errors import DecodeError
from .lazily import np

Data = bytes | bytearray | memoryview

Allocate = Callable[[int], "bytearray | memoryview"]
"""Gives memory of at least that many bytes, which may hold anything."""

MAGIC = b"PZB1"
ALIGNMENT = 64
FIXED = struct.Struct("<4sIQ")
"""Magic, count of buffers, length of the body."""

LARGE = 1 << 16
"""Buffers of together more than this many bytes are worth a frame of their own making."""

MOST = 1 << 16
"""Buffers of a frame, each of which costs its receiver more than an empty one costs its sender."""

_HUGE = 1 << 22
"""Bytes that take half a millisecond to copy, in which other threads may run."""


class Outside(list[memoryview]):
    """The buffers that do not go into the body: the first ones do, up to `LARGE` bytes together.

    Read-only ones stay outside, because inside a pickle they would be read-only for the receiver, too.
    """

    seen = 0

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        """Return True for a buffer that goes into the body; keep the others."""
        return not self.takes(buffer.raw())

    def takes(self, view: memoryview) -> bool:
        """Keep a buffer that does not go into the body; return whether it was kept."""
        self.seen += view.nbytes
        if (self.seen <= LARGE and not view.readonly) or len(self) >= MOST:
            return False
        self.append(view)
        return True


def write(body: bytes, views: Sequence[memoryview], allocate: Allocate | None = None) -> memoryview:
    """Return the frame of a body and its buffers, which are copied.

    Args:
        body: the encoded content.
        views: its buffers.
        allocate: gives the memory for the frame; default new memory.
    """
    frame, places = lay_out(body, views, allocate)
    for place, view in zip(places, views, strict=True):
        if view.nbytes < _HUGE:
            place[:] = view
        else:
            np.frombuffer(place, np.uint8)[:] = np.frombuffer(view, np.uint8)
    return frame


def lay_out(
    body: bytes, views: Sequence[memoryview], allocate: Allocate | None = None
) -> tuple[memoryview, list[memoryview]]:
    """As `write`, but return the places of the buffers in the frame instead of copying them there."""
    lengths = [view.nbytes for view in views]
    head = FIXED.pack(MAGIC, len(views), len(body)) + struct.pack(f"<{len(views)}Q", *lengths) + body
    offset, spans = len(head), list[tuple[int, int]]()
    for length in lengths:
        start = offset + -offset % ALIGNMENT
        spans.append((offset, start))
        offset = start + length
    # Unlike bytearray, `empty` does not write zeros first.
    frame = memoryview(np.empty(offset, np.uint8).data if allocate is None else allocate(offset))[:offset]
    frame[: len(head)] = head
    for end, start in spans:
        frame[end:start] = bytes(start - end)
    return frame, [frame[start : start + size] for (_, start), size in zip(spans, lengths, strict=True)]


def is_light(data: Data) -> bool:
    """Return whether a frame takes microseconds to decode, whatever its size: its body is short."""
    _, count, body = FIXED.unpack_from(data)
    return 8 * count + body <= LARGE


def split(data: Data) -> tuple[memoryview, list[memoryview]]:
    """Return the body and its buffers as views, read-only ones where the data is.

    Raises:
        DecodeError: magic, count, length, padding or total size do not fit together.
    """
    frame = memoryview(data).cast("B")
    if len(frame) < FIXED.size:
        raise DecodeError(f"a frame of {len(frame)} bytes is too short for buffers")
    magic, count, size = FIXED.unpack_from(frame)
    offset = FIXED.size + 8 * count
    if magic != MAGIC or offset + size > len(frame) or count > MOST:
        raise DecodeError("not a frame of buffers, a truncated one, or one of too many")
    lengths: tuple[int, ...] = struct.unpack_from(f"<{count}Q", frame, FIXED.size)
    body = frame[offset : offset + size]
    offset += size
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
