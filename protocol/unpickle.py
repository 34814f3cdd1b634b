"""Unpickler for content that nobody signed: a small machine of its own, not ``pickle.Unpickler``.

It knows the opcodes of protocols 0 to 5, imports nothing, calls only what ``unpickle_rules`` allows, and
spends at most a budget in proportion to the size of the input, so that a short pickle can neither fill the
memory (memo indices, length claims, copies of copies) nor hang in hashes of nested shared tuples.
"""

from __future__ import annotations

import codecs
import collections
import struct
from collections.abc import Callable, Iterable
from typing import Any, cast

from .errors import DecodeError, SerializerRefused
from .unpickle_machine import Handler, Machine
from .unpickle_rules import find, is_registered, register_class
from .weighing import ATOMS, TABLES, unlink

__all__ = ["register_class", "restricted_loads"]


def restricted_loads(
    data: bytes | bytearray | memoryview, buffers: Iterable[memoryview] | None = None
) -> Any:
    """Return the object in an unsigned pickle, of any protocol.

    Allowed: plain data, ``collections``, ``datetime``, ``decimal``, ``fractions``, ``uuid``, pure paths,
    numpy arrays, scalars and dtypes, standard exceptions and this package's, and what
    :func:`register_class` added.

    Args:
        data: exactly one pickle.
        buffers: out-of-band buffers, each of which the pickle must use.

    Raises:
        SerializerRefused: a class or function that is not allowed.
        DecodeError: the pickle is malformed, truncated, followed by bytes, or asks for more than its size
            justifies.
    """
    machine = Machine(bytes(data), list(buffers or ()))
    try:
        return machine.run(_OPCODES)
    except (DecodeError, SerializerRefused):
        unlink(machine.made)
        raise
    except Exception as error:
        unlink(machine.made)
        raise DecodeError(f"malformed pickle near byte {machine.pos}: {type(error).__name__}") from error


# --- opcodes -----------------------------------------------------------------------------------------

_OPCODES: list[Handler | None] = [None] * 256
"""What to do for each opcode; None is refused (persistent ids, extension codes, old instances, DUP)."""

_MAX_INT_BYTES = 4096


def _op(code: bytes) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        _OPCODES[code[0]] = handler
        return handler

    return add


def _constants() -> None:
    for code, value in ((b"N", None), (b"\x88", True), (b"\x89", False), (b")", ())):
        _OPCODES[code[0]] = lambda m, value=value: m.stack.append(value)
    for code, kind in ((b"]", list), (b"}", dict), (b"\x8f", set)):
        _OPCODES[code[0]] = lambda m, kind=kind: m.stack.append(kind())


def _sized() -> None:
    """Opcodes of a counted string: code, bytes of the count, what to make of it."""

    def text(raw: bytes) -> str:
        return raw.decode("utf-8", "surrogatepass")

    def old_text(raw: bytes) -> str:
        return raw.decode("ascii")

    def integer(raw: bytes) -> int:
        if len(raw) > _MAX_INT_BYTES:
            raise DecodeError("an integer is too large for an unsigned pickle")
        return int.from_bytes(raw, "little", signed=True)

    table: tuple[tuple[bytes, int, Callable[[bytes], object]], ...] = (
        (b"\x8c", 1, text), (b"X", 4, text), (b"\x8d", 8, text),
        (b"C", 1, bytes), (b"B", 4, bytes), (b"\x8e", 8, bytes), (b"\x96", 8, bytearray),
        (b"U", 1, old_text), (b"T", 4, old_text),
        (b"\x8a", 1, integer), (b"\x8b", 4, integer),
    )  # fmt: skip
    for code, width, make in table:
        _OPCODES[code[0]] = lambda m, width=width, make=make: m.stack.append(make(m.take(m.number(width))))


def _fixed() -> None:
    """Opcodes of a fixed-size number."""
    for code, form in ((b"K", "<B"), (b"M", "<H"), (b"J", "<i"), (b"G", ">d")):
        packed = struct.Struct(form)

        def push(m: Machine, unpack: Any = packed.unpack_from, size: int = packed.size) -> None:
            m.stack.append(unpack(m.data, m.pos)[0])
            m.pos += size

        _OPCODES[code[0]] = push


def _old_int(text: str) -> object:
    return {"00": False, "01": True}[text] if text in ("00", "01") else int(text)


def _old_string(text: str) -> str:
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        raise DecodeError("malformed string")
    return codecs.escape_decode(text[1:-1].encode("ascii"))[0].decode("ascii")


def _lines() -> None:
    """Opcodes of protocol 0, one text line each."""
    table: tuple[tuple[bytes, Callable[[str], object]], ...] = (
        (b"I", _old_int),
        (b"L", lambda text: int(text.removesuffix("L"))),
        (b"F", float),
        (b"S", _old_string),
    )
    for code, make in table:
        _OPCODES[code[0]] = lambda m, make=make: m.stack.append(make(m.line()))


def _memo() -> None:
    def text_index(m: Machine) -> int:
        return int(m.line())

    def short_index(m: Machine) -> int:
        return m.number(1)

    def long_index(m: Machine) -> int:
        return m.number(4)

    for put, get, index in ((b"p", b"g", text_index), (b"q", b"h", short_index), (b"r", b"j", long_index)):
        _OPCODES[put[0]] = lambda m, index=index: m.put(index(m))
        _OPCODES[get[0]] = lambda m, index=index: m.get(index(m))


@_op(b"\x94")
def _memoize(m: Machine) -> None:
    m.memo[len(m.memo)] = m.stack[-1]


@_op(b"V")
def _unicode(m: Machine) -> None:
    end = m.data.index(b"\n", m.pos)
    m.stack.append(m.data[m.pos : end].decode("raw-unicode-escape"))
    m.pos = end + 1


@_op(b"\x80")
def _protocol(m: Machine) -> None:
    if m.number(1) > 5:
        raise DecodeError("unknown pickle protocol")


@_op(b"\x95")
def _frame(m: Machine) -> None:
    if m.number(8) > len(m.data) - m.pos:
        raise DecodeError("the pickle is truncated")


@_op(b"(")
def _mark(m: Machine) -> None:
    m.marks.append(m.stack)
    m.stack = []


@_op(b"0")
def _pop(m: Machine) -> None:
    if m.stack:
        m.stack.pop()
    else:
        m.pop_mark()


@_op(b"1")
def _pop_mark(m: Machine) -> None:
    m.pop_mark()


@_op(b"a")
def _append(m: Machine) -> None:
    _extend(m, [m.stack.pop()])


@_op(b"e")
def _appends(m: Machine) -> None:
    _extend(m, m.pop_mark())


def _extend(m: Machine, items: list[Any]) -> None:
    target: Any = m.stack[-1]
    kind = type(cast(object, target))
    if kind is list or kind is collections.deque or _registered_as(target, list):
        if not ATOMS.issuperset(map(type, items)):
            m.made.append(target)
        target.extend(items)
    else:
        raise DecodeError(f"items were appended to a {kind.__name__}")


def _registered_as(target: Any, base: type) -> bool:
    kind = type(cast(object, target))
    return issubclass(kind, base) and is_registered(kind)


@_op(b"s")
def _set_item(m: Machine) -> None:
    value = m.stack.pop()
    key = m.stack.pop()
    _update(m, m.stack[-1], [key, value])


@_op(b"u")
def _set_items(m: Machine) -> None:
    items = m.pop_mark()
    _update(m, m.stack[-1], items)


def _update(m: Machine, target: Any, items: list[Any]) -> None:
    kind = type(cast(object, target))
    if kind not in TABLES and not _registered_as(target, dict):
        raise DecodeError(f"keys were set in a {kind.__name__}")
    keys = items[::2]
    m.check_keys(keys, target)
    if not ATOMS.issuperset(map(type, items)):
        m.made.append(target)
    for key, value in zip(keys, items[1::2], strict=True):
        target[key] = value


@_op(b"l")
def _list(m: Machine) -> None:
    items = m.pop_mark()
    if not ATOMS.issuperset(map(type, items)):
        m.made.append(items)
    m.stack.append(items)


@_op(b"d")
def _dict(m: Machine) -> None:
    items = m.pop_mark()
    made: dict[Any, Any] = {}
    _update(m, made, items)
    m.stack.append(made)


@_op(b"t")
def _tuple(m: Machine) -> None:
    items = m.pop_mark()
    m.stack.append(m.note(tuple(items)))


def _short_tuples() -> None:
    for code, size in ((0x85, 1), (0x86, 2), (0x87, 3)):

        def push(m: Machine, size: int = size) -> None:
            items = m.stack[-size:]
            if len(items) != size:
                raise DecodeError("too few items for a tuple")
            m.stack[-size:] = [m.note(tuple(items))]

        _OPCODES[code] = push


@_op(b"\x90")
def _add_items(m: Machine) -> None:
    items = m.pop_mark()
    target: Any = m.stack[-1]
    kind = type(cast(object, target))
    if kind is not set:
        raise DecodeError(f"items were added to a {kind.__name__}")
    m.check_keys(items, target)
    if not ATOMS.issuperset(map(type, items)):
        m.made.append(target)
    target.update(items)


@_op(b"\x91")
def _frozenset(m: Machine) -> None:
    items = m.pop_mark()
    m.check_keys(items)
    m.stack.append(m.note(frozenset(items)))


@_op(b"c")
def _global(m: Machine) -> None:
    module = m.line()
    m.stack.append(find(module, m.line()))


@_op(b"\x93")
def _stack_global(m: Machine) -> None:
    name = m.stack.pop()
    module = m.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise DecodeError("the name of a class must be a string")
    m.stack.append(find(module, name))


@_op(b"R")
def _reduce(m: Machine) -> None:
    args = m.stack.pop()
    m.stack[-1] = m.call(m.stack[-1], args)


@_op(b"\x81")
def _new(m: Machine) -> None:
    args = m.stack.pop()
    m.stack[-1] = m.new(m.stack[-1], args, {})


@_op(b"\x92")
def _new_with_keywords(m: Machine) -> None:
    kwargs = m.stack.pop()
    args = m.stack.pop()
    m.stack[-1] = m.new(m.stack[-1], args, kwargs)


@_op(b"b")
def _build(m: Machine) -> None:
    state = m.stack.pop()
    m.stack[-1] = m.build(m.stack[-1], state)


@_op(b"\x97")
def _next_buffer(m: Machine) -> None:
    if not m.buffers:
        raise DecodeError("the pickle refers to more buffers than there are")
    m.stack.append(m.buffers.pop())


@_op(b"\x98")
def _read_only_buffer(_: Machine) -> None:
    """What arrived belongs to the receiver, who has made it read-only or not."""


for _fill_table in (_constants, _sized, _fixed, _lines, _memo, _short_tuples):
    _fill_table()
