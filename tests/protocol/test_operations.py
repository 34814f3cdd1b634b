"""What is done with a thing by its name, as Python itself would do it."""

from __future__ import annotations

import enum
from collections import defaultdict
from typing import Any

import pytest

from pzc.agents.operations import OPERATIONS, fits

NUMBERS, TABLE = [3, 1, 2], {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("__getitem__", (NUMBERS, 1), 1), ("__len__", (NUMBERS,), 3), ("__contains__", (NUMBERS, 2), True),
        ("__iter__", (TABLE,), ["a", "b"]), ("__bool__", ([],), False),
        ("__int__", (True,), 1), ("__float__", (2,), 2.0),
        ("keys", (TABLE,), ["a", "b"]), ("values", (TABLE,), [1, 2]), ("items", (TABLE,), [("a", 1), ("b", 2)]),
        ("get", (TABLE, "c"), None), ("get", (TABLE, "c", 5), 5), ("copy", (TABLE,), TABLE),
    ],
)  # fmt: skip
def test_it_does_what_python_does(name: str, given: tuple[Any, ...], expected: object) -> None:
    assert OPERATIONS[name].do(*given) == expected


def test_items_are_set_and_deleted() -> None:
    things = dict(TABLE)
    OPERATIONS["__setitem__"].do(things, "c", 3)
    OPERATIONS["__delitem__"].do(things, "a")
    assert things == {"b": 2, "c": 3}


def test_reading_makes_no_item() -> None:
    things: defaultdict[str, list[int]] = defaultdict(list)
    with pytest.raises(KeyError):
        OPERATIONS["__getitem__"].do(things, "x")
    assert not things


class Colour(enum.Enum):
    RED = 1


class Shutter:
    def __init__(self) -> None:
        self.left: tuple[Any, ...] = ()

    def __enter__(self) -> str:
        return "open"

    def __exit__(self, *error: object) -> None:
        self.left = error


@pytest.mark.parametrize(
    ("told", "expected"), [((), "(None, None, None)"), (("ValueError", "x"), "RuntimeError('ValueError: x')")]
)
def test_a_block_is_left_with_its_error(told: tuple[str, ...], expected: str) -> None:
    shutter = Shutter()
    assert OPERATIONS["__enter__"].do(shutter) == "open"
    OPERATIONS["__exit__"].do(shutter, *told)
    assert expected in repr(shutter.left)


@pytest.mark.parametrize(
    ("name", "thing", "expected"),
    [
        ("__len__", [], True), ("__len__", 3, False), ("__len__", Colour, False), ("keys", {}, True),
        ("keys", [], False), ("__bool__", object(), True),
    ],
)  # fmt: skip
def test_an_operation_fits_what_has_its_special_method(name: str, thing: object, expected: bool) -> None:
    assert fits(OPERATIONS[name], thing) is expected
