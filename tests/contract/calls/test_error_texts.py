"""An exception arrives with its text, whatever it carries, and with its type where that is known."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pzc import Proxy

from tests.contract.rigs import failing
from tests.contract.rigs.failing import Faulty, RangeError, failure_of
from tests.contract.rigs.supply import Tripped

faulty = failing.faulty

MEGABYTES = 8 << 20
ROOM = 1 << 18
"""Bytes of text that a cut exception has at most."""


class Carrying(RuntimeError):
    """Makes its text of something large."""

    def __init__(self, frame: Any) -> None:
        super().__init__("bad frame")
        self.frame = frame

    def __str__(self) -> str:
        return f"bad frame of {len(self.frame)} points"


class Unnotable(RuntimeError):
    """Cannot be asked for its notes."""

    @property
    def __notes__(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise OSError("the cable is out")


class Unchained(RuntimeError):
    """Cannot be asked what caused it."""

    @property
    def __cause__(self) -> BaseException | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise OSError("the cable is out")


def with_reason(reason: object) -> RuntimeError:
    error = RuntimeError("no answer")
    error.reason = reason  # pyright: ignore[reportAttributeAccessIssue]
    return error


def unreadable() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", bytes(MEGABYTES), 0, 1, "no answer")


def noted_with(notes: object) -> RuntimeError:
    error = RuntimeError("no answer")
    error.__notes__ = notes  # pyright: ignore[reportAttributeAccessIssue]
    return error


def chained() -> RuntimeError:
    first, second = RuntimeError("no answer"), ValueError("port gone", bytes(MEGABYTES))
    first.__cause__, second.__cause__ = second, first
    return first


def noted() -> RuntimeError:
    error = RuntimeError("no answer")
    error.add_note("check cable 3" * MEGABYTES)
    return error


CARRY = {
    "what cannot be pickled": RuntimeError("no answer", threading.Lock()),
    "an error of two arguments": RuntimeError("no answer", Tripped(1, 2.0)),
    "an error of two arguments as attribute": with_reason(Tripped(1, 2.0)),
    "errors in a list": RuntimeError("no answer", [Tripped(1, 2.0)]),
    "what cannot be pickled as attribute": with_reason(threading.Lock()),
    "bytes": RuntimeError("no answer", bytes(MEGABYTES)),
    "text": RuntimeError("no answer" + "x" * MEGABYTES),
    "a list": RuntimeError("no answer", [1] * MEGABYTES),
    "lists in lists": RuntimeError("no answer", [[1] * 1000] * 8000),
    "a set": RuntimeError("no answer", set(range(1 << 20))),
    "an array": RuntimeError("no answer", np.zeros(MEGABYTES)),
    "an array as attribute": with_reason(np.zeros(MEGABYTES)),
    "a chain in a circle": chained(),
    "notes": noted(),
    "many notes": noted_with(["check cable 3"] * (1 << 18)),
    "what is no note": noted_with(5),
    "very many arguments": RuntimeError("no answer", *range(1 << 17)),
}


@pytest.mark.parametrize("carried", CARRY)
def test_an_exception_arrives_with_type_and_text_whatever_it_carries(
    faulty: tuple[Faulty, Proxy], carried: str
) -> None:
    found = failure_of(*faulty, CARRY[carried])
    assert type(found) is RuntimeError
    assert "no answer" in str(found)
    assert len(str(found)) < ROOM
    assert sum(map(len, found.__notes__)) < 2 * ROOM


@pytest.mark.parametrize("error", [Unnotable("no answer"), Unchained("no answer")], ids=["notes", "cause"])
def test_an_error_that_cannot_be_looked_at_arrives_with_its_text_and_ends_no_thread(
    faulty: tuple[Faulty, Proxy], error: RuntimeError
) -> None:
    for _ in range(3):
        assert "no answer" in str(failure_of(*faulty, error))


def test_a_short_argument_arrives_after_a_large_one(faulty: tuple[Faulty, Proxy]) -> None:
    assert "no answer" in str(failure_of(*faulty, unreadable()))


def test_an_error_of_a_class_that_makes_its_text_of_a_frame_arrives_with_the_text(
    faulty: tuple[Faulty, Proxy],
) -> None:
    found = failure_of(*faulty, Carrying(np.zeros(MEGABYTES)))
    assert type(found) is Carrying
    assert f"bad frame of {MEGABYTES} points" in found.__notes__


def test_a_group_of_errors_that_cannot_be_rebuilt_arrives_with_all_texts(
    faulty: tuple[Faulty, Proxy],
) -> None:
    found = failure_of(*faulty, ExceptionGroup("two channels", [Tripped(1, 2.0), RangeError("too high")]))
    assert "two channels" in str(found)
    (note,) = found.__notes__
    assert "channel 1 tripped at 2.0 V" in note
    assert "too high" in note


def test_what_an_exception_carries_is_not_changed_at_its_server(faulty: tuple[Faulty, Proxy]) -> None:
    error = RuntimeError("no answer", bytes(MEGABYTES))
    failure_of(*faulty, error)
    assert error.args == ("no answer", bytes(MEGABYTES))
