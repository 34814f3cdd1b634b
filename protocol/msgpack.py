"""MessagePack with kinds: three extensions carry what it lacks.

==== ===================================================================
code content
==== ===================================================================
1    MessagePack of ``[name of a kind, parts]``, see `kinds`
2    number of a buffer beside the body, in decimal digits, see `buffers`
3    MessagePack of a list: a tuple
==== ===================================================================
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import msgspec

from . import kinds, msgpack_check
from .buffers import Data, Outside
from .errors import DecodeError
from .lazily import is_array

Views = list[memoryview | None]

ATOMS = frozenset({type(None), bool, int, float, str, bytes})
"""Types that hold nothing else."""

_KIND, _TUPLE = msgpack_check.NESTED
_BUFFER = 2
_MSGPACK = msgspec.msgpack.Encoder()
_Extension = msgspec.msgpack.Ext
_EXACT = ATOMS - {int, str}


def pack(content: Any, outside: Outside | None = None) -> bytes:
    """Return a content as MessagePack.

    Args:
        content: what to write.
        outside: takes large arrays; None leaves them in the content.

    Raises:
        SerializeError, Exception: a part has no kind, or its kind fails to write it.
    """
    try:
        plain = type(content) in ATOMS
        return _MSGPACK.encode(content if plain else _prepared(content, ATOMS, outside))
    except (OverflowError, UnicodeEncodeError):  # an integer beyond 64 bits, a text that is no Unicode
        if outside is not None:
            outside.clear()
        return _MSGPACK.encode(_prepared(content, _EXACT, outside))


def _prepared(value: Any, atoms: frozenset[type], outside: Outside | None) -> Any:
    """Replace what MessagePack lacks by extensions; plain parts are not copied.

    Args:
        value: what to write.
        atoms: types that are sent as they are.
        outside: takes large arrays; None leaves them in the content.
    """
    kind = cast("type[object]", type(value))
    if kind in atoms:
        return value
    if kind is list:
        return _items(value, atoms, outside)
    if kind is tuple:
        return _Extension(_TUPLE, _MSGPACK.encode(_items(value, atoms, outside)))
    if kind is dict and atoms.issuperset(map(type, value)):
        return {
            key: each if type(each) in atoms else _prepared(each, atoms, outside)
            for key, each in value.items()
        }
    if kind is int and -(1 << 63) <= value < 1 << 64:
        return value
    if kind is str and not _has_surrogates(value):
        return value
    if kind is memoryview:
        return _buffer(value, outside)
    base = kinds.plain_base(value)
    if base is not None:
        return _prepared(base, atoms, outside)
    name, parts = kinds.write(value)
    return _Extension(_KIND, _MSGPACK.encode([name, _prepared(parts, atoms, outside)]))


def _items(items: Any, atoms: frozenset[type], outside: Outside | None) -> Any:
    if atoms.issuperset(map(type, items)):
        return items
    return [each if type(each) in atoms else _prepared(each, atoms, outside) for each in items]


def _buffer(view: memoryview, outside: Outside | None) -> object:
    if outside is None or not outside.takes(view):
        return view
    return _Extension(_BUFFER, b"%d" % (len(outside) - 1))


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def unpack(data: Data, views: Views | None = None, writable: bool = False) -> Any:
    """Return the content of MessagePack that was judged before, or that a trusted key signed.

    Args:
        data: what `pack` wrote.
        views: buffers beside it, each for one use.
        writable: True gives arrays that may be written.

    Raises:
        DecodeError, SerializerRefused, Exception: for anything that is wrong with the data.
    """
    # A kept decoder and its hook would refer to each other, and hold the buffers for long.
    return msgspec.msgpack.decode(data, ext_hook=partial(_extension, views or [], writable))


def _extension(views: Views, writable: bool, code: int, data: memoryview) -> object:
    if code == _BUFFER:
        at = int(bytes(data))
        view, views[at] = views[at], None  # once: what is made of a buffer may be a copy
        return view
    parts = unpack(data, views, writable)
    if not isinstance(parts, list) or code not in msgpack_check.NESTED:
        raise DecodeError(f"malformed msgpack extension {code}")
    if code == _TUPLE:
        return tuple(cast("list[object]", parts))
    name, about = cast("list[object]", parts)
    return owned(kinds.read(name, about), writable)


def owned(value: Any, writable: bool) -> Any:
    """Return the value; a copy of a read-only array that is to be written."""
    return value.copy("K") if writable and is_array(value) and not value.flags.writeable else value
