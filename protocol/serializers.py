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

MessagePack has three extensions: 1 is ``[name of a kind, parts]``, 2 the number of a buffer beside the body,
3 a tuple. JSON writes a kind as ``{"__pzc__": name, "value": parts}``; it has lists for tuples and text for keys.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec

from . import buffers, kinds, link_codec, msgpack_check, restricted
from .buffers import Allocate, Data, Outside
from .errors import DecodeError, LocalProtocolError, SerializeError, SerializerRefused
from .lazily import is_array

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

ATOMS = frozenset({type(None), bool, int, float, str, bytes})
"""Types that hold nothing else."""


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
            return _packed(content, None)
        if name in FRAMES:
            outside = Outside()
            outside.seen = buffers.LARGE  # all arrays go beside the body
            body = _packed(content, outside) if name == "arrays" else _pickled(content, outside)
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

    Arrays of together more than 64 KiB go there; without such ones, and for other serializers, it is `encode`.
    """
    if name not in _BESIDE:
        return name, encode(name, content, allocate)
    outside = Outside()
    try:
        body = _packed(content, outside) if name == "msgpack" else _pickled(content, outside)
    except Exception as error:
        raise _inexpressible(name, content, error) from error
    return (_BESIDE[name], buffers.write(body, outside, allocate)) if outside else (name, body)


def lay_out(array: Any, allocate: Allocate | None) -> tuple[str, memoryview, memoryview]:
    """Return serializer, frame, and the place in the frame where the bytes of a contiguous array belong."""
    outside = Outside()
    outside.seen = buffers.LARGE
    frame, (place,) = buffers.lay_out(_packed(array, outside), outside, allocate)
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
        SerializerRefused: unknown name, a serializer that needs a signature, or a class that may not be named.
        DecodeError: anything else that is wrong with the data.
    """
    try:
        if trusted and name == "pickle":  # most contents are
            return pickle.loads(data)
        match name:
            case "msgpack":
                if not trusted:
                    msgpack_check.check(data)
                return _DECODERS[writable].decode(data)
            case "arrays":
                body, views = buffers.split(_frame(data, writable))
                if not trusted:
                    msgpack_check.check(body)
                return _decoder(views, writable).decode(body)
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
    """What a receiver accepts when it was not told: no pickles if its own serializer is none; errors as `validate`."""
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
    while (found := _first_bad(name, part)) is not None:
        path, part = path + found[0], found[1]
    if isinstance(content, tuple) and content[:1] == ("PSMessage",):
        path = path.removeprefix("[2]")  # the options of a call
    where = f"{path.lstrip('.')} is" if path else "this content is"
    what = f"{where} of class {kinds.qualified(type(part))}, which {name} cannot express: {reason(error)}"
    if family(name) == "pickle":
        return SerializeError(what)
    return SerializeError(
        f"{what}; set PZC_KEY at both sides (an operator's key signs pickles, too), or send plain data"
    )


def _first_bad(name: str, value: Any) -> tuple[str, object] | None:
    """The first part of a container that cannot be sent, and the step to it."""
    if isinstance(value, dict):
        steps = (
            (f".{key}" if isinstance(key, str) else f"[{key!r:.40}]", each) for key, each in value.items()
        )
    elif isinstance(value, list | tuple):
        steps = ((f"[{at}]", each) for at, each in enumerate(value))
    else:
        return None
    for step, each in steps:
        try:
            if name in ("msgpack", "arrays"):
                _packed(each, None)
            elif name == "json":
                _encode_json(each)
            else:
                pickle.dumps(each)
        except Exception:
            return step, each
    return None


# --- pickle ------------------------------------------------------------------------------------------


def _pickled(content: object, outside: Outside) -> bytes:
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL, buffer_callback=outside)


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


# --- msgpack -----------------------------------------------------------------------------------------

_KIND, _TUPLE = msgpack_check.NESTED
_BUFFER = 2
_MSGPACK = msgspec.msgpack.Encoder()
_Extension = msgspec.msgpack.Ext
_EXACT = ATOMS - {int, str}


def _packed(content: Any, outside: Outside | None) -> bytes:
    if type(content) in ATOMS:
        prepare: Callable[[Any], Any] = _itself
    else:
        prepare = _Preparing(ATOMS, outside).of
    try:
        return _MSGPACK.encode(prepare(content))
    except (OverflowError, UnicodeEncodeError):  # an integer beyond 64 bits, a text that is no Unicode
        if outside is not None:
            outside.clear()
        return _MSGPACK.encode(_Preparing(_EXACT, outside).of(content))


def _itself(value: Any) -> Any:
    return value


class _Preparing:
    """Replaces what MessagePack lacks by extensions; plain parts are not copied.

    Args:
        atoms: types that are sent as they are.
        outside: takes large arrays; None leaves them in the content.
    """

    def __init__(self, atoms: frozenset[type], outside: Outside | None) -> None:
        self._atoms = atoms
        self._outside = outside

    def of(self, value: Any) -> Any:
        """Return what stands for a value."""
        kind, atoms = cast("type[object]", type(value)), self._atoms
        if kind in atoms:
            return value
        if kind is list:
            return self._items(value)
        if kind is tuple:
            return _Extension(_TUPLE, _MSGPACK.encode(self._items(value)))
        if kind is dict and atoms.issuperset(map(type, value)):
            return {key: each if type(each) in atoms else self.of(each) for key, each in value.items()}
        if kind is int and -(1 << 63) <= value < 1 << 64:
            return value
        if kind is str and not _has_surrogates(value):
            return value
        if kind is memoryview:
            return self._buffer(value)
        base = kinds.plain_base(value)
        if base is not None:
            return self.of(base)
        name, parts = kinds.write(value)
        return _Extension(_KIND, _MSGPACK.encode([name, self.of(parts)]))

    def _items(self, items: Any) -> Any:
        atoms = self._atoms
        if atoms.issuperset(map(type, items)):
            return items
        return [each if type(each) in atoms else self.of(each) for each in items]

    def _buffer(self, view: memoryview) -> object:
        if self._outside is None or not self._outside.takes(view):
            return view
        return _Extension(_BUFFER, b"%d" % (len(self._outside) - 1))


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _decoder(views: list[memoryview], writable: bool) -> msgspec.msgpack.Decoder[Any]:
    waiting = dict(enumerate(views))

    def extension(code: int, data: memoryview) -> object:
        if code == _BUFFER:
            # Only once: a thousand values that are copies of one buffer would fill the memory.
            return waiting.pop(int(bytes(data)))
        parts = decoder.decode(data)
        if not isinstance(parts, list) or code not in msgpack_check.NESTED:
            raise DecodeError(f"malformed msgpack extension {code}")
        if code == _TUPLE:
            return tuple(cast("list[object]", parts))
        name, about = cast("list[object]", parts)
        return _owned(kinds.read(name, about), writable)

    decoder = msgspec.msgpack.Decoder(ext_hook=extension)
    return decoder


def _owned(value: Any, writable: bool) -> Any:
    """The value; a copy of a read-only array that is to be written."""
    return value.copy("K") if writable and is_array(value) and not value.flags.writeable else value


_DECODERS = {writable: _decoder([], writable) for writable in (False, True)}


# --- json --------------------------------------------------------------------------------------------

_TAG = "__pzc__"


def _encode_json(content: object) -> bytes:
    text = _JSON.encode(content)
    if _TAG in text:
        text = _JSON.encode(_escaped(content))
    return text.encode("utf-8")


def _json_default(value: Any) -> object:
    if isinstance(value, bytes | memoryview):
        return {_TAG: "bytes", "value": base64.b64encode(value).decode()}
    name, parts = kinds.write(value)
    return {_TAG: name, "value": _escaped(parts)}


def _escaped(content: Any) -> Any:
    """A content in which dicts with a key ``__pzc__`` cannot be taken for kinds."""
    if isinstance(content, dict):
        table = {key: _escaped(value) for key, value in content.items()}
        return (
            {_TAG: "dict", "value": [[key, value] for key, value in table.items()]}
            if _TAG in table
            else table
        )
    return [_escaped(each) for each in content] if isinstance(content, list | tuple) else content


def _json_object(writable: bool, value: dict[str, Any]) -> object:
    name = value.get(_TAG)
    if name is None:
        return value
    if len(value) != 2 or "value" not in value:
        raise DecodeError("malformed tagged object")
    if name == "bytes":
        return base64.b64decode(value["value"], validate=True)
    return _owned(kinds.read(name, value["value"]), writable)


def _decode_json(raw: bytes, writable: bool) -> object:
    if _TAG.encode() not in raw:
        return json.loads(raw)
    return json.loads(raw, object_hook=partial(_json_object, writable))


_JSON = json.JSONEncoder(default=_json_default)
