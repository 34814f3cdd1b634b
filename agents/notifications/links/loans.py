"""Loans: arrays that are written where their readers will see them, and published without a copy."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ....protocol import serializers
from ....protocol.errors import LocalProtocolError
from ....protocol.lazily import Lazily
from .encoding import Encoding
from .published import Published
from .transports import UNIX_LIMIT

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    np = Lazily("numpy")


@contextmanager
def lend(
    encoding: Encoding, published: Published, shape: int | tuple[int, ...], dtype: Any,
    publish: Callable[[Published], object], shared: bool = True,
) -> Generator[Array]:  # fmt: skip
    """A writable array that is published when the block ends, unless that raises.

    Args:
        encoding: of the publisher.
        published: what it becomes the content of.
        shape: of the array.
        dtype: of the array, without objects in it.
        publish: publishes it; gives its memory back when it raises.
        shared: it may lie in shared memory.

    Raises:
        LocalProtocolError: for a dtype with objects.
    """
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise LocalProtocolError(f"an array of {kind} holds objects and cannot lie in shared memory")
    array = np.empty(shape, kind)
    if shared:
        array = _place(encoding, published, array)
    try:
        yield array
    except BaseException:
        encoding.give_back(published)
        raise
    array.flags.writeable = False
    published.content = array
    publish(published)


def _place(encoding: Encoding, published: Published, like: Array) -> Array:
    """An array like another, in the frame that readers get."""
    if like.nbytes <= UNIX_LIMIT:
        return like
    allocate = partial(encoding.allocate, published) if encoding.shares else None
    published.serializer, published.body, place = serializers.lay_out(like, allocate)
    return np.ndarray(like.shape, like.dtype, place)
