from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pzc import RemoteProtocolError, cancelled
from pzc.agents.serving import calls as calling
from pzc.agents.serving.calls import Call, Caller, Calls
from pzc.agents.serving.lane import Lane, Turn
from pzc.protocol.keyring import Key

ME, YOU = Caller("me", None, "here"), Caller("you", None, "there")
EVE = Caller("me", Key("other"), "elsewhere")


@pytest.fixture
def lane() -> Iterator[Lane]:
    made = Lane("test")
    assert made.enter_now()
    yield made
    made.leave()
    made.close()


@pytest.fixture
def calls(lane: Lane) -> Calls:
    return Calls(lane)


def waiting(calls: Calls, lane: Lane, call_id: str, caller: Caller = ME) -> tuple[Call, list[Exception]]:
    refused: list[Exception] = []
    call = Call(call_id, caller, Turn(int, refused.append))
    calls.begin(call)
    assert call.turn is not None
    lane.submit(call.turn)
    return call, refused


def test_a_call_of_an_id_that_runs_is_refused_until_the_first_has_ended(calls: Calls) -> None:
    first = Call("id", ME)
    calls.begin(first)
    with pytest.raises(RemoteProtocolError, match="a call id runs here already; it is not executed again"):
        calls.begin(Call("id", YOU))
    assert calls.find("id", "") is first
    calls.end(first)
    calls.begin(Call("id", YOU))
    assert len(calls) == 1


def test_the_id_of_a_call_is_not_taken_by_another_key(calls: Calls) -> None:
    mine, other = Call("id", ME), Call("id", EVE)
    calls.begin_all([other])
    calls.begin(mine)
    assert (calls.find("id", ""), calls.find("id", EVE.key_id)) == (mine, other)
    calls.end(other)
    assert (mine in calls, other in calls) == (True, False)
    assert calls.find_any("id") is mine


def test_a_call_that_waits_is_removed(calls: Calls, lane: Lane) -> None:
    call, refused = waiting(calls, lane, "id")
    assert calls.cancel(call) == "removed"
    assert len(refused) == 1
    assert len(lane) == 0


def test_a_call_that_has_no_turn_yet_is_told(calls: Calls, lane: Lane) -> None:
    call = Call("id", ME, Turn(int))
    assert calls.cancel(call) == "told"
    assert call.cancelled
    assert len(lane) == 0


def test_who_watches_a_call_is_told_once_it_is_cancelled_and_at_once_when_it_was(calls: Calls) -> None:
    told: list[str] = []
    early, late = Call("early", ME), Call("late", ME)
    calls.watch(early, lambda: told.append("early"))
    assert told == []
    calls.cancel(early)
    calls.cancel(late)
    calls.watch(late, lambda: told.append("late"))
    assert told == ["early", "late"]


def test_what_a_dead_agent_asked_for_is_removed_and_what_others_asked_for_is_not(
    calls: Calls, lane: Lane
) -> None:
    mine = [waiting(calls, lane, f"mine {number}") for number in range(3)]
    waiting(calls, lane, "yours", YOU)
    waiting(calls, lane, "of another key", EVE)
    calls.begin(Call("running", ME))
    assert calls.forget_agent(ME.identity) == 3
    assert [len(refused) for _, refused in mine] == [1, 1, 1]
    assert len(lane) == 2


def test_outside_of_a_call_nothing_is_cancelled() -> None:
    assert calling.current() is None
    assert not cancelled()


def test_each_thread_has_its_own_current_call() -> None:
    call, seen = Call("id", ME, cancelled=True), []
    token = calling.set_current(call)
    try:
        thread = threading.Thread(target=lambda: seen.append(cancelled()))
        thread.start()
        thread.join()
        assert (cancelled(), seen) == (True, [False])
    finally:
        calling.reset_current(token)
