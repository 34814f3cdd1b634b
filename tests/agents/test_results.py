from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, cast

import pytest

from pzc import Refused
from pzc.agents import results
from pzc.agents.loop import Loop, Timer
from pzc.agents.results import Results, outcome_of

RETURN_7 = ("PSMessage", "return", 7)
PENDING = ("PSMessage", "pending", None)


class Clock:
    """A loop whose timers fire when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, function: Callable[[], None]) -> Timer:
        self.timers.append((delay, function))
        return Timer(delay, function)

    def fire(self, delay: float) -> None:
        due = [function for seconds, function in self.timers if seconds == delay]
        self.timers = [entry for entry in self.timers if entry[0] != delay]
        for function in due:
            function()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Results:
    return Results(cast(Loop, clock))


def done(value: object = 7) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_a_result_that_was_there_before_it_was_registered_is_given(kept: Results) -> None:
    answers: list[object] = []
    kept.register("id", "me", done())
    kept.ask("id", "me", answers.append)
    assert answers == [RETURN_7]


def test_a_result_that_comes_later_is_given_to_whoever_asked_before(kept: Results) -> None:
    answers: list[object] = []
    future: Future[int] = Future()
    kept.register("id", "me", future)
    kept.ask("id", "me", answers.append)
    assert answers == []
    future.set_result(7)
    assert answers == [RETURN_7]


def test_a_result_is_given_again_because_the_first_reply_may_be_lost(kept: Results) -> None:
    answers: list[object] = []
    kept.register("id", "me", done())
    kept.ask("id", "me", answers.append)
    kept.ask("id", "me", answers.append)
    assert answers == [RETURN_7, RETURN_7]


def test_somebody_elses_result_is_refused(kept: Results) -> None:
    kept.register("id", "me", done())
    with pytest.raises(Refused, match="or is not yours"):
        kept.ask("id", "you", lambda _: None)


def test_an_unknown_result_is_refused(kept: Results) -> None:
    with pytest.raises(Refused, match="no result is kept for call other"):
        kept.ask("other", "me", lambda _: None)


def test_a_finished_result_is_forgotten_after_a_while(kept: Results, clock: Clock) -> None:
    kept.register("id", "me", done())
    clock.fire(results.KEEP)
    with pytest.raises(Refused):
        kept.ask("id", "me", lambda _: None)
    assert len(kept) == 0


def test_a_running_result_is_not_forgotten(kept: Results, clock: Clock) -> None:
    kept.register("id", "me", Future())
    clock.fire(results.KEEP)
    assert len(kept) == 1


def test_a_question_about_a_running_result_is_answered_pending_in_time(kept: Results, clock: Clock) -> None:
    answers: list[object] = []
    future: Future[int] = Future()
    kept.register("id", "me", future)
    kept.ask("id", "me", answers.append)
    clock.fire(results.ASK_TIMEOUT)
    assert answers == [PENDING]
    future.set_result(7)
    assert answers == [PENDING]
    kept.ask("id", "me", answers.append)
    assert answers == [PENDING, RETURN_7]


def test_an_answered_question_is_not_answered_pending_as_well(kept: Results, clock: Clock) -> None:
    answers: list[object] = []
    future: Future[int] = Future()
    kept.register("id", "me", future)
    kept.ask("id", "me", answers.append)
    future.set_result(7)
    clock.fire(results.ASK_TIMEOUT)
    assert answers == [RETURN_7]


def test_when_full_the_oldest_finished_one_goes_first(kept: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_RESULTS", 3)
    kept.register("running", "me", Future())
    kept.register("old", "me", done())
    kept.register("new", "me", done())
    kept.register("newest", "me", done())
    with pytest.raises(Refused):
        kept.ask("old", "me", lambda _: None)
    answers: list[object] = []
    kept.ask("new", "me", answers.append)
    assert answers == [RETURN_7]


def test_when_all_are_running_one_more_is_refused(kept: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_RESULTS", 2)
    kept.register("a", "me", Future())
    kept.register("b", "me", Future())
    with pytest.raises(Refused, match="2 futures of this server are still running"):
        kept.register("c", "me", Future())


def test_a_future_that_raised_gives_a_raise_message() -> None:
    future: Future[int] = Future()
    future.set_exception(ValueError("out of range"))
    _, action, (error, trace) = cast(Any, outcome_of(future))
    assert (action, type(error), str(error)) == ("raise", ValueError, "out of range")
    assert trace == ["ValueError: out of range\n"]


def test_a_cancelled_future_gives_a_raise_message() -> None:
    future: Future[int] = Future()
    future.cancel()
    _, action, (error, _) = cast(Any, outcome_of(future))
    assert (action, type(error)) == ("raise", CancelledError)


def test_a_result_that_completes_while_it_is_asked_for_is_answered_once(kept: Results) -> None:
    for number in range(200):
        answers: list[object] = []
        future: Future[int] = Future()
        kept.register(str(number), "me", future)
        start = threading.Barrier(2)

        def complete(future: Future[int] = future, start: threading.Barrier = start) -> None:
            start.wait()
            future.set_result(7)

        thread = threading.Thread(target=complete)
        thread.start()
        start.wait()
        kept.ask(str(number), "me", answers.append)
        thread.join()
        assert answers == [RETURN_7]
