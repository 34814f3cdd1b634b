"""Registered classes, and opcodes of pickles that no pickler would write."""

from __future__ import annotations

import collections
import dataclasses
import enum
import pickle

from pzc.protocol.unpickle import register_class

PROTOCOLS = range(6)


def text(value: str) -> bytes:
    """The opcode of a short text."""
    raw = value.encode()
    return b"\x8c" + bytes([len(raw)]) + raw


def name(module: str, attribute: str) -> bytes:
    """The STACK_GLOBAL of a class or function."""
    return text(module) + text(attribute) + b"\x93"


def call(module: str, attribute: str, *args: object) -> bytes:
    """A whole pickle that calls ``module.attribute(*args)``."""
    return b"\x80\x04" + name(module, attribute) + inner(tuple(args)) + b"R."


def inner(value: object) -> bytes:
    """The opcodes that build a value, without header, frame and STOP."""
    return pickle.dumps(value, 3)[2:-1]


@dataclasses.dataclass
class Point:
    x: object
    y: object


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int


class Pair(collections.namedtuple("Pair", "a b")):
    __slots__ = ()


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


class Status(enum.Flag):
    """Not registered: an instrument's own class, loaded at both sides."""

    READY = 1
    BUSY = 2
    OVERLOAD = 8


class Register(enum.IntFlag):
    READY = 1


class Peculiar(enum.Flag):
    ON = 1
    OFF = 2

    @classmethod
    def _missing_(cls, value: object) -> Peculiar:
        ran.append(value)
        return cls.ON


ran: list[object] = []


class LabError(Exception):
    pass


class Table(dict):
    pass


class Row(list):
    pass


for registered in (Point, Frozen, Pair, Mode, LabError, Table, Row):
    register_class(registered)
