"""How an unsigned pickle builds numpy dtypes, arrays and scalars: checked parts, public constructors."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, cast

from . import arrays
from .errors import DecodeError, SerializerRefused
from .lazily import np
from .unpickle_base import Args, Draft, Meter, is_dict, is_tuple

_ALIGNED_STRUCT = 0x80
_SCALARS = (bool, int, float, complex, str, bytes, dt.date, dt.timedelta, type(None))


def dtype(_meter: Meter, args: Args) -> object:
    """Begin a dtype from its code; its state completes it."""
    if len(args) != 3 or type(args[0]) is not str:
        raise DecodeError("malformed dtype")
    code = args[0]
    if not re.fullmatch(r"\|?O8?|\|?b1|[<>|=]?[biufcSUVmM]\d{1,9}", code):
        raise SerializerRefused(f"an unsigned pickle may not contain a dtype {code[:40]!r}")
    return Draft(lambda _meter, state: _finish_dtype(code, state))


def _finish_dtype(code: str, state: object) -> object:
    if not is_tuple(state) or len(state) < 8:
        raise DecodeError("malformed dtype state")
    _version, order, block, names, fields, itemsize, _alignment, flags = cast("tuple[Any, ...]", state[:8])
    if order not in ("<", ">", "|", "="):
        raise DecodeError("malformed dtype state")
    if block is not None:
        if not is_tuple(block) or len(block) != 2:
            raise DecodeError("malformed dtype state")
        return arrays.subarray(_final_dtype(block[0]), block[1])
    if names is not None:
        return _finish_record(names, fields, itemsize, flags)
    if code[-2:] in ("m8", "M8") and len(state) > 8:
        code += _unit(state[8])
    base = np.dtype(code)
    return base if order in "|=" else base.newbyteorder(order)


def _final_dtype(value: object) -> arrays.DType:
    if not isinstance(value, np.dtype):
        raise DecodeError("a dtype is missing")
    return cast("arrays.DType", value)


def _finish_record(names: object, fields: object, itemsize: object, flags: object) -> object:
    if not is_tuple(names) or not is_dict(fields) or type(flags) is not int:
        raise DecodeError("malformed record dtype")
    if not all(type(name) is str for name in names):  # a hash may unfold what is shared without end
        raise DecodeError("names of a record dtype must be strings")
    parts = [_field(fields.get(name)) for name in names]
    titles = [part[2] for part in parts]
    if not set(fields) <= {*names, *titles}:
        raise DecodeError("a record dtype has fields without a name")
    return arrays.record(
        {
            "names": names,
            "titles": titles,
            "formats": [part[0] for part in parts],
            "offsets": [part[1] for part in parts],
            "itemsize": itemsize,
            "align": bool(flags & _ALIGNED_STRUCT),
        }
    )


def _field(part: object) -> tuple[arrays.DType, object, str | None]:
    if not is_tuple(part) or len(part) not in (2, 3):
        raise DecodeError("malformed field of a record dtype")
    form, offset, title = (*part, None)[:3]
    if not (title is None or type(title) is str):
        raise DecodeError("titles of a record dtype must be strings")
    return _final_dtype(form), offset, title


def _unit(metadata: object) -> str:
    if not is_tuple(metadata) or len(metadata) != 2:
        raise DecodeError("malformed datetime unit")
    parts = metadata[1]
    if not is_tuple(parts) or len(parts) != 4:
        raise DecodeError("malformed datetime unit")
    unit, count, denominator, _event = cast("tuple[Any, ...]", parts)
    if type(unit) is not bytes or type(count) is not int or denominator != 1 or count < 1:
        raise DecodeError("malformed datetime unit")
    text = unit.decode("utf-8")
    if not re.fullmatch("generic|Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as", text):
        raise DecodeError("unknown datetime unit")
    return "" if text == "generic" else f"[{count}{text}]"


def reconstruct(_meter: Meter, args: Args) -> object:
    """Begin an array; its state completes it."""
    if len(args) != 3 or args[0] is not np.ndarray:
        raise SerializerRefused("an unsigned pickle may not contain subclasses of numpy arrays")
    return Draft(_finish_array)


def _finish_array(meter: Meter, state: object) -> object:
    if not is_tuple(state) or len(state) != 5:
        raise DecodeError("malformed array state")
    _version, shape, form, fortran, raw = state
    dtype = _final_dtype(form)
    order = "F" if fortran is True else "C"
    if type(raw) is list:
        return _fill(meter, dtype, arrays.check_shape(shape), order, cast("list[object]", raw))
    if type(raw) is not bytes:
        raise DecodeError("array bytes are missing")
    return arrays.view(bytearray(raw), dtype, shape, order)


def _fill(
    meter: Meter, dtype: arrays.DType, shape: tuple[int, ...], order: str, items: list[object]
) -> object:
    if not dtype.hasobject:
        raise DecodeError("array items are missing")
    meter.charge(len(items) * dtype.itemsize)
    flat: arrays.Array = np.empty(len(items), dtype)
    if dtype.kind == "O":
        for index, item in enumerate(items):
            flat[index] = item
    else:
        _fill_records(flat, items)
    return flat.reshape(shape, order=cast(Any, order))


def _fill_records(flat: arrays.Array, items: list[object]) -> None:
    for index, item in enumerate(items):
        _check_item(flat.dtype, item)
        flat[index] = item


def _check_item(dtype: arrays.DType, item: object) -> None:
    # Whatever numpy takes for a sequence it would unfold, however large that becomes.
    if dtype.names is not None:
        if not is_tuple(item) or len(item) != len(dtype.names):
            raise DecodeError("an item of a record array must be a tuple of its fields")
        for name, part in zip(dtype.names, item, strict=True):
            _check_item(dtype[name], part)
    elif dtype.subdtype is not None:
        if type(item) is not np.ndarray or item.dtype.hasobject or item.shape != dtype.shape:
            raise DecodeError("a subarray in a record must be an array of its shape, without objects")
    elif dtype.kind != "O" and not isinstance(item, (*_SCALARS, np.generic)):
        raise DecodeError(f"a {type(item).__name__} does not fit into a field of a record")


def from_buffer(_meter: Meter, args: Args) -> object:
    """Return an array over in-band bytes or an out-of-band buffer."""
    if len(args) != 4 or type(args[0]) not in (bytes, bytearray, memoryview):
        raise DecodeError("malformed array")
    raw, form, shape, order = args
    return arrays.view(cast(memoryview, raw), _final_dtype(form), shape, order)


def scalar(_meter: Meter, args: Args) -> object:
    """Return a numpy scalar from its bytes."""
    if len(args) != 2 or type(args[1]) is not bytes:
        raise SerializerRefused("an unsigned pickle may not contain numpy scalars of objects")
    return arrays.view(bytearray(args[1]), _final_dtype(args[0]), (), "C")[()]
