"""What is copied, and what refers to an object that stays where it is."""

from __future__ import annotations

import collections
import enum
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest

from pzc.protocol import values


class Channel:
    """Refers."""


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: object

    def moved(self) -> Point:
        return self


@dataclass(frozen=True)
class Frozen:
    inside: object

    def method(self) -> None: ...


@dataclass
class Bare:
    inside: object


@dataclass
class Busy:
    inside: object

    def method(self) -> None: ...


class Named(list[object]):
    """A list with a name and nothing that it does."""

    unit = "V"


class Bank(list[object]):
    def off(self) -> None: ...


class Rack(dict[str, object]):
    def __getitem__(self, key: str) -> object:
        return None


class Travelling:
    """Goes by value once it was added."""


CHANNEL = Channel()
VALUES: list[Any] = [
    None, True, 1, 1.5, 1j, "a", b"a", bytearray(b"a"), Decimal(1), Fraction(1, 2), UUID(int=1), Path("a"), range(3),
    ValueError("x"), Colour.RED, np.float32(1), np.arange(3), np.dtype("f8"), np.array([1, "a"], object),
    [1, (2, {3: frozenset({4})})], collections.deque([1]), collections.OrderedDict(a=1), collections.Counter("aa"),
    collections.ChainMap({1: 2}), MappingProxyType({1: 2}), Point(1), Frozen(1), Bare([1]), Named([1]),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_data_is_copied(value: object) -> None:
    assert values.first_reference(value) is None
    assert values.is_class_of_values(type(value))


REFERRING: list[Any] = [
    [CHANNEL], {"a": CHANNEL}, {CHANNEL: 1}, (1, [2, {3: CHANNEL}]), Point(CHANNEL), Frozen(CHANNEL), Bare(CHANNEL),
    np.array([1, CHANNEL], object), collections.deque([CHANNEL]), MappingProxyType({1: CHANNEL}), Named([CHANNEL]),
]  # fmt: skip


@pytest.mark.parametrize("value", REFERRING, ids=lambda value: type(value).__name__)
def test_an_object_inside_of_data_is_found(value: object) -> None:
    assert values.first_reference(value) is CHANNEL


@pytest.mark.parametrize(
    "value", [CHANNEL, Bank([1]), Rack(), Busy(1), lambda: None], ids=lambda value: type(value).__name__
)
def test_what_does_something_stays_where_it_is(value: object) -> None:
    assert values.first_reference(value) is value
    assert not values.is_class_of_values(type(value))


def test_a_value_that_holds_itself_is_looked_at_once() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert values.first_reference(circle) is None


def test_a_class_that_was_added_goes_by_value() -> None:
    class Heir(Travelling): ...

    values.add(Travelling)
    try:
        assert values.first_reference([Travelling(), Heir()]) is None
    finally:
        values.TRAVELLING.discard(Travelling)


def test_words_tell_what_holds_the_reference() -> None:
    held = [CHANNEL]
    assert values.told(CHANNEL, CHANNEL) == f"a {__name__}.Channel"
    assert values.told(held, CHANNEL) == f"a list with a {__name__}.Channel"
