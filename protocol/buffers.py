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
it is. Whether they were read-only for their sender does not matter.

The pickle beside a single array says dtype, shape and order, no more, and is the same for every array of a
kind. Once the restricted unpickler has found it to be that, the next array behind the same bytes is made
without any: about thirty microseconds less for each unsigned one, and three for a signed one. To make it
takes numpy six microseconds, and more than ten times that when it did so last a while ago. What is remembered
is a hint only, and is forgotten when there is too much of it.
"""

from __future__ import annotations

import copyreg
import pickle
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from . import pickles
from .errors import DecodeError
from .lazily import is_array, np
from .memo import Memo
from .pickles import Data

_KNOWN_ARRAY_HEADERS = 256
"""Pickles of arrays that are remembered; then it begins anew."""


if TYPE_CHECKING:
    from .arrays import Array

MAGIC = b"PZB1"
ALIGNMENT = 64

FIXED = struct.Struct("<4sIQ")
"""Magic, count of buffers, length of the pickle."""

_bytes_of = attrgetter("nbytes")

LONGEST = 256
"""Bytes of a pickle that is worth remembering."""

_KINDS = "biufc"  # those whose bytes can be anything

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
    return write(*(of_array(content) or _taken_apart(content)), allocate)


def encode_around(content: object, allocate: Allocate | None = None) -> tuple[memoryview, list[memoryview]]:
    """As `encode`, but the buffers are not copied: where they belong in the frame is returned with it.

    The frame is whole once each of these views is written; until then it may hold anything there.
    """
    return _lay_out(*(of_array(content) or _taken_apart(content)), allocate)


def _taken_apart(content: object) -> tuple[bytes, Sequence[memoryview]]:
    """The head of the frame of a content that is pickled, and its buffers."""
    found: list[pickle.PickleBuffer] = []
    pickled = pickles.dumps(content, 5, buffer_callback=found.append)
    views = [buffer.raw() for buffer in found]
    return head_of(pickled, views), views


class Outside(list[memoryview]):
    """The buffers that do not fit into the pickle: the first ones go inside, up to `LARGE` bytes together.

    Read-only ones stay outside, as they would be read-only for the receiver too.
    """

    seen = 0

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        """True for a buffer that goes inside the pickle; the others are kept."""
        view = buffer.raw()
        self.seen += view.nbytes
        inside = self.seen <= LARGE and not view.readonly
        if not inside:
            self.append(view)
        return inside

    def beside(self, pickled: bytes, allocate: Allocate | None) -> memoryview:
        """The frame of the pickle and these buffers, in memory that ``allocate`` gives."""
        return write(head_of(pickled, self), self, allocate)


def head_of(pickled: bytes, views: Sequence[memoryview]) -> bytes:
    """The head of a pickle and these buffers, with zeros up to where the first of them begins."""
    count = len(views)
    lengths = struct.pack(f"<{count}Q", *map(_bytes_of, views))
    head = FIXED.pack(MAGIC, count, len(pickled)) + lengths + pickled
    return head + bytes(-len(head) % ALIGNMENT) if views else head


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


def is_light(data: Data) -> bool:
    """Whether a frame, as far as its head tells, takes microseconds to decode, whatever its size."""
    _, count, pickled = FIXED.unpack_from(data)
    return 8 * count + pickled <= LARGE


def split(data: Data) -> tuple[memoryview, list[memoryview]]:
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


# --- arrays alone ------------------------------------------------------------------------------------


class Header(NamedTuple):
    """What a pickle makes of its only buffer.

    Attributes:
        size: bytes of the buffer.
        shape: of the array.
        dtype: of the array.
        order: of the array.
    """

    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]


known: Memo[bytes, Header] = Memo()
"""By all that stands before the buffer."""

_made: Memo[tuple[str, tuple[int, ...], bool], bytes] = Memo()


def of_array(content: object) -> tuple[bytes, tuple[memoryview]] | None:
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
        head = _made.keep(kind, head_of(pickled, (raw,)), _KNOWN_ARRAY_HEADERS)
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
    order = "C" if flags.c_contiguous else "F"
    header = Header(view.nbytes, array.shape, dtype, order)
    known.keep(bytes(frame[: -view.nbytes]), header, _KNOWN_ARRAY_HEADERS)


def recall(data: Data) -> Array | None:
    """The one array that a frame is known to hold, in place; None when that is to be found out.

    It is as writable as the data is.
    """
    if len(data) < FIXED.size:
        return None
    _, count, pickled = FIXED.unpack_from(data)
    if count != 1 or pickled > LONGEST:
        return None
    start = FIXED.size + 8 + pickled
    start += -start % ALIGNMENT
    header = known.get(bytes(data[:start]))
    if header is None or header.size != len(data) - start:
        return None
    return np.ndarray(header.shape, header.dtype, data, start, order=header.order)
