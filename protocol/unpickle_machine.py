"""The machine that runs an unsigned pickle: stack, memo, and the budget that bounds them."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Collection
from typing import Any, cast

from . import exceptions, weighing
from .errors import DecodeError, SerializerRefused
from .unpickle_base import Args, Draft, Name, is_dict, is_tuple
from .unpickle_enums import member
from .unpickle_rules import RULES, is_leaf, is_registered, uuid_draft
from .weighing import EQUAL_HASHES, NESTING

_UNFOLDED = 1 << 22
"""Parts of an untrusted pickle when what is shared in it is unfolded, and 32 for each of its bytes."""


_STOP = 0x2E
_BASE_BUDGET = 1 << 20
_BUDGET_PER_BYTE = 32
_LONG = 64
_PLAIN = frozenset({type, Name, bool, int, float, type(None)})


class Machine:
    """One run over one pickle."""

    __slots__ = (
        "budget", "buffers", "data", "drafts", "hashes", "made", "many", "marks", "memo", "nested", "nesting",
        "pos", "shared", "size", "stack",
    )  # fmt: skip

    def __init__(self, data: bytes, buffers: list[memoryview]) -> None:
        self.data = data
        self.pos = 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.buffers = buffers[::-1]
        self.size = _BUDGET_PER_BYTE * (len(data) + sum([view.nbytes for view in buffers]))
        self.budget = _BASE_BUDGET + self.size
        self.hashes: weighing.Hashes | None = None
        self.many = EQUAL_HASHES
        # What holds more than atoms, kept until the end: none of it may free a long chain before.
        self.made: list[object] = []
        self.shared = False
        self.drafts = 0
        self.nesting: set[type] = {tuple, frozenset}
        # By id: depth, unfolded size, and the object itself, which keeps the id taken.
        self.nested: dict[int, tuple[int, int, object]] = {}

    def run(self, opcodes: list[Handler | None]) -> object:
        """Run the pickle to its end and return the object."""
        data = self.data
        while (code := data[self.pos]) != _STOP:
            self.pos += 1
            handler = opcodes[code]
            if handler is None:
                raise DecodeError(f"opcode {code:#04x} is not allowed in an unsigned pickle")
            handler(self)
        if self.pos + 1 != len(data):
            raise DecodeError(f"{len(data) - self.pos - 1} bytes after the end of the pickle")
        if self.buffers:
            raise DecodeError("more buffers than the pickle refers to")
        if self.drafts or self.marks or len(self.stack) != 1:
            raise DecodeError("the pickle ends in the middle of an object")
        content = self.stack[0]
        if self.shared or len(self.made) >= NESTING:
            weighing.check(content, self.made, _UNFOLDED + self.size)
        return content

    def charge(self, amount: int) -> None:
        """Take an amount from the budget, or raise :class:`DecodeError`."""
        self.budget -= amount
        if self.budget < 0:
            raise DecodeError("the pickle asks for far more memory or work than its size justifies")

    def check_keys(self, keys: Collection[object], table: Collection[object] = ()) -> None:
        """Charge the hashing of keys: a tuple's hash walks all that it holds, shared parts every time.

        Raises:
            DecodeError: too many keys of one hash in the table, or in the new one that they make.
        """
        if not self.nesting.isdisjoint(map(type, keys)):
            for key in keys:
                self.charge(self.measure(key)[1])
        if len(keys) + (len(table) if table else 0) > self.many:
            self.hashes = self.hashes or weighing.Hashes()
            self.hashes.check(keys, table)

    def measure(self, item: object) -> tuple[int, int]:
        """Return depth and unfolded size of a value, as far as hashing or comparing it would walk."""
        if type(item) not in self.nesting:
            return 0, 1
        known = self.nested.get(id(item))
        return known[:2] if known else (1, 1 + len(cast(Args, item)))

    def note(self, made: Any) -> Any:
        """Remember depth and size of a new tuple or frozenset that holds others.

        Raises:
            DecodeError: nested so deeply that hashing it could overflow the C stack.
        """
        if weighing.ATOMS.issuperset(map(type, made)):
            return made
        self.made.append(made)
        if not self.nesting.isdisjoint(map(type, made)):
            parts = [self.measure(item) for item in made]
            depth = 1 + max(part[0] for part in parts)
            if depth > NESTING:
                raise DecodeError(f"tuples are nested more than {NESTING} deep")
            self.nested[id(made)] = depth, min(sum(part[1] for part in parts), 1 << 62), made
        return made

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        start = self.pos
        end = start + size
        if size < 0 or end > len(self.data):
            raise DecodeError("the pickle is truncated")
        self.pos = end
        return self.data[start:end]

    def number(self, size: int) -> int:
        """Return the next bytes as an unsigned integer."""
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        """Return the text up to the next newline."""
        end = self.data.index(b"\n", self.pos)
        raw = self.data[self.pos : end]
        self.pos = end + 1
        return raw.decode("utf-8")

    def pop_mark(self) -> list[Any]:
        """Return what was pushed since the last mark, and forget the mark."""
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def put(self, index: int) -> None:
        """Remember the top of the stack."""
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        """Push what was remembered."""
        value = self.memo[index]
        if type(value) is Draft:
            if value.final is None:
                raise DecodeError("the pickle refers to an unfinished object")
            value = value.final
        kind = cast("type[object]", type(value))
        if kind not in _PLAIN and not (kind is str and len(cast(str, value)) <= _LONG):
            self.shared = True
        self.stack.append(value)

    def call(self, function: object, args: object) -> object:
        """Return what a REDUCE opcode makes."""
        if not is_tuple(args):
            raise DecodeError("arguments must be a tuple")
        self.charge(16 + sum(map(_weight, args)))
        if isinstance(function, Name):
            built = function.rule(self, args)
        elif not isinstance(function, type):
            raise DecodeError(f"an object of type {type(function).__name__} was called")
        elif function in RULES:
            built = RULES[function](self, args)
        elif is_registered(function):
            _no_ranges(args)
            if issubclass(function, enum.Enum) and not _are_atoms(args):
                built = member(function, args)
            else:
                built = cast(object, function(*args))
        elif issubclass(function, Exception) and exceptions.qualified(function) in exceptions.REBUILT:
            if exceptions.formats(function) and not _are_atoms(args):
                raise DecodeError(f"an argument of {function.__name__} is not plain")
            built = exceptions.build(function, args)
        else:
            raise SerializerRefused(f"an unsigned pickle may not call {_named(cast(object, function))}")
        self.drafts += type(built) is Draft
        return self.adopt(built)

    def new(self, cls: object, args: object, kwargs: object) -> object:
        """Return what a NEWOBJ opcode makes."""
        if not is_tuple(args) or not is_dict(kwargs):
            raise DecodeError("malformed arguments")
        if cls is uuid.UUID:
            self.drafts += 1
            return uuid_draft()
        if not is_registered(cls):
            raise SerializerRefused(
                f"an unsigned pickle may not create {_named(cls)}; allow it with register_class"
            )
        self.charge(16 + sum(map(_weight, args)) + sum(map(_weight, kwargs.values())))
        _no_ranges((*args, *kwargs.values()))
        return self.adopt(cast(Any, cls).__new__(cls, *args, **cast("dict[str, object]", kwargs)))

    def adopt(self, built: object) -> object:
        """Take note of a new object that nests as a tuple does, of a registered subclass as well."""
        kind: type[Any] = type(built)
        if issubclass(kind, (tuple, frozenset)):
            self.nesting.add(cast(type, kind))
            self.note(built)
        elif not is_leaf(built):
            self.made.append(built)
        return built

    def build(self, target: object, state: object) -> object:
        """Return the target of a BUILD opcode with its state."""
        self.charge(16 + _weight(state))
        if is_tuple(state):
            self.charge(sum(map(_weight, state)))
        if type(target) is Draft:
            if target.final is not None:
                raise DecodeError("an object gets its state twice")
            target.final = target.finish(self, state)
            self.drafts -= 1
            return self.adopt(target.final)
        if is_registered(type(target)) and not isinstance(target, enum.Enum):
            _set_state(target, state)
        elif isinstance(target, Exception):
            exceptions.set_state(target, state)
        else:
            raise SerializerRefused(f"an unsigned pickle may not set the state of {_named(type(target))}")
        return target


def _weight(value: object) -> int:
    """Return roughly how many bytes a copy of the value takes."""
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if isinstance(value, memoryview):
        return 0
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return 32 * len(cast("list[object]", value))
    return 16


def _named(cls: object) -> str:
    return exceptions.qualified(cls) if isinstance(cls, type) else type(cls).__name__


def _are_atoms(args: Args) -> bool:
    # The text, or the hash, of anything else may unfold what is shared in it without end.
    return weighing.ATOMS.issuperset(map(type, args))


def _no_ranges(args: Args) -> None:
    # A constructor that turns its argument into a list would fill the memory from twenty bytes.
    if any(type(arg) is range for arg in args):
        raise DecodeError("a range cannot be an argument in an unsigned pickle")


def _set_state(target: object, state: object) -> None:
    setstate: Any = getattr(type(target), "__setstate__", None)
    if isinstance(target, Exception) and setstate is BaseException.__setstate__:
        exceptions.set_state(target, state)
        return
    if setstate is not None:
        setstate(target, state)
        return
    # The default state is a dict, or a pair of one for the dict and one for the slots.
    for attributes in state if is_tuple(state) else (state,):
        if attributes is not None:
            _set_attributes(target, attributes)


def _set_attributes(target: object, attributes: object) -> None:
    if not is_dict(attributes):
        raise DecodeError("malformed state")
    for name, value in attributes.items():
        if type(name) is not str:
            raise DecodeError("the name of an attribute must be a string")
        if name.startswith("__") and name.endswith("__"):
            raise DecodeError(f"attribute {name[:40]!r} cannot be set by an unsigned pickle")
        object.__setattr__(target, name, value)


Handler = Callable[[Machine], None]
