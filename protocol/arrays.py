"""NumPy arrays and dtypes as plain data and raw bytes.

An array is written as ``[dtype, shape, order, bytes]`` with order ``"C"`` or ``"F"``. A dtype is written as
its string (``"<f8"``, ``">M8[ns]"``), that of a record as the lists of `numpy.lib.format.dtype_to_descr`.
Every part is checked before NumPy sees it, because a message of a stranger may hold anything.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, cast

from .errors import DecodeError, SerializeError
from .lazily import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    DType = np.dtype[Any]

_SIMPLE = re.compile(r"[<>|=]?[biufcSUVmM]\d{1,9}(\[\d{0,9}(generic|Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as)\])?")
_DEPTH = 16
_DIMENSIONS = 32
_EMPTY_ITEMS = 1 << 16
_FIELDS = 1 << 12
_LAST_CODE_POINT = 0x10FFFF


def write(array: Array) -> list[object]:
    """Return dtype, shape, order and bytes; the bytes of a contiguous array are not copied.

    Raises:
        SerializeError: the dtype has no plain form, such as one with objects.
    """
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    form = write_dtype(array.dtype)
    if array.nbytes == 0:
        return [form, list(array.shape), order, b""]
    flat = np.ascontiguousarray(array.T if order == "F" else array).reshape(-1)
    return [form, list(array.shape), order, flat.view(np.ndarray).view(np.uint8).data]


def read(form: object, shape: object, order: object, raw: object) -> Array:
    """Return a view of ``raw`` as the array that `write` described; read-only if ``raw`` is.

    Raises:
        DecodeError: the parts are malformed or do not fit together.
    """
    dtype, sizes = read_dtype(form), read_shape(shape)
    if not isinstance(raw, bytes | bytearray | memoryview) or order not in ("C", "F"):
        raise DecodeError("an array needs bytes, and 'C' or 'F' as its order")
    count, size = math.prod(sizes), memoryview(cast("bytes", raw)).nbytes
    if count * dtype.itemsize != size or (not dtype.itemsize and count > _EMPTY_ITEMS):
        raise DecodeError(f"{size} bytes do not make an array of {count} x {dtype.itemsize}")
    try:
        array: Array = np.ndarray(sizes, dtype, buffer=cast("bytes", raw), order=cast("Any", order))
    except (ValueError, TypeError) as error:
        raise DecodeError(f"impossible array: {error}") from error
    _check_text(array)
    return array


def read_shape(shape: object) -> tuple[int, ...]:
    """Return a shape as a tuple of ints.

    Raises:
        DecodeError: not a list of at most 32 ints from 0.
    """
    sizes = tuple(cast("list[Any]", shape)) if isinstance(shape, list) else (-1,)
    if len(sizes) > _DIMENSIONS or not all(type(size) is int and size >= 0 for size in sizes):
        raise DecodeError("a shape must be a list of at most 32 ints from 0")
    if 0 in sizes and math.prod(sizes[: sizes.index(0)]) > _EMPTY_ITEMS:
        raise DecodeError("too many parts of size zero")
    return sizes


def write_dtype(dtype: DType) -> object:
    """Return the plain form of a dtype; errors as `write`."""
    simple = dtype.names is None
    if dtype.hasobject or (simple and (not _SIMPLE.fullmatch(dtype.str) or np.dtype(dtype.str) != dtype)):
        raise SerializeError(f"an array of dtype {dtype} has no plain form")
    return dtype.str if simple else np.lib.format.dtype_to_descr(dtype)


def read_dtype(form: object) -> DType:
    """Return the dtype that `write_dtype` described; errors as `read`."""
    try:
        return np.lib.format.descr_to_dtype(cast("Any", _descr(form, _DEPTH)))
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"impossible dtype: {error}") from error


def _descr(form: object, levels: int) -> object:
    """Return a form as `descr_to_dtype` takes it: records as lists of tuples."""
    if isinstance(form, str):
        if not _SIMPLE.fullmatch(form):
            raise DecodeError(f"dtype {form[:40]!r} is not known")
        return form
    fields = cast("list[Any]", form)
    if not isinstance(form, list) or not levels or len(fields) > _FIELDS:
        raise DecodeError(f"a record has more than {_FIELDS} fields, or more than {_DEPTH} levels")
    return [_field(field, levels - 1) for field in fields]


def _field(field: object, levels: int) -> tuple[object, ...]:
    parts: list[Any] = [*cast("list[Any]", field)] if isinstance(field, list | tuple) else []
    if len(parts) not in (2, 3):
        raise DecodeError("a field of a record needs a name, a dtype and perhaps a shape")
    names: list[Any] = [*parts[0]] if isinstance(parts[0], list | tuple) else [parts[0]]
    if not all(type(name) is str for name in names):
        raise DecodeError("the names of fields must be strings")
    name = names[0] if len(names) == 1 else tuple(names)
    return (name, _descr(parts[1], levels), *(read_shape(list(shape)) for shape in parts[2:]))


def _check_text(array: Array) -> None:
    # NumPy hands code points to CPython unchecked, which fails much later with SystemError.
    if array.size == 0 or array.dtype.itemsize == 0:
        return
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _check_text(array[name])
    elif array.dtype.kind == "U":
        codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
        if codes.max() > _LAST_CODE_POINT:
            raise DecodeError("array text is not Unicode")
