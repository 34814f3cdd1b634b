"""Contents of notifications, and what they are as columns; each is decoded as that of a stranger."""

from __future__ import annotations

import hashlib
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...protocol import data_libraries, serializers
from ...protocol.errors import DecodeError, SerializerRefused
from ...protocol.frames import Buffer
from ..schema import LIST_NUMBERS, blob_path
from . import bounds
from .plain import magnitude_of, to_json

_INT64 = 1 << 63

_SCALAR = rb"(?:G.{8}|K.|M..|J.{4}|[N\x88\x89])"
_plain = re.compile(
    rb"\x80[\x02-\x05](?:\x95(.{8}))?(?:%b|%b\x85\x94|%b{2}\x86\x94|%b{3}\x87\x94)\." % ((_SCALAR,) * 4),
    re.DOTALL,
).fullmatch
"""A number, bool or None, or a tuple of up to three of them, with or without the frame of protocol 4."""

_LONGEST = 64
_BEHIND_FRAME = 11


class Value(NamedTuple):
    """A content as the typed columns of the notifications table; see `schema`."""

    value_double: float | None = None
    value_long: int | None = None
    value_bool: bool | None = None
    value_string: str | None = None
    value_json: str | None = None
    value_list: list[float] | None = None
    dtype: str | None = None
    shape: list[int] | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    digest: str | None = None


def read_blob(journal: Path, ref: str) -> bytes:
    """A content that is kept beside the segments.

    Raises:
        JournalError: for a reference that is none.
        DecodeError: when it is too large, or not what was written.
        OSError: when it cannot be read.
    """
    path = blob_path(journal, ref)
    bounds.check_content(path.stat().st_size)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != ref:
        raise DecodeError(f"blob {ref} is damaged: its digest differs")
    return content


def decode_scalar(serializer: str, body: Buffer) -> Any:
    """The content of a notification, as `serializers.decode` gives it for an untrusted one.

    Pickles of plain scalars, which most readings are, go the shortest safe way: what matches the grammar
    above byte for byte holds nothing that could name, call or build anything, so the interpreter's own
    unpickler may read it. Everything else goes through the restricted one.

    Raises:
        DecodeError, SerializerRefused: as `serializers.decode`.
    """
    if serializer == "pickle" and len(body) <= _LONGEST:
        match = _plain(body)
        if match and (match[1] is None or int.from_bytes(match[1], "little") == len(body) - _BEHIND_FRAME):
            return pickle.loads(body)
    return serializers.decode(serializer, body, trusted=False)


def decoded(serializer: str, body: Buffer) -> Any:
    """A content.

    Raises:
        DecodeError, SerializerRefused: as `serializers.decode`, and for one that is too large.
    """
    bounds.check_content(len(body))
    try:
        return decode_scalar(serializer, body)
    except SerializerRefused:
        if not data_libraries.load():
            raise
        return decode_scalar(serializer, body)  # a frame or quantity, whose library was not imported yet


def array_in(content: object) -> np.ndarray | None:
    """The array that fills the array columns of a content; None when there is none."""
    return content if isinstance(content, np.ndarray) else to_json(content)[1]


def digest_of(array: np.ndarray) -> str:
    """SHA-256 (hex) of an array's bytes in C order."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def as_value(content: object) -> Value:
    """Typed columns of one decoded content.

    Raises:
        TypeError: for an object that is no plain data.
        DecodeError: for data that is too deep or too much (`bounds`), or contains itself.
    """
    if type(content) is float:
        return Value(content)
    if isinstance(content, np.ndarray):
        return _array_value(content)
    if isinstance(content, bool | np.bool_):
        return Value(value_bool=bool(content))
    if isinstance(content, int | np.integer) and -_INT64 <= content < _INT64:
        return Value(value_long=int(content))
    if isinstance(content, float | np.floating):
        return Value(value_double=float(content))
    if isinstance(content, str) and _is_text(content):
        return Value(value_string=str(content))
    bounds.check_plain(content)
    text, array = to_json(content)
    bounds.check_text(text)
    if array is not None:
        return _array_value(array)._replace(value_json=text)
    number = magnitude_of(content)
    return (Value() if number is None else as_value(number))._replace(value_json=text)


def _array_value(array: np.ndarray) -> Value:
    digest = None if array.dtype.hasobject else digest_of(array)
    value = Value(dtype=str(array.dtype), shape=list(array.shape), digest=digest)
    if array.dtype.kind in "buif" and array.size <= LIST_NUMBERS:
        value = value._replace(value_list=array.astype(np.float64).ravel().tolist())
    if array.dtype.kind not in "buif" or not array.size:
        return value
    with np.errstate(all="ignore"):
        return value._replace(
            min=float(array.min()),
            max=float(array.max()),
            mean=float(array.mean(dtype=np.float64)),
            std=float(array.std(dtype=np.float64)),
        )


def _is_text(content: str) -> bool:
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return True
