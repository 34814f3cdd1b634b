"""Pickles that no trusted key signed: looked through opcode by opcode, then read with a fixed list of names.

Originals without a key send pickles, and so may anybody else. Such a pickle holds plain data: numbers, text,
bytes, lists, tuples, dicts, sets, dates, decimals and the exceptions of Python. What would let a short pickle
cost much is refused before anything is built::

    refused                              because
    a memo index above the opcodes       the memo is an array as long as its highest index
    fetching a list, tuple, dict or set  twenty lists of two references each unfold to a million parts
    fetching more than `FETCHED` of text what is made of a text, such as bytes, is a copy each time
    BUILD, EXT, PERSID, DUP, INST, OBJ   they set attributes, or name what stands elsewhere
    more than `COSTLY` hashed things     their hashes can be made equal, which makes a table quadratic
"""

from __future__ import annotations

import builtins
import collections
import datetime as dt
import decimal
import io
import pickle
import pickletools
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from itertools import chain, islice
from typing import Any, cast

from .errors import DecodeError, SerializerRefused

OPCODES = 1 << 18
"""Opcodes of a pickle that nobody vouches for."""

COSTLY = 4096
"""Tuples, objects and integers beyond 64 bits in such a pickle."""

FETCHED = 1 << 24
"""Characters and bytes that such a pickle fetches from its memo, in all."""

LEVELS = 100
"""Containers inside one another, in whatever a stranger sends."""

_STORE = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_FETCH = frozenset({"GET", "BINGET", "LONG_BINGET"})
_SCALARS = frozenset({
    "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT",
    "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "GLOBAL", "STACK_GLOBAL",
})  # fmt: skip
_COSTLY = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET", "REDUCE", "NEWOBJ"})
_BUILDERS = frozenset({
    "EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_SET", "LIST", "DICT", "APPEND", "APPENDS", "SETITEM",
    "SETITEMS", "ADDITEMS", "MARK", "POP", "POP_MARK", "PROTO", "FRAME", "STOP",
})  # fmt: skip
_ALLOWED = _STORE | _FETCH | _SCALARS | _COSTLY | _BUILDERS


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Return the object in exactly one pickle, of any protocol.

    Raises:
        SerializerRefused: it names a class or function that is not on the list.
        DecodeError: it is malformed, followed by bytes, or may cost more than it should.
    """
    raw = bytes(data)
    try:
        _check(raw)
        content = _RestrictedUnpickler(io.BytesIO(raw)).load()
    except (DecodeError, SerializerRefused):
        raise
    except Exception as error:
        raise DecodeError(f"malformed pickle: {type(error).__name__}") from error
    check_levels(content)
    return content


def _check(raw: bytes) -> None:
    stored: list[int] = []  # by memo index: length of what is there, or -1 for a container
    before, length, costly, fetched, end = "", 0, 0, 0, 0
    texts, unknown = ["", ""], ""
    for number, (opcode, arg, position) in enumerate(pickletools.genops(raw)):
        name, end = opcode.name, cast("int", position)
        if isinstance(arg, str):
            texts = [texts[-1], *arg.split(" ", 1)][-2:]
        if not unknown and name in ("GLOBAL", "STACK_GLOBAL") and _full_name(*texts) not in _NAMES:
            unknown = ".".join(texts)
        if name not in _ALLOWED or number > OPCODES:
            if unknown:  # says more than the opcode, such as BUILD, that sets its attributes
                raise _refused(unknown)
            raise DecodeError(f"an unsigned pickle may not hold {name} as opcode {number}")
        if name in _STORE:
            index = len(stored) if name == "MEMOIZE" else int(cast("Any", arg))
            if not 0 <= index <= number:
                raise DecodeError(f"memo index {index} in a pickle of {number} opcodes so far")
            stored += [-1] * (index + 1 - len(stored))
            # What REDUCE has made, such as bytes or a date, may hold all that came before.
            stored[index] = length if before in _SCALARS else end + fetched if before == "REDUCE" else -1
        elif name in _FETCH:
            index = int(cast("Any", arg))
            if index >= len(stored) or stored[index] < 0:
                raise DecodeError("an unsigned pickle may hold each container in one place only")
            fetched += stored[index]
            if fetched > FETCHED:
                raise DecodeError(f"an unsigned pickle has more than {FETCHED} characters when unfolded")
        elif name in _COSTLY or (isinstance(arg, int) and arg.bit_length() > 64):
            costly += 1
            if costly > COSTLY:
                raise DecodeError(f"more than {COSTLY} tuples, objects and large integers in one pickle")
        if name != "FRAME":  # it stands between a large text and its memo index
            before, length = name, len(arg) if isinstance(arg, str | bytes | bytearray) else 0
    if end + 1 != len(raw):
        raise DecodeError(f"{len(raw) - end - 1} bytes after the end of the pickle")


def check_levels(content: object) -> None:
    """Refuse a tree of containers that is too deep: what looks at it recursively would fail.

    Raises:
        DecodeError: saying the limit.
    """
    level: list[object] = [content]
    for _ in range(LEVELS):
        level = list(islice(chain.from_iterable(map(_parts, level)), OPCODES + 1))
        if not level:
            return
        if len(level) > OPCODES:
            break
    raise DecodeError(f"the content is nested more than {LEVELS} deep, or has more than {OPCODES} parts")


def _parts(value: Any) -> Iterable[object]:
    held: Any = value
    if isinstance(value, dict):
        return [*held, *held.values()]
    if isinstance(value, BaseException):
        return value.args
    return held if isinstance(value, list | tuple | set | frozenset | collections.deque) else ()


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _NAMES.get(_full_name(module, name))
        if found is None:
            raise _refused(f"{module[:80]}.{name[:80]}")
        return found


def _full_name(module: str, name: str) -> str:
    return f"{_PYTHON_2.get(module, module)}.{name}"


def _refused(name: str) -> SerializerRefused:
    return SerializerRefused(
        f"an unsigned pickle may not name {name[:160]}; sign with a key of role operator or above (PZC_KEY), "
        "or send plain data"
    )


def _latin_1(text: str, encoding: str) -> bytes:
    """Bytes, as protocols below 3 write them."""
    if encoding not in ("latin1", "latin-1"):
        raise DecodeError("bytes in a pickle are written in latin1 only")
    return text.encode("latin-1")


def _of_items(kind: Callable[..., object]) -> Callable[..., object]:
    """A constructor that takes nothing but items: ``bytes(10**12)`` would fill the memory."""

    def make(*args: object) -> object:
        if [type(each) for each in args] not in ([], [list], [tuple], [bytes]):
            raise DecodeError("a container in a pickle is made of its items")
        return kind(*args)

    return make


_NAMES: dict[str, Any] = {
    "_codecs.encode": _latin_1,
    "builtins.complex": complex,
    **{
        f"{kind.__module__}.{kind.__name__}": _of_items(kind)
        # No frozenset: two equal ones that hold others in many places take for ever to compare.
        for kind in (bytes, bytearray, set, collections.OrderedDict, collections.deque)
    },
    **{
        f"datetime.{kind.__name__}": kind
        for kind in (dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone)
    },
    "decimal.Decimal": decimal.Decimal,
    "concurrent.futures._base.CancelledError": CancelledError,
    **{
        f"builtins.{name}": kind
        for name, kind in vars(builtins).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    },
}
"""All that an unsigned pickle may name."""

_PYTHON_2 = {"__builtin__": "builtins", "exceptions": "builtins"}
