"""How values and texts of peers are told."""

from __future__ import annotations

import collections
import time
from typing import Any

import numpy as np
import pytest

from pzc.protocol.shown import printable, shown


class Liar:
    """Everything that is asked of it fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (True, "True"),
        ("a\x1b", "'a\\x1b'"),
        ((1,), "(1)"),
        ([1, [2, None]], "[1, [2, None]]"),
        ({"a": 1.5}, "{'a': 1.5}"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        (1 << 50_000, "<int of 50001 bits>"),
        (np.zeros((3, 2)), "<array <f8 (3, 2)>"),
        (ValueError("x", 2), "ValueError('x', 2)"),
        (collections.deque([1]), "<deque>"),
        (Liar(), "<Liar>"),
        (int, "<class int>"),
        ([[[[[[1]]]]]], "[[[[...]]]]"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_value_is_told_shortly(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_value_that_unfolds_without_end_is_told_at_once() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    begun = time.process_time()
    assert len(shown(value)) <= 100
    assert len(shown("x" * 10**6, 50)) == 50
    assert time.process_time() - begun < 1


def test_a_text_steers_no_terminal_and_breaks_no_line() -> None:
    assert printable("volts µV") == "volts µV"
    assert printable("\x1b[2J\r\n\u202e") == "\\x1b[2J\\r\\n\\u202e"
    assert len(printable("\0" * 500)) == 200
