from __future__ import annotations

import queue
import threading
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import pytest

from pzc import (
    CallTimeout,
    LocalLimit,
    LockedBy,
    PeerLost,
    Protocol,
    Proxy,
    SerializeError,
    Server,
    attach,
    lock,
)

from tests.contract.rigs import flying
from tests.contract.rigs.calling import KEY, TIMEOUT, ServerProcess, proxied, served, until
from tests.contract.rigs.flying import Notes
from tests.contract.rigs.hanging_up import cut

notes, server, proxy, gathering = flying.notes, flying.server, flying.proxy, flying.gathering


def test_arguments_that_are_changed_afterwards_are_sent_as_they_were(
    proxy: Proxy, notes: Notes, gathering: Future[Any]
) -> None:
    values = [1]
    future = proxy.note.future(values)
    values.append(2)
    notes.opened.set()
    assert future.result(TIMEOUT) == [1]


def test_what_cannot_be_expressed_is_told_at_once(proxy: Proxy, notes: Notes) -> None:
    with pytest.raises(SerializeError):
        proxy.note.future(threading.Lock())
    assert proxy.note.future(1).result(TIMEOUT) == 1
    assert notes.noted == [1]


def test_a_call_that_is_cancelled_before_its_turn_never_runs(
    server: Server, proxy: Proxy, notes: Notes, gathering: Future[Any]
) -> None:
    cancelled, kept = proxy.note.future("cancelled"), proxy.note.future("kept")
    until(lambda: server.statistics()["calls"]["waiting"] == 2)
    assert cancelled.cancel()
    until(lambda: server.statistics()["calls"]["waiting"] == 1)
    notes.opened.set()
    assert kept.result(TIMEOUT) == "kept"
    assert notes.noted == ["kept"]
    with pytest.raises(CancelledError):
        cancelled.result(0)


def test_a_call_that_was_sent_ends_with_its_own_timeout(proxy: Proxy, notes: Notes) -> None:
    waits = proxy.wait.options(timeout=0.2).future()
    longer = proxy.wait.future()
    with pytest.raises(CallTimeout) as caught:
        waits.result(TIMEOUT)
    assert caught.value.call_id == waits.call_id
    notes.opened.set()
    assert longer.result(TIMEOUT) == "through"
    assert attach(waits.call_id, protocol=Protocol(KEY)).result(TIMEOUT) == "through"


@pytest.mark.usefixtures("beside_originals")
@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
def test_a_server_that_is_killed_is_told_long_before_the_call_would_time_out(
    tmp_path: Path, dialect: str
) -> None:
    with ServerProcess() as killed:
        with proxied(
            killed.endpoint, timeout=10 * TIMEOUT, protocol=Protocol(KEY, dialect=dialect)
        ) as asking:
            assert asking.pid.future().result(TIMEOUT) == killed.process.pid
            future = asking.stall.future(str(tmp_path / "notes"), 10 * TIMEOUT)
            until((tmp_path / "notes").exists)
            killed.kill()
            with pytest.raises(PeerLost, match=f"{killed.endpoint} was lost during the call"):
                future.result(TIMEOUT)


def test_a_call_whose_connection_broke_gives_its_result_all_the_same(
    server: Server, proxy: Proxy, notes: Notes, gathering: Future[Any]
) -> None:
    assert cut(server.rep_endpoint) > 0
    notes.opened.set()
    assert gathering.result(TIMEOUT) == "through"


def test_calls_behind_a_slow_one_run_beside_it_when_the_lane_lets_them(notes: Notes) -> None:
    with served(notes, concurrency=2) as (_, proxy):
        waits = proxy.wait.future()
        futures = [proxy.note.future(number) for number in range(50)]
        assert [future.result(TIMEOUT) for future in futures] == list(range(50))
        assert not waits.done()
        notes.opened.set()
        assert waits.result(TIMEOUT) == "through"


def test_every_call_raises_its_own_exception(proxy: Proxy) -> None:
    futures = [proxy.fail.future(str(number)) for number in range(50)]
    for number, future in enumerate(futures):
        error = future.exception(TIMEOUT)
        assert (type(error), str(error)) == (ValueError, str(number))


def test_futures_of_the_server_come_in_flight(proxy: Proxy) -> None:
    futures = [proxy.later.future(number) for number in range(50)]
    assert [future.result(TIMEOUT) for future in futures] == list(range(50))


def test_a_callback_that_ends_its_thread_costs_the_other_calls_nothing(
    proxy: Proxy, notes: Notes, gathering: Future[Any]
) -> None:
    def leave(_: Future[Any]) -> None:
        raise SystemExit

    futures = [proxy.note.future(number) for number in range(3)]
    futures[0].add_done_callback(leave)
    notes.opened.set()
    assert [future.result(TIMEOUT) for future in futures] == [0, 1, 2]


def test_a_callback_that_stalls_holds_up_no_other_call(
    proxy: Proxy, notes: Notes, gathering: Future[Any]
) -> None:
    told: queue.SimpleQueue[int] = queue.SimpleQueue()
    go_on = threading.Event()
    futures = [proxy.note.future(number) for number in range(3)]
    futures[0].add_done_callback(lambda _: go_on.wait(TIMEOUT))
    for future in futures[1:]:
        future.add_done_callback(lambda future: told.put(future.result()))
    notes.opened.set()
    assert {told.get(timeout=TIMEOUT / 2) for _ in range(2)} == {1, 2}
    go_on.set()


def test_every_outcome_is_kept_by_the_id_of_its_call(proxy: Proxy) -> None:
    futures = [proxy.note.future(number) for number in range(20)]
    for future in futures:
        future.result(TIMEOUT)
    asked = [attach(future.call_id, protocol=Protocol(KEY)) for future in futures]
    assert [future.result(TIMEOUT) for future in asked] == list(range(20))


def test_too_many_calls_are_refused(proxy: Proxy, notes: Notes, gathering: Future[Any]) -> None:
    futures = [proxy.note.future(number) for number in range(10_010)]
    with pytest.raises(LocalLimit, match="10000 requests of this process are already unanswered"):
        futures.pop().result(TIMEOUT)
    notes.opened.set()
    assert [future.result(TIMEOUT) for future in futures[:9_000]] == list(range(9_000))


def test_calls_under_a_lock_rely_on_it_and_others_are_refused(server: Server, proxy: Proxy) -> None:
    with (
        proxied(server.rep_endpoint, protocol=Protocol(KEY, "json"), timeout=TIMEOUT) as other,
        lock(proxy),
    ):
        mine = [proxy.note.future(number) for number in range(20)]
        assert [future.result(TIMEOUT) for future in mine] == list(range(20))
        for future in [other.note.future(number) for number in range(20)]:
            with pytest.raises(LockedBy):
                future.result(TIMEOUT)


def test_a_lock_is_given_back_when_the_calls_under_it_are_over(proxy: Proxy, notes: Notes) -> None:
    with lock(proxy):
        waits = proxy.wait.future()
        futures = [proxy.note.future(number) for number in range(5)]
        assert futures.pop().cancel()
        assert notes.entered.wait(TIMEOUT)
        threading.Timer(0.05, notes.opened.set).start()
    assert waits.done()
    assert [future.result(TIMEOUT) for future in futures] == list(range(4))


def test_calls_to_a_server_that_was_replaced_run_once_at_its_successor() -> None:
    with (
        ServerProcess("Gate") as first,
        proxied(first.endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy,
    ):
        assert proxy.count.future().result(TIMEOUT) == 1
        first.kill()
        with ServerProcess("Gate", first.endpoint):
            futures = [proxy.count.future() for _ in range(50)]
            assert sorted(future.result(TIMEOUT) for future in futures) == list(range(1, 51))
            again = [proxy.count.future() for _ in range(50)]
            assert sorted(future.result(TIMEOUT) for future in again) == list(range(51, 101))
