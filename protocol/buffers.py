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
every buffer once; decoding copies none: arrays are read-only views that keep the frame alive.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import cast

from .errors import DecodeError

_MAGIC = b"PZB1"
_ALIGNMENT = 64
_HEAD = struct.Struct("<4sIQ")


class _Chunks:
    """Write-only file that keeps what the pickler writes, without copying it."""

    __slots__ = ("chunks", "write")

    def __init__(self) -> None:
        self.chunks: list[bytes | bytearray | memoryview] = []
        self.write = self.chunks.append


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def encode(content: object) -> bytearray:
    """Return content as one frame; every contiguous array and large bytes object is copied once.

    Whatever pickle raises for content that it cannot express passes through.
    """
    found: list[pickle.PickleBuffer] = []
    sink = _Chunks()
    pickle.Pickler(cast(io.BytesIO, sink), 5, buffer_callback=found.append).dump(content)
    views = [buffer.raw() for buffer in found]
    lengths = [view.nbytes for view in views]
    start = _HEAD.size + 8 * len(views)
    pickled = sum(map(len, sink.chunks))
    end = start + pickled
    for length in lengths:
        end = _aligned(end) + length
    frame = bytearray(end)
    _HEAD.pack_into(frame, 0, _MAGIC, len(views), pickled)
    struct.pack_into(f"<{len(views)}Q", frame, _HEAD.size, *lengths)
    target = memoryview(frame)
    offset = start
    for chunk in sink.chunks:
        target[offset : offset + len(chunk)] = chunk
        offset += len(chunk)
    for view in views:
        offset = _aligned(offset)
        target[offset : offset + view.nbytes] = view
        offset += view.nbytes
    return frame


def split(data: bytes | bytearray | memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return the pickle and its buffers as read-only views.

    Raises:
        DecodeError: magic, count, length, padding or total size do not fit together.
    """
    frame = memoryview(data).cast("B").toreadonly()
    if len(frame) < _HEAD.size:
        raise DecodeError(f"a frame of {len(frame)} bytes is too short for 'buffers'")
    magic, count, pickled = cast("tuple[bytes, int, int]", _HEAD.unpack_from(frame))
    offset = _HEAD.size + 8 * count
    if magic != _MAGIC or offset + pickled > len(frame):
        raise DecodeError("not a 'buffers' frame, or a truncated one")
    lengths = cast("tuple[int, ...]", struct.unpack_from(f"<{count}Q", frame, _HEAD.size))
    body = frame[offset : offset + pickled]
    offset += pickled
    views: list[memoryview] = []
    for length in lengths:
        start = _aligned(offset)
        if start + length > len(frame):
            raise DecodeError("a buffer reaches beyond the end of the frame")
        if any(frame[offset:start]):
            raise DecodeError("padding between buffers is not zero")
        offset = start + length
        views.append(frame[start:offset])
    if offset != len(frame):
        raise DecodeError(f"{len(frame) - offset} bytes after the last buffer")
    return body, views
