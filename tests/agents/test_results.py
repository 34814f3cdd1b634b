from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, cast

import pytest

from pzc import Protocol, Refused
from pzc.agents.serving import results
from pzc.agents.serving.calls import Call, Caller
from pzc.agents.serving.replies import Frames
from pzc.agents.serving.results import Outcomes, Results, outcome_of
from pzc.agents.sockets.loop import Loop, Timer
from pzc.protocol import limits
from pzc.protocol.keyring import Key

from tests.contract.rigs.calling import KEY

RETURN_7 = ("PSMessage", "return", 7)
PENDING = ("PSMessage", "pending", None)
ME, YOU = Caller("me", None, "here"), Caller("you", Key("other"), "there")
RECEIVER = "receiver"


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
def protocol() -> Protocol:
    return Protocol(KEY)


@pytest.fixture
def kept(clock: Clock, protocol: Protocol) -> Results:
    return Results(cast(Loop, clock), protocol)


def done(value: object = 7) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def answered(protocol: Protocol, content: object = RETURN_7, call_id: str = "id") -> Frames:
    return protocol.encode("server", "", content, reply_to=call_id, receiver=RECEIVER, dialect="PZC01")


def asked(kept: Results, call_id: str = "id", caller: Caller = ME, running: bool = False) -> list[object]:
    answers: list[object] = []
    kept.ask(call_id, caller, running, answers.append)
    return answers


def same(answers: list[object], expected: object) -> bool:
    return [tuple(cast(Any, answer)) for answer in answers] == [expected]


def test_the_answer_of_every_call_is_given_again(kept: Results, protocol: Protocol) -> None:
    kept.keep(Call("id", ME), RECEIVER, answered(protocol))
    assert same(asked(kept), RETURN_7)
    assert same(asked(kept), RETURN_7)


def test_another_agent_with_the_same_key_gets_the_answer(kept: Results, protocol: Protocol) -> None:
    kept.keep(Call("id", YOU), RECEIVER, answered(protocol))
    assert same(asked(kept, caller=Caller("its successor", YOU.key, "elsewhere")), RETURN_7)


@pytest.mark.parametrize("running", [False, True])
def test_the_answer_is_refused_for_another_key(kept: Results, protocol: Protocol, running: bool) -> None:
    if running:
        kept.register(Call("id", ME), Future())
    else:
        kept.keep(Call("id", ME), RECEIVER, answered(protocol))
    with pytest.raises(Refused, match="or is another key's"):
        asked(kept, caller=YOU)


def test_the_oldest_answers_go_first_when_there_are_too_many(
    kept: Results, protocol: Protocol, timings: Callable[..., None]
) -> None:
    timings(results_kept=3)
    for number in range(5):
        kept.keep(Call(str(number), ME), RECEIVER, answered(protocol, number, str(number)))
    assert len(kept) == 3
    assert asked(kept, "2") == [2]
    with pytest.raises(Refused):
        asked(kept, "1")


def test_the_oldest_answers_go_first_when_they_have_too_many_bytes(
    kept: Results, protocol: Protocol, timings: Callable[..., None]
) -> None:
    timings(result_bytes=3000)
    for number in range(5):
        kept.keep(Call(str(number), ME), RECEIVER, answered(protocol, b"x" * 1000, str(number)))
    assert 0 < len(kept) < 3
    assert asked(kept, "4") == [b"x" * 1000]


def test_answers_to_one_id_again_and_again_do_not_use_the_room_up(
    kept: Results, protocol: Protocol, timings: Callable[..., None]
) -> None:
    timings(result_bytes=3000)
    for _ in range(10):
        kept.keep(Call("id", ME), RECEIVER, answered(protocol, b"x" * 1000))
    kept.keep(Call("other", ME), RECEIVER, answered(protocol, b"y" * 1000, "other"))
    assert asked(kept) == [b"x" * 1000]


def test_a_large_answer_in_shared_memory_is_not_kept_and_a_small_one_is_copied(
    kept: Results, protocol: Protocol
) -> None:
    frames = answered(protocol, 7)
    memory = bytearray(bytes(frames[2]))
    kept.keep(Call("id", ME), RECEIVER, [*frames[:2], memoryview(memory), *frames[3:]])
    memory[:] = bytes(len(memory))
    assert asked(kept) == [7]
    large = memoryview(bytearray(results.MAX_COPIED + 1))
    kept.keep(Call("large", ME), RECEIVER, [*frames[:2], large, *frames[3:]])
    with pytest.raises(Refused):
        asked(kept, "large")


def test_a_question_about_a_call_that_runs_is_answered_pending_soon(kept: Results, clock: Clock) -> None:
    answers = asked(kept, running=True)
    assert answers == []
    clock.fire(results.ASK_AGAIN)
    assert answers == [PENDING]


def test_an_answer_that_only_names_a_future_does_not_hide_its_result(
    kept: Results, protocol: Protocol
) -> None:
    call, future = Call("id", ME), Future[int]()
    kept.register(call, future)
    kept.keep(call, RECEIVER, answered(protocol, ("PSMessage", "future_register", "id")))
    future.set_result(7)
    assert asked(kept) == [RETURN_7]


def test_a_result_that_was_there_before_it_was_registered_is_given(kept: Results, protocol: Protocol) -> None:
    call = Call("id", ME)
    kept.register(call, done())
    kept.keep(call, RECEIVER, answered(protocol, ("PSMessage", "future_register", "id")))
    assert asked(kept) == [RETURN_7]


def test_a_result_that_comes_later_is_given_to_whoever_asked_before(kept: Results) -> None:
    future: Future[int] = Future()
    kept.register(Call("id", ME), future)
    answers = asked(kept)
    assert answers == []
    future.set_result(7)
    assert answers == [RETURN_7]


def test_a_result_is_given_again_because_the_first_reply_may_be_lost(kept: Results) -> None:
    kept.register(Call("id", ME), done())
    assert asked(kept) + asked(kept) == [RETURN_7, RETURN_7]


def test_an_unknown_result_is_refused(kept: Results) -> None:
    with pytest.raises(Refused, match="no result is kept for call other"):
        asked(kept, "other")


def test_a_result_is_forgotten_after_a_while(
    kept: Results, protocol: Protocol, timings: Callable[..., None]
) -> None:
    timings(result_kept=0.0)
    kept.register(Call("old", ME), done())
    with pytest.raises(Refused):
        asked(kept, "old")
    kept.keep(Call("new", ME), RECEIVER, answered(protocol))
    assert len(kept) == 0


def test_a_running_result_is_not_forgotten(
    kept: Results, protocol: Protocol, timings: Callable[..., None]
) -> None:
    timings(result_kept=0.0)
    kept.register(Call("id", ME), Future())
    kept.keep(Call("other", ME), RECEIVER, answered(protocol))
    assert len(kept) == 1


def test_a_question_about_a_running_result_is_answered_pending_in_time(kept: Results, clock: Clock) -> None:
    future: Future[int] = Future()
    kept.register(Call("id", ME), future)
    answers = asked(kept)
    clock.fire(limits.current.result_wait)
    assert answers == [PENDING]
    future.set_result(7)
    assert answers == [PENDING]
    assert asked(kept) == [RETURN_7]


def test_an_answered_question_is_not_answered_pending_as_well(kept: Results, clock: Clock) -> None:
    future: Future[int] = Future()
    kept.register(Call("id", ME), future)
    answers = asked(kept)
    future.set_result(7)
    clock.fire(limits.current.result_wait)
    assert answers == [RETURN_7]


def test_the_questions_of_a_dead_agent_are_dropped_and_its_result_is_not(kept: Results) -> None:
    future: Future[int] = Future()
    kept.register(Call("id", ME), future)
    answers = asked(kept)
    kept.forget_agent(ME.identity)
    future.set_result(7)
    assert answers == []
    assert asked(kept, caller=Caller("successor", None, "")) == [RETURN_7]


def test_when_too_many_are_running_one_more_is_refused(kept: Results, timings: Callable[..., None]) -> None:
    timings(running_futures=2)
    kept.register(Call("a", ME), Future())
    kept.register(Call("b", ME), Future())
    with pytest.raises(Refused, match="2 futures of this server are still running"):
        kept.register(Call("c", ME), Future())
    kept.register(Call("c", YOU), Future())


def test_another_key_takes_the_place_of_no_result(kept: Results, protocol: Protocol) -> None:
    kept.keep(Call("id", ME), RECEIVER, answered(protocol))
    kept.keep(Call("id", YOU), RECEIVER, answered(protocol, 8))
    kept.register(Call("future", ME), done())
    kept.register(Call("future", YOU), Future())
    bundle = Outcomes(YOU.key_id, "json", ["small", "id of a bundle"])
    kept.keep_small("small", ME, RECEIVER, answered(protocol))
    kept.open(bundle)
    kept.open(Outcomes(ME.key_id, "json", ["id of a bundle"]))
    for call_id in ("id", "future", "small"):
        assert same(asked(kept, call_id), RETURN_7)
    assert asked(kept, "id", YOU) == [8]


def test_what_another_key_called_makes_no_result_forgotten(
    kept: Results, protocol: Protocol, timings: Callable[..., None]
) -> None:
    timings(results_kept=2)
    kept.keep(Call("id", ME), RECEIVER, answered(protocol))
    kept.keep_small("small", ME, RECEIVER, answered(protocol))
    bundle = Outcomes(ME.key_id, "json", ["bundled"], {"bundled": b"7"})
    kept.open(bundle)
    kept.close(bundle)
    for number in range(4):
        kept.keep(Call(str(number), YOU), RECEIVER, answered(protocol))
        kept.keep_small(f"small {number}", YOU, RECEIVER, answered(protocol))
        theirs = Outcomes(YOU.key_id, "json", [f"bundled {number}"], {f"bundled {number}": b"8"})
        kept.open(theirs)
        kept.close(theirs)
    for call_id in ("id", "small"):
        assert same(asked(kept, call_id), RETURN_7)
    assert asked(kept, "bundled") == [7]


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
        future: Future[int] = Future()
        kept.register(Call(str(number), ME), future)
        start = threading.Barrier(2)

        def complete(future: Future[int] = future, start: threading.Barrier = start) -> None:
            start.wait()
            future.set_result(7)

        thread = threading.Thread(target=complete)
        thread.start()
        start.wait()
        answers = asked(kept, str(number))
        thread.join()
        assert answers == [RETURN_7]
