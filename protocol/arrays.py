"""Numpy arrays as a plain header and raw bytes, and back; nothing is trusted on the way back.

Header of an array: ``{"dtype": …, "shape": [int, …], "order": "C" | "F"}``. A dtype is its numpy string
(``"<f8"``, ``">M8[ns]"``, ``"|S3"``), or for a subarray ``{"base": dtype, "shape": […]}``, or for a record
``{"names": […], "titles": […], "formats": [dtype, …], "offsets": […],
"itemsize": int, "align": bool}``. Object arrays and
numpy's variable-width strings have no such form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .errors import DecodeError, SerializeError
from .lazily import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    DType = np.dtype[Any]

_SIMPLE = re.compile(r"[<>|=]?[biufcSUVmM]\d{1,9}(\[\d{0,9}(generic|Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as)\])?")
_MAX_DIMENSIONS = 32
_MAX_DEPTH = 16
_MAX_FIELDS = 1 << 14
_MAX_EMPTY_ITEMS = 1 << 16
_LAST_CODE_POINT = 0x10FFFF


def pack(array: Array) -> tuple[dict[str, object], memoryview]:
    """Return header and raw bytes of an array; contiguous arrays are not copied.

    Raises:
        SerializeError: its dtype has no portable form.
    """
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    header: dict[str, object] = {
        "dtype": describe(array.dtype),
        "shape": list(array.shape),
        "order": "F" if fortran else "C",
    }
    if array.nbytes == 0:
        return header, memoryview(b"")
    flat = np.ascontiguousarray(array.T if fortran else array).reshape(-1)
    return header, flat.view(np.ndarray).view(np.uint8).data


def unpack(header: object, raw: bytes | bytearray | memoryview) -> Array:
    """Return a view of ``raw`` as the array that the header describes; read-only if ``raw`` is.

    Raises:
        DecodeError: the header is malformed or does not fit the number of bytes.
    """
    if not isinstance(header, dict):
        raise DecodeError("the header of an array must be an object")
    fields = cast("dict[str, object]", header)
    if set(fields) != {"dtype", "shape", "order"}:
        raise DecodeError("the header of an array needs dtype, shape and order")
    return view(raw, parse(fields["dtype"]), fields["shape"], fields["order"])


def view(raw: bytes | bytearray | memoryview, dtype: DType, shape: object, order: object) -> Array:
    """Return ``raw`` seen as an array of exactly its size.

    Raises:
        DecodeError: object dtype, impossible shape, wrong number of bytes, or text that is not Unicode.
    """
    sizes = check_shape(shape)
    if dtype.hasobject or dtype.kind not in "biufcSUVmM":
        raise DecodeError(f"dtype {dtype.kind!r} cannot be read from bytes")
    if order not in ("C", "F"):
        raise DecodeError("array order must be 'C' or 'F'")
    count = math.prod(sizes)
    if count * dtype.itemsize != memoryview(raw).nbytes:
        raise DecodeError(
            f"{memoryview(raw).nbytes} bytes do not make an array of {count} x {dtype.itemsize}"
        )
    if dtype.itemsize == 0 and count > _MAX_EMPTY_ITEMS:
        raise DecodeError("too many items of size zero")
    try:
        array: Array = np.ndarray(sizes, dtype, buffer=raw, order=order)
    except (ValueError, TypeError) as error:
        raise DecodeError(f"impossible array: {error}") from error
    _check_text(array)
    return array


def check_shape(shape: object) -> tuple[int, ...]:
    """Return a shape as a tuple of ints.

    Raises:
        DecodeError: not a sequence of at most 32 ints from 0.
    """
    if not isinstance(shape, (list, tuple)):
        raise DecodeError("a shape must be a sequence")
    sizes = cast("Sequence[object]", shape)
    if len(sizes) > _MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in sizes):
        raise DecodeError("a shape must hold at most 32 ints from 0")
    known = tuple(cast("Sequence[int]", sizes))
    if 0 in known and math.prod(known[: known.index(0)]) > _MAX_EMPTY_ITEMS:
        raise DecodeError("too many parts of size zero")
    return known


def _check_text(array: Array) -> None:
    # Numpy hands code points to CPython unchecked, which fails much later with SystemError.
    if array.size == 0 or array.dtype.itemsize == 0:
        return
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _check_text(array[name])
    elif array.dtype.kind == "U":
        codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
        if codes.max() > _LAST_CODE_POINT:
            raise DecodeError("array text is not Unicode")


def describe(dtype: DType) -> object:
    """Return the portable form of a dtype.

    Raises:
        SerializeError: objects, variable-width strings, or a user's dtype inside.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": describe(base), "shape": list(shape)}
    if dtype.names is not None and dtype.fields is not None:
        table = cast("Mapping[str, tuple[Any, ...]]", dtype.fields)
        fields = [table[name] for name in dtype.names]
        titles = [field[2] if len(field) > 2 else None for field in fields]
        if not all(title is None or type(title) is str for title in titles):
            raise SerializeError("field titles that are not strings have no portable form")
        return {
            "names": list(dtype.names),
            "titles": titles,
            "formats": [describe(field[0]) for field in fields],
            "offsets": [field[1] for field in fields],
            "itemsize": dtype.itemsize,
            "align": dtype.isalignedstruct,
        }
    if not _SIMPLE.fullmatch(dtype.str) or np.dtype(dtype.str) != dtype:
        raise SerializeError(f"dtype {dtype} has no portable form")
    return dtype.str


def parse(form: object, depth: int = 0) -> DType:
    """Return the dtype that :func:`describe` described.

    Raises:
        DecodeError: malformed, nested too deeply, or unknown on this machine.
    """
    if depth > _MAX_DEPTH:
        raise DecodeError("a dtype is nested too deeply")
    try:
        if isinstance(form, str):
            if not _SIMPLE.fullmatch(form):
                raise DecodeError(f"dtype {form[:40]!r} is not known")
            return np.dtype(form)
        if not isinstance(form, dict):
            raise DecodeError("a dtype must be a string or an object")
        fields = cast("dict[str, object]", form)
        if set(fields) == {"base", "shape"}:
            return subarray(parse(fields["base"], depth + 1), fields["shape"])
        if set(fields) != {"names", "titles", "formats", "offsets", "itemsize", "align"}:
            raise DecodeError("a dtype needs other fields")
        fields["formats"] = [parse(item, depth + 1) for item in _list(fields["formats"])]
        return record(fields)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(f"impossible dtype: {error}") from error


def subarray(base: DType, shape: object) -> DType:
    """Return the dtype of a fixed-size block inside a record."""
    made = np.dtype((base, check_shape(shape)))
    if made.itemsize == 0 and math.prod(made.shape) > 1:
        raise DecodeError("a subarray of items of size zero")
    return made


def record(fields: Mapping[str, object]) -> DType:
    """Return a record dtype; numpy itself checks that every field lies inside the item.

    Args:
        fields: the portable form of a record, with finished dtypes as ``formats``.

    Raises:
        DecodeError: a part of the wrong type, or parts that do not fit together.
    """
    itemsize, align = fields["itemsize"], fields["align"]
    names, titles, offsets = (_list(fields[key]) for key in ("names", "titles", "offsets"))
    if type(itemsize) is not int or type(align) is not bool:
        raise DecodeError("a record dtype needs an int itemsize and a bool align")
    if not all(type(offset) is int and offset >= 0 for offset in offsets):
        raise DecodeError("offsets of a record dtype must be ints from 0")
    if not all(type(name) is str for name in names):
        raise DecodeError("names of a record dtype must be strings")
    if not all(title is None or type(title) is str for title in titles):
        raise DecodeError("titles of a record dtype must be strings")
    spec = {**fields, "names": names, "titles": titles, "offsets": offsets}
    del spec["align"]
    try:
        made = np.dtype(cast(Any, spec), align=align)
    except (ValueError, TypeError, OverflowError) as error:
        raise DecodeError(f"impossible record dtype: {error}") from error
    _check_record(made)
    return made


def _check_record(record: DType) -> None:
    # One dtype may stand in many fields, each of which has its own fields: a few hundred bytes make millions.
    left, seen = [(record, 0)], 0
    while left:
        dtype, depth = left.pop()
        base = dtype.base
        seen += 1
        if depth > _MAX_DEPTH or seen + len(base.names or ()) > _MAX_FIELDS:
            raise DecodeError(f"a record dtype has more than {_MAX_FIELDS} fields, or is nested too deeply")
        left += [(base[name], depth + 1) for name in base.names or ()]


def _list(value: object) -> list[object]:
    if not isinstance(value, (list, tuple)):
        raise DecodeError("a list is missing in a dtype")
    return list(cast("Sequence[object]", value))
