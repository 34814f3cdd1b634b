from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from pzc import ConfigError, PeerLost, Refused
from pzc.agents.serving import lane as lanes
from pzc.agents.serving.lane import Lane, Turn
from pzc.protocol.errors import CallCancelled

from tests.contract.rigs.calling import TIMEOUT, in_thread, until
from tests.contract.rigs.peers import run_threads


@pytest.fixture
def lane() -> Iterator[Lane]:
    made = Lane("test")
    yield made
    made.close()


def visit(lane: Lane, work: Callable[[], object]) -> None:
    """A turn of the calling thread."""
    lane.enter(Turn())
    try:
        lane.here(work)
    finally:
        lane.leave()


def test_turns_of_threads_and_workers_come_in_arrival_order(lane: Lane) -> None:
    order: list[int] = []
    threads: list[threading.Thread] = []
    assert lane.enter_now()
    for number in range(40):
        if number % 2:
            lane.run(lambda number=number: order.append(number))
        else:
            threads.append(in_thread(lambda number=number: visit(lane, lambda: order.append(number)))[0])
        until(lambda number=number: len(lane) == number + 1)
    lane.leave()
    for thread in threads:
        thread.join(TIMEOUT)
    visit(lane, lambda: None)
    assert order == list(range(40))


def test_one_slot_is_never_taken_twice_under_contention(lane: Lane) -> None:
    inside = threading.Lock()
    ran: list[int] = []

    def work() -> None:
        assert inside.acquire(blocking=False)
        ran.append(1)
        inside.release()

    def mixed() -> None:
        for number in range(200):
            if number % 3 == 0:
                lane.run(work)
            elif number % 3 == 1 and lane.enter_now():
                work()
                lane.leave()
            else:
                visit(lane, work)

    run_threads(*[mixed] * 6)
    visit(lane, lambda: None)  # behind every worker's
    assert len(ran) == 1200
    until(lambda: lane.running == 0)
    assert len(lane) == 0


def test_three_slots_run_three_at_once_and_never_four() -> None:
    lane, meeting = Lane("test", concurrency=3), threading.Barrier(3)
    count, most, guard = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal count, most
        with guard:
            count += 1
            most = max(most, count)
        meeting.wait(TIMEOUT)
        with guard:
            count -= 1

    threads = [in_thread(lambda: visit(lane, work))[0] for _ in range(6)]
    for _ in range(6):
        lane.run(work)
    for thread in threads:
        thread.join(TIMEOUT)
    until(lambda: lane.running == 0)
    lane.close()
    assert (most, count, meeting.broken) == (3, 0, False)


@pytest.mark.parametrize(("concurrency", "affine"), [(0, False), (-1, False), (2, True)])
def test_an_impossible_concurrency_is_a_config_error(concurrency: int, affine: bool) -> None:
    with pytest.raises(ConfigError, match=f"concurrency={concurrency} is not possible"):
        Lane("test", concurrency, affine)


def test_a_removed_turn_never_runs(lane: Lane) -> None:
    ran, refused = threading.Event(), []
    turn = Turn(ran.set, refused.append)
    assert lane.enter_now()
    lane.submit(turn)
    assert lane.remove(turn)
    lane.leave()
    visit(lane, lambda: None)
    assert not ran.is_set()
    assert [type(error) for error in refused] == [CallCancelled]


def test_a_thread_whose_turn_was_removed_gets_an_error_and_the_next_one_runs(lane: Lane) -> None:
    turn, ran = Turn(), threading.Event()
    assert lane.enter_now()
    thread, outcome = in_thread(lambda: lane.enter(turn))
    until(lambda: len(lane) == 1)
    lane.run(ran.set)
    assert lane.remove(turn)
    thread.join(TIMEOUT)
    assert [type(error) for error in outcome] == [CallCancelled]
    assert not ran.is_set()
    lane.leave()
    assert ran.wait(TIMEOUT)


def test_a_turn_is_removed_once_and_not_when_it_runs_or_has_not_come(lane: Lane) -> None:
    new, running, waiting = Turn(), Turn(), Turn(int)
    lane.enter(running)
    lane.submit(waiting)
    assert not lane.remove(new)
    assert not lane.remove(running)
    assert lane.remove(waiting)
    assert not lane.remove(waiting)
    assert len(lane) == 0
    lane.leave()


def test_removed_turns_do_not_pile_up_behind_one_that_runs(lane: Lane) -> None:
    assert lane.enter_now()
    for _ in range(1000):
        turn = Turn(int)
        lane.submit(turn)
        lane.remove(turn)
    assert len(lane._waiting) <= 2
    lane.leave()


def test_a_thread_whose_sender_has_left_gives_its_turn_up(lane: Lane, timings: Callable[..., None]) -> None:
    timings(lane_look=0.01)
    assert lane.enter_now()
    with pytest.raises(PeerLost, match="not executed"):
        lane.enter(Turn(), lambda: True)
    assert len(lane) == 0
    lane.leave()
    visit(lane, lambda: None)


def test_closing_refuses_what_waits_and_waits_for_what_runs(lane: Lane) -> None:
    refused: list[Exception] = []
    assert lane.enter_now()
    lane.submit(Turn(int, refused.append))
    thread, outcome = in_thread(lambda: lane.enter(Turn()))
    until(lambda: len(lane) == 2)
    closing, _ = in_thread(lambda: lane.close(TIMEOUT))
    thread.join(TIMEOUT)
    assert [str(error) for error in (*refused, *outcome)] == [lanes.STOPPING] * 2
    assert closing.is_alive()
    lane.leave()
    closing.join(TIMEOUT)
    assert not closing.is_alive()


def test_a_closed_lane_takes_nothing_more(lane: Lane) -> None:
    lane.close()
    assert not lane.enter_now()
    with pytest.raises(PeerLost, match="is being stopped"):
        lane.enter(Turn())
    with pytest.raises(PeerLost, match="is being stopped"):
        lane.run(int)


def test_closing_does_not_wait_longer_than_it_was_told(lane: Lane) -> None:
    opened = threading.Event()
    lane.run(lambda: opened.wait(TIMEOUT))
    lane.close(0.01)
    assert lane.running == 1
    opened.set()
    until(lambda: lane.running == 0)


def test_closing_from_inside_a_turn_does_not_wait_for_itself(lane: Lane) -> None:
    visit(lane, lane.close)
    assert lane.running == 0


def test_a_full_lane_refuses_and_goes_on(lane: Lane, timings: Callable[..., None]) -> None:
    timings(lane_waiting=2)
    ran = threading.Event()
    assert lane.enter_now()
    lane.run(int)
    lane.run(ran.set)
    with pytest.raises(Refused, match="too many requests are waiting"):
        lane.run(int)
    with pytest.raises(Refused, match="too many requests are waiting"):
        lane.enter(Turn())
    lane.leave()
    assert ran.wait(TIMEOUT)


def test_nobody_overtakes_those_who_wait(lane: Lane) -> None:
    assert lane.enter_now()
    lane.run(int)
    assert not lane.enter_now()
    lane.leave()
    visit(lane, lambda: None)


def test_a_worker_whose_work_raises_gives_its_slot_back(lane: Lane) -> None:
    def fail() -> None:
        raise SystemExit

    lane.run(fail)
    visit(lane, lambda: None)
    until(lambda: lane.running == 0)


class Work:
    """As a call's: it refers to its turn, and the turn to it."""

    def __init__(self) -> None:
        self.turn = Turn(self.run, self.refuse)

    def run(self) -> None:
        """Its turn has come."""

    def refuse(self, error: Exception) -> None:
        """It never will."""


@pytest.mark.parametrize("removed", [False, True])
def test_what_a_turn_refers_to_is_let_go_without_a_collection(lane: Lane, removed: bool) -> None:
    work = Work()
    gone = weakref.ref(work)
    gc.disable()
    try:
        assert lane.enter_now()
        lane.submit(work.turn)
        if removed:
            assert lane.remove(work.turn)
        lane.leave()
        del work
        until(lambda: gone() is None)
    finally:
        gc.enable()


def test_a_thread_knows_whether_it_is_inside(lane: Lane) -> None:
    seen: list[bool] = []
    visit(lane, lambda: seen.append(lane.in_thread()))
    done = threading.Event()
    lane.run(lambda: (seen.append(lane.in_thread()), done.set()))
    assert done.wait(TIMEOUT)
    assert seen == [True, True]
    assert not lane.in_thread()


def test_an_affine_lane_runs_everything_in_one_thread() -> None:
    lane, threads, done = Lane("test", affine=True), [], threading.Event()
    run_threads(*[lambda: [lane.run(lambda: threads.append(threading.get_ident())) for _ in range(50)]] * 4)
    lane.run(done.set)
    assert done.wait(TIMEOUT)
    lane.close()
    assert len(threads) == 200
    assert len(set(threads)) == 1
