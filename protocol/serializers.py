"""Named serializers: content to bytes and back.

======================= =========================== ======================== ==========================
name on the wire        what it is                  family, for allow-lists  from senders without trust
======================= =========================== ======================== ==========================
``pickle``, ``pickle0`` a pickle; of protocol 5     pickle                   `restricted`
to ``pickle5``          where no digit is
``buffers``             a pickle, arrays beside it  pickle                   refused
``msgpack``             MessagePack with `kinds`    msgpack                  safe as it is
``arrays``              the same, arrays beside it  msgpack                  safe as it is
``json``                JSON with `kinds`           json                     safe as it is
``link``                a message of a link         link                     safe as it is
======================= =========================== ======================== ==========================

JSON writes a kind as ``{"__pzc__": name, "value": parts}``; tuples are lists there, keys text.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from . import (
    buffers,
    exceptions,  # noqa: F401 # pyright: ignore[reportUnusedImport] - it adds its kind
    kinds,
    libraries,  # noqa: F401 # pyright: ignore[reportUnusedImport] - it adds its kinds
    link_codec,
    msgpack,
    msgpack_check,
    restricted,
)
from .buffers import Allocate, Data, Outside
from .errors import DecodeError, LocalProtocolError, SerializeError, SerializerRefused

_FAMILIES = {
    "pickle": "pickle", **{f"pickle{n}": "pickle" for n in range(6)}, "buffers": "pickle",
    "msgpack": "msgpack", "arrays": "msgpack", "json": "json", "link": "link",
}  # fmt: skip
_BESIDE = {"pickle": "buffers", "msgpack": "arrays"}
"""By serializer, the one that keeps large arrays beside the body."""

FRAMES = frozenset(_BESIDE.values())
"""Serializers whose bytes are a frame of `buffers`."""

STRUCTURAL = frozenset({"link"})
"""Families of the wire's own structs: accepted everywhere, and not to be chosen for contents."""

_CHOSEN = sorted(_FAMILIES.keys() - STRUCTURAL - set(_BESIDE.values()))


def encode(name: str, content: object, allocate: Allocate | None = None) -> Data:
    """Return ``content`` as the bytes of frame 2.

    Args:
        name: serializer name.
        content: what to send.
        allocate: gives the memory for a content with large arrays; default new memory.

    Raises:
        LocalProtocolError: no serializer has that name.
        SerializeError: the serializer cannot express the content; the text says which part.
    """
    try:
        if name == "msgpack":
            return msgpack.pack(content)
        if name in FRAMES:
            outside = Outside()
            outside.seen = buffers.LARGE  # all arrays go beside the body
            body = _body(name, content, outside)
            return buffers.write(body, outside, allocate)
        if _FAMILIES.get(name) == "pickle":
            return pickle.dumps(content, int(name[6:] or pickle.HIGHEST_PROTOCOL))
        if name == "json":
            return _encode_json(content)
        if name == "link":
            return link_codec.encode(content)
    except Exception as error:
        raise _inexpressible(name, content, error) from error
    raise _unknown(name)


def pack(name: str, content: object, allocate: Allocate | None = None) -> tuple[str, Data]:
    """Return serializer and bytes for a receiver that reads arrays beside the body.

    Arrays of together more than 64 KiB go there. Without any, and for other serializers, it is `encode`.
    """
    if name not in _BESIDE:
        return name, encode(name, content, allocate)
    outside = Outside()
    try:
        body = _body(name, content, outside)
    except Exception as error:
        raise _inexpressible(name, content, error) from error
    return (_BESIDE[name], buffers.write(body, outside, allocate)) if outside else (name, body)


def lay_out(array: Any, allocate: Allocate | None) -> tuple[str, memoryview, memoryview]:
    """Return serializer, frame, and the place in the frame where the bytes of a contiguous array belong."""
    outside = Outside()
    outside.seen = buffers.LARGE
    frame, (place,) = buffers.lay_out(msgpack.pack(array, outside), outside, allocate)
    return "arrays", frame, place


def decode(name: str, data: Data, *, trusted: bool, writable: bool = False) -> Any:
    """Return the content that ``data`` holds.

    Args:
        name: serializer name, as received.
        data: frame 2.
        trusted: whether a key of role operator or above signed the message for this side. Without trust a
            pickle is read by `restricted`, and MessagePack is looked through first.
        writable: True gives arrays that may be written. Arrays beside a body that lies in writable memory,
            which nobody else may use then, are not copied for that. False gives read-only views.

    Raises:
        SerializerRefused: unknown name, one that takes a signature, or a class that may not be named.
        DecodeError: anything else that is wrong with the data.
    """
    try:
        if trusted and name == "pickle":  # most contents are
            return pickle.loads(data)
        match name:
            case "msgpack":
                if not trusted:
                    msgpack_check.check(data)
                return msgpack.unpack(data, None, writable)
            case "arrays":
                body, views = buffers.split(_frame(data, writable))
                if not trusted:
                    msgpack_check.check(body)
                return msgpack.unpack(body, [*views], writable)
            case "json":
                return _decode_json(bytes(data), writable)
            case "link":
                return link_codec.decode(data)
            case "buffers" if trusted:
                return _unpickled(*buffers.split(_frame(data, writable)), writable)
            case _ if _FAMILIES.get(name) == "pickle" and name != "buffers":
                return pickle.loads(data) if trusted else restricted.loads(data)
            case _:
                raise SerializerRefused(
                    f"serializer {name[:40]!r} is unknown, or takes a key of role operator"
                )
    except (DecodeError, SerializerRefused):
        raise
    except (AttributeError, ImportError) as error:
        hint = "its class must be in a module that both sides can import"
        raise DecodeError(f"{name} content cannot be decoded: {reason(error)}; {hint}") from error
    except Exception as error:
        raise DecodeError(
            f"{name} content of {len(data)} bytes cannot be decoded: {reason(error)}"
        ) from error


def validate(name: str) -> None:
    """Raise :class:`LocalProtocolError` when no serializer for contents is called ``name``."""
    if name not in _CHOSEN:
        raise _unknown(name)


def names() -> tuple[str, ...]:
    """All names that a frame 1 may hold."""
    return tuple(_FAMILIES)


def family(name: str) -> str:
    """Return the family of a name: ``pickle3`` gives ``pickle``; an unknown name gives itself."""
    return _FAMILIES.get(name, name)


def default_accept(serializer_name: str) -> frozenset[str]:
    """Return what a receiver accepts by default: pickles if it sends them itself; errors as `validate`."""
    validate(serializer_name)
    known = frozenset(_FAMILIES.values()) - STRUCTURAL
    return known if family(serializer_name) == "pickle" else known - {"pickle"}


def _unknown(name: str) -> LocalProtocolError:
    return LocalProtocolError(f"no serializer is called {name!r}; known are {', '.join(_CHOSEN)}")


def reason(error: Exception) -> str:
    """Kind and beginning of the text of an error, for another error's text."""
    # The text of a foreign exception is foreign code: it may fail or be huge.
    try:
        text = str(error)
    except Exception:
        text = "no text"
    return f"{type(error).__name__}: {text[:200]}"


# --- contents that cannot be sent --------------------------------------------------------------------


def _inexpressible(name: str, content: object, error: Exception) -> SerializeError:
    """The error of a content: which part of it cannot be sent, of which class, and what to do."""
    path, part = "", content
    for _ in range(restricted.LEVELS):  # a list may hold itself
        if (found := _first_bad(name, part)) is None:
            break
        path, part = path + found[0], found[1]
    if isinstance(content, tuple) and content[:1] == ("PSMessage",):
        path = path.removeprefix("[2]")  # the options of a call
    where = f"{path.lstrip('.')} is" if path else "this content is"
    why = str(error) if isinstance(error, SerializeError) else reason(error)
    what = f"{where} of class {kinds.qualified(type(part))}, which {name} cannot express ({why})"
    if family(name) == "pickle":
        return SerializeError(what)
    return SerializeError(
        f"{what}; set PZC_KEY at both sides (an operator's key signs pickles, too), or send plain data"
    )


def _first_bad(name: str, value: Any) -> tuple[str, object] | None:
    """The first part of a container that cannot be sent, and the step to it."""
    held: Any = value
    if isinstance(value, dict):
        steps = [(f".{key}" if isinstance(key, str) else f"[{key!r:.40}]", held[key]) for key in held]
    elif isinstance(value, list | tuple):
        steps = [(f"[{at}]", each) for at, each in enumerate(held)]
    else:
        return None
    write = {"msgpack": msgpack.pack, "arrays": msgpack.pack, "json": _encode_json}.get(name, pickle.dumps)
    for step, each in steps:
        try:
            write(each)
        except Exception:
            return step, each
    return None


def _body(name: str, content: object, outside: Outside) -> bytes:
    if _FAMILIES[name] == "msgpack":
        return msgpack.pack(content, outside)
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL, buffer_callback=outside)


# --- pickle ------------------------------------------------------------------------------------------


def _frame(data: Data, writable: bool) -> memoryview:
    frame = memoryview(data) if writable else memoryview(data).toreadonly()
    return memoryview(bytearray(frame)) if writable and frame.readonly else frame


def _unpickled(body: memoryview, views: list[memoryview], writable: bool) -> object:
    unpickler = _Unpickler if writable else pickle.Unpickler
    return unpickler(io.BytesIO(body), buffers=views).load()


class _Unpickler(pickle.Unpickler):
    """Makes arrays that may be written, as a pickle says of each whether it was read-only for its sender."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return partial(_own_array, found) if name == "_frombuffer" and module.startswith("numpy.") else found


def _own_array(make: Callable[..., Any], raw: Data, *rest: Any) -> Any:
    return make(bytearray(raw) if memoryview(raw).readonly else raw, *rest)


# --- json --------------------------------------------------------------------------------------------

_TAG = "__pzc__"


def _encode_json(content: object) -> bytes:
    text = _JSON.encode(content)
    if _TAG in text:
        text = _JSON.encode(_escaped(content))
    return text.encode("utf-8")


def _json_default(value: Any) -> object:
    if isinstance(value, bytes | memoryview):
        return {_TAG: "bytes", "value": base64.b64encode(cast("bytes", value)).decode()}
    name, parts = kinds.write(value)
    return {_TAG: name, "value": _escaped(parts)}


def _escaped(content: Any) -> Any:
    """A content in which dicts with a key ``__pzc__`` cannot be taken for kinds."""
    held: Any = content
    if isinstance(content, dict):
        table = {key: _escaped(held[key]) for key in held}
        return {_TAG: "dict", "value": [[*pair] for pair in table.items()]} if _TAG in table else table
    return [_escaped(each) for each in held] if isinstance(content, list | tuple) else content


def _json_object(writable: bool, value: dict[str, Any]) -> object:
    name = value.get(_TAG)
    if name is None:
        return value
    if len(value) != 2 or "value" not in value:
        raise DecodeError("malformed tagged object")
    if name == "bytes":
        return base64.b64decode(value["value"], validate=True)
    return msgpack.owned(kinds.read(name, value["value"]), writable)


def _decode_json(raw: bytes, writable: bool) -> object:
    if _TAG.encode() not in raw:
        return json.loads(raw)
    return json.loads(raw, object_hook=partial(_json_object, writable))


_JSON = json.JSONEncoder(default=_json_default)
