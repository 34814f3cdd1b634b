"""Fronts: what stands in a frame before the bytes of its only array, remembered, because a stream repeats it.

Head and pickle of a ``buffers`` frame say dtype, shape, order and whether the array is writable; of the array
itself they say nothing. Once a frame of one kind was made, the next needs its front and one copy. What is
remembered is forgotten when there is too much of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import limits
from .lazily import is_array

if TYPE_CHECKING:
    import numpy as np

_LONGEST = 512
_KINDS = frozenset("biufc")


class Kind(NamedTuple):
    """What the front of an array's frame depends on; ``size`` is that of the array, in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    writable: bool
    size: int


_known: dict[Kind, bytes] = {}


def kind_of(content: object) -> Kind | None:
    """The kind of an array of numbers in C order; None for everything else."""
    if not is_array(content):
        return None
    dtype, flags = content.dtype, content.flags
    if not flags.c_contiguous or dtype.kind not in _KINDS or dtype.metadata is not None:
        return None
    return Kind(dtype, content.shape, flags.writeable, content.nbytes)


def recall(kind: Kind) -> bytes | None:
    """The bytes before the array in a frame of that kind; None when none was made yet."""
    return _known.get(kind)


def learn(kind: Kind, frame: memoryview) -> None:
    """Remember the front of a frame that was made of one array of that kind."""
    if 0 < len(frame) - kind.size <= _LONGEST:
        if len(_known) >= limits.current.known_fronts:
            _known.clear()
        _known[kind] = bytes(frame[: len(frame) - kind.size])
