"""Head of a ``buffers`` frame: all that stands before its first buffer, as `buffers` lays it out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import attrgetter

MAGIC = b"PZB1"
ALIGNMENT = 64

FIXED = struct.Struct("<4sIQ")
"""Magic, count of buffers, length of the pickle."""

_bytes_of = attrgetter("nbytes")


def make(pickled: bytes, views: Sequence[memoryview]) -> bytes:
    """The head of a pickle and these buffers, with zeros up to where the first of them begins."""
    count = len(views)
    lengths = struct.pack(f"<{count}Q", *map(_bytes_of, views))
    head = FIXED.pack(MAGIC, count, len(pickled)) + lengths + pickled
    return head + bytes(-len(head) % ALIGNMENT) if views else head
