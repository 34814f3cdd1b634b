from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.liveness import Liveness
from pzc.delivery.locks import Changed, Lock, Owner
from pzc.delivery.standstill import Standstill
from pzc.testing import FakeClock


def test_whoever_looks_in_time_did_not_stand_still() -> None:
    clock = FakeClock()
    standstill = Standstill(1.0, clock())
    for pause in (0.0, 0.5, 1.0):
        clock.advance(pause)
        assert standstill.look(clock()) == 0


def test_a_look_that_comes_late_tells_how_late_and_only_once() -> None:
    clock = FakeClock()
    standstill = Standstill(1.0, clock())
    clock.advance(9.0)
    assert [standstill.look(clock()), standstill.look(clock())] == [8.0, 0]


def test_a_time_of_another_thread_that_is_read_late_changes_nothing() -> None:
    standstill = Standstill(1.0, 10.0)
    assert [standstill.look(now) for now in (10.5, 10.2, 11.5)] == [0, 0, 0]


def test_an_end_whose_other_end_stood_still_is_not_lost_by_that() -> None:
    clock = FakeClock()
    link = Liveness(clock())
    clock.advance(1.0)
    assert link.look(clock()) == "alive"
    clock.advance(9.0)
    assert link.look(clock()) == "alive"


def test_what_comes_first_after_a_standstill_comes_in_time() -> None:
    clock = FakeClock()
    link = Liveness(clock())
    clock.advance(9.0)
    link.heard(clock())
    assert (link.state(clock()), link.silence(clock())) == ("alive", 0)


def test_an_owner_loses_no_time_by_a_standstill_and_no_more_than_that_is_given_to_it() -> None:
    clock = FakeClock()
    lock: Lock[str] = Lock()
    owner = Owner("alice", "agent", "token")
    lock.acquire(owner, 5.0, "", clock(), "ticket", clock(), 0.0)
    standstill = Standstill(0.25, clock())
    clock.advance(9.25)
    lock.excuse(standstill.look(clock()))
    assert lock.expire(clock()) == []
    clock.advance(4.75)
    assert lock.expire(clock()) == [Changed("expired", owner, None)]


@given(st.lists(st.floats(0.0, 30.0), max_size=20))
def test_an_end_that_says_nothing_is_lost_however_often_the_other_stands_still(pauses: list[float]) -> None:
    clock = FakeClock()
    link = Liveness(clock())
    for pause in pauses:
        clock.advance(pause)
        link.look(clock())
    for _ in range(4):
        clock.advance(1.0)
        link.look(clock())
    assert link.state(clock()) == "lost"
