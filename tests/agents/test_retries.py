from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from pzc import PeerLost
from pzc.agents.client.retries import Repeating


class Marker:
    """Stands for what the caller's frame held."""


class Script:
    """Fails as often as it is told to."""

    def __init__(self, error: type[Exception], failures: float) -> None:
        self.error = error
        self.failures = failures
        self.calls = self.forgotten = 0

    def run(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(str(self.calls))
        return self.calls

    def forget(self) -> None:
        self.forgotten += 1


@pytest.fixture
def repeating() -> Repeating:
    closed = threading.Event()
    closed.set()  # no pause
    return Repeating(PeerLost, closed)


def test_a_call_is_repeated_until_it_has_a_result(repeating: Repeating) -> None:
    script = Script(PeerLost, 3)
    assert repeating.call(script.run, 60.0, script.forget) == 4
    assert script.forgotten == 3


def test_another_error_is_raised_at_once(repeating: Repeating) -> None:
    script = Script(ValueError, 3)
    with pytest.raises(ValueError, match="1"):
        repeating.call(script.run, 60.0, script.forget)
    assert script.forgotten == 0


def test_the_last_error_is_raised_when_there_is_no_time_for_another_try(repeating: Repeating) -> None:
    script = Script(PeerLost, float("inf"))
    with pytest.raises(PeerLost) as raised:
        repeating.call(script.run, 0.05, script.forget)
    assert (str(raised.value), script.forgotten) == (str(script.calls), script.calls - 1)


def _succeed_late(repeating: Repeating) -> None:
    repeating.call(Script(PeerLost, 2).run, 60.0)


def _fail(error: type[Exception], timeout: float) -> Callable[[Repeating], None]:
    def fail(repeating: Repeating) -> None:
        with pytest.raises(error):
            repeating.call(Script(error, float("inf")).run, timeout)

    return fail


@pytest.mark.parametrize(
    "operation",
    [_succeed_late, _fail(PeerLost, 0.05), _fail(PeerLost, 0.0), _fail(ValueError, 60.0)],
    ids=["a late success", "the end of the time", "no time", "another error"],
)
def test_what_stood_beside_a_repeated_call_is_freed_at_once(
    repeating: Repeating, without_collector: None, operation: Callable[[Repeating], None]
) -> None:
    def call() -> weakref.ref[Marker]:
        marker = Marker()
        operation(repeating)
        return weakref.ref(marker)

    assert call()() is None


def test_a_repeated_call_leaves_nothing_for_the_collector(
    repeating: Repeating, without_collector: None
) -> None:
    _succeed_late(repeating)
    gc.collect()
    _succeed_late(repeating)
    assert gc.collect() == 0
