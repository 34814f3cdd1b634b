"""Named serializers: content to bytes and back.

Names on the wire: ``pickle`` (highest protocol), ``pickle0`` … ``pickle5``, ``json``, ``msgpack``,
``buffers``. A *family* is what allow-lists speak about: ``pickle3`` belongs to ``pickle``.

======== ===================================== ============================================
family   what comes back                       untrusted content
======== ===================================== ============================================
pickle   the object                            restricted unpickler
buffers  the object; arrays in place            restricted unpickler
json     tuples as lists, keys as str          safe as it is
msgpack  tuples as lists                       safe as it is
link     a `.link_messages.LinkMessage`         safe as it is; what links and beats are made of
======== ===================================== ============================================

The byte layout of a ``buffers`` frame is described in :mod:`.buffers`.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from . import arrays, buffers, link_codec, msgpack_keys, pickles, portable
from .buffers import Allocate
from .errors import DecodeError, LocalProtocolError, SerializeError, SerializerRefused
from .lazily import is_array
from .pickles import Data
from .unpickle import restricted_loads
from .weighing import ATOMS

STRUCTURAL: frozenset[str] = frozenset({"link"})
"""Families of the wire's own structs: accepted everywhere, and not to be chosen for contents."""

Encoder = Callable[[object, Allocate | None], Data]
Decoder = Callable[[Data, bool, bool], object]


@dataclass(frozen=True, slots=True)
class _Serializer:
    family: str
    encode: Encoder
    decode: Decoder
    safe: bool


def encode(name: str, content: object, allocate: Allocate | None = None) -> Data:
    """Return ``content`` as the bytes of frame 2.

    Args:
        name: serializer name.
        content: what to send.
        allocate: gives ``buffers``, and large texts and bytes in a ``pickle``, the memory to write to, of at
            least that many bytes; default new memory. Others make bytes of their own.

    Raises:
        LocalProtocolError: no serializer has that name.
        SerializeError: the serializer cannot express the content, or the memory is too small.
    """
    serializer = _SERIALIZERS.get(name)
    if serializer is None:
        raise _unknown(name)
    try:
        return serializer.encode(content, allocate)
    except SerializeError:
        raise
    except Exception as error:
        raise inexpressible(name, error) from error


def encode_arrays(content: object, allocate: Allocate | None = None) -> tuple[str, Data]:
    """Return the better one of two serializers, and ``content`` in it, pickled once.

    It is ``buffers`` for arrays of together more than 64 KiB, else ``pickle``. Arguments and errors as
    `encode`.
    """
    try:
        array = buffers.of_array(content)
        if array is not None and array[1][0].nbytes > buffers.LARGE:
            return "buffers", buffers.write(*array, allocate)
        outside = buffers.Outside()
        if pickles.is_bulky(content):
            found = pickles.pieces(content, pickle.HIGHEST_PROTOCOL, outside)
            if outside:
                return "buffers", outside.beside(b"".join(found), allocate)
            return "pickle", pickles.joined(found, allocate)
        body = pickles.dumps(content, pickle.HIGHEST_PROTOCOL, buffer_callback=outside)
        return ("buffers", outside.beside(body, allocate)) if outside else ("pickle", body)
    except Exception as error:
        raise inexpressible("pickle", error) from error


def _scalar_in_pickle(content: object) -> bytes:
    try:
        return pickles.dumps(content, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise inexpressible("pickle", error) from error


def _scalar_in_msgpack(content: object) -> bytes:
    try:
        return _MSGPACK.encode(content)
    except Exception:  # a number of more than 64 bits, a text that is no Unicode
        return bytes(encode("msgpack", content))


ENCODE_SCALAR: Mapping[str, Callable[[object], bytes]] = {
    "pickle": _scalar_in_pickle,
    "msgpack": _scalar_in_msgpack,
}
"""As `encode`, but sooner, for an object of one of `ATOMS`; of the serializers for which this matters."""


def decode(name: str, data: Data, *, trusted: bool, writable: bool = False) -> Any:
    """Return the content that ``data`` holds.

    Args:
        name: serializer name, as received.
        data: frame 2.
        trusted: whether a key of role operator or above signed the message for this side. If not, the
            pickle families use the restricted unpickler.
        writable: True gives arrays that may be written; a ``buffers`` content that lies in writable memory,
            which nobody else may use then, is not copied for that. False gives read-only views.

    Raises:
        SerializerRefused: unknown name, a serializer that needs a signature, or a class that the
            restricted unpickler refuses.
        DecodeError: anything else that is wrong with the data.
    """
    serializer = _SERIALIZERS.get(name)
    if serializer is None:
        raise SerializerRefused(f"unknown serializer {name[:40]!r}")
    try:
        if trusted and name == "pickle":  # most are; what stands behind a trusted pickle is ignored
            return pickle.loads(data)
        return serializer.decode(data, trusted, writable)
    except (DecodeError, SerializerRefused):
        raise
    except Exception as error:
        raise DecodeError(
            f"{name} content of {len(data)} bytes cannot be decoded: {reason(error)}"
        ) from error


def validate(name: str) -> None:
    """Raise :class:`LocalProtocolError` when no serializer for contents is called ``name``."""
    if name not in _SERIALIZERS or name in STRUCTURAL:
        raise _unknown(name)


def names() -> tuple[str, ...]:
    """All names that a frame 1 may hold."""
    return tuple(_SERIALIZERS)


def family(name: str) -> str:
    """Return the family of a name: ``pickle3`` gives ``pickle``; an unknown name gives itself."""
    serializer = _SERIALIZERS.get(name)
    return name if serializer is None else serializer.family


def default_accept(serializer_name: str) -> frozenset[str]:
    """What a receiver accepts when it was not told: safe ones if its own is; errors as `validate`."""
    validate(serializer_name)
    only_safe = _SERIALIZERS[serializer_name].safe
    families = {entry.family for entry in _SERIALIZERS.values() if entry.safe or not only_safe}
    return frozenset(families - STRUCTURAL)


def _unknown(name: str) -> LocalProtocolError:
    known = ", ".join(sorted(_SERIALIZERS.keys() - STRUCTURAL))
    return LocalProtocolError(f"no serializer is called {name!r}; known are {known}")


def inexpressible(name: str, error: Exception) -> SerializeError:
    """The error of a content that a serializer failed with."""
    return SerializeError(f"{name} cannot express this content: {reason(error)}")


def reason(error: Exception) -> str:
    """Kind and beginning of the text of an error, for another error's text."""
    # The text of a foreign exception is foreign code: it may fail or be huge.
    try:
        text = str(error)
    except Exception:
        text = "no text"
    return f"{type(error).__name__}: {text[:200]}"


# --- pickle ------------------------------------------------------------------------------------------


def _decode_pickle(data: Data, trusted: bool, _writable: bool) -> object:
    return pickle.loads(data) if trusted else restricted_loads(data)


def _pickle_encoder(protocol: int) -> Encoder:
    def encoded(content: object, allocate: Allocate | None) -> Data:
        if pickles.is_bulky(content):
            return pickles.joined(pickles.pieces(content, protocol), allocate)
        return pickles.dumps(content, protocol)

    return encoded


def _decode_buffers(data: Data, trusted: bool, writable: bool) -> object:
    frame = memoryview(data) if writable else memoryview(data).toreadonly()
    if writable and frame.readonly:
        frame = memoryview(bytearray(frame))
    if (known := buffers.recall(frame)) is not None:
        return known
    body, views = buffers.split(frame)
    if not trusted:
        content = restricted_loads(body, views)
        buffers.learn(frame, body, views, content)
        return content
    content = pickles.load_exactly(body, views, writable=writable)
    if len(views) == 1 and is_array(content):
        # What a trusted pickle does beside making an array is not to be left out the next time.
        with contextlib.suppress(SerializerRefused, DecodeError):
            buffers.learn(frame, body, views, restricted_loads(body, views))
    return content


# --- json --------------------------------------------------------------------------------------------

_MARK = portable.TAG.encode("ascii")


def _encode_json(content: object, _allocate: Allocate | None) -> bytes:
    text = _JSON.encode(content)
    if portable.TAG in text:
        text = _JSON.encode(portable.escape(content))
    return text.encode("utf-8")


def _json_default(value: object) -> object:
    kind, payload = portable.to_plain(value)
    if kind == "bytes":
        return {portable.TAG: kind, "value": portable.to_base64(cast(bytes, payload))}
    return {portable.TAG: kind, "value": portable.escape(payload)}


def _json_object(writable: bool, value: dict[str, object]) -> object:
    kind = value.get(portable.TAG)
    if kind is None:
        return value
    if not isinstance(kind, str) or len(value) != 2 or "value" not in value:
        raise DecodeError("malformed tagged object")
    payload = portable.from_base64(value["value"]) if kind == "bytes" else value["value"]
    return _owned(portable.from_plain(kind, payload), writable)


def _owned(value: object, writable: bool) -> object:
    """The value; a copy of a read-only array that is to be written."""
    return value.copy("K") if writable and is_array(value) and not value.flags.writeable else value


def _decode_json(data: Data, _trusted: bool, writable: bool) -> object:
    raw = bytes(data)
    return json.loads(raw, object_hook=partial(_json_object, writable)) if _MARK in raw else json.loads(raw)


_JSON = json.JSONEncoder(default=_json_default)


# --- msgpack -----------------------------------------------------------------------------------------

_EXTENSION = 1
_ARRAY = 2


def _encode_msgpack(content: object, _allocate: Allocate | None = None) -> bytes:
    prepared = content if type(content) in ATOMS else _prepare(content)
    try:
        return _MSGPACK.encode(prepared)
    except OverflowError:
        return _MSGPACK.encode(_prepare(portable.widen(content)))


def _prepare(value: Any) -> object:
    """Replace what msgspec would encode lossily, or not at all, by extensions; plain parts are not copied."""
    kind: object = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in ATOMS:
        return value
    if kind is list or kind is tuple:
        if ATOMS.issuperset(map(type, value)):
            return value
        return [item if type(item) in ATOMS else _prepare(item) for item in value]
    if kind is dict:
        if not ATOMS.issuperset(map(type, value)):
            return _prepare(portable.pairs(value))
        if ATOMS.issuperset(map(type, value.values())):
            return value
        return {key: item if type(item) in ATOMS else _prepare(item) for key, item in value.items()}
    base = portable.plain_base(value)
    if base is not None:
        return _prepare(base)
    if is_array(value) and not value.dtype.hasobject:
        return msgspec.msgpack.Ext(_ARRAY, _array_bytes(value))
    tag, payload = portable.to_plain(value)
    return msgspec.msgpack.Ext(_EXTENSION, _encode_msgpack([tag, payload]))


def _array_bytes(array: arrays.Array) -> bytearray:
    header, raw = arrays.pack(array)
    packed = _MSGPACK.encode(header)
    return bytearray().join((struct.pack("<I", len(packed)), packed, raw))


def _extension(decode: Callable[[Data], object], writable: bool, code: int, data: memoryview) -> object:
    if code == _ARRAY:
        (size,) = struct.unpack_from("<I", data)
        header = msgspec.msgpack.decode(data[4 : 4 + size])
        return _owned(arrays.unpack(header, data[4 + size :].toreadonly()), writable)
    if code != _EXTENSION:
        raise DecodeError(f"unknown msgpack extension {code}")
    pair = decode(data)
    parts = cast("list[object]", pair) if isinstance(pair, list) else []
    if len(parts) != 2 or not isinstance(parts[0], str):
        raise DecodeError("malformed msgpack extension")
    return portable.from_plain(parts[0], parts[1])


def _msgpack_decoder(writable: bool, checks: bool) -> Callable[[Data], object]:
    def decode(data: Data) -> object:
        return decoder.decode(msgpack_keys.checked(data) if checks else data)

    decoder = msgspec.msgpack.Decoder(ext_hook=partial(_extension, decode, writable))
    return decode


def _decode_msgpack(data: Data, trusted: bool, writable: bool) -> object:
    # What is nested is looked through token by token only, or each level would look at all bytes again.
    checks = not trusted and msgpack_keys.has_large_maps(data)
    return _DECODERS[writable, checks](data)


_MSGPACK = msgspec.msgpack.Encoder()
_DECODERS = {
    (each, checks): _msgpack_decoder(each, checks) for each in (False, True) for checks in (False, True)
}


_SERIALIZERS: dict[str, _Serializer] = {
    "pickle": _Serializer("pickle", _pickle_encoder(pickle.HIGHEST_PROTOCOL), _decode_pickle, safe=False),
    **{f"pickle{n}": _Serializer("pickle", _pickle_encoder(n), _decode_pickle, safe=False) for n in range(6)},
    "json": _Serializer("json", _encode_json, _decode_json, safe=True),
    "msgpack": _Serializer("msgpack", _encode_msgpack, _decode_msgpack, safe=True),
    "buffers": _Serializer("buffers", buffers.encode, _decode_buffers, safe=False),
    "link": _Serializer(
        "link",
        lambda content, _: link_codec.encode(content),
        lambda data, _trusted, _writable: link_codec.decode(data),
        safe=True,
    ),
}
