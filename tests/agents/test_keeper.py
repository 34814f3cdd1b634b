from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pzc import AgentClosed, CallTimeout, lock
from pzc.agents.calling.keeper import Keeper
from pzc.agents.calling.peers import Peer
from pzc.agents.calling.reply import Reply
from pzc.agents.sockets import loop as loops
from pzc.agents.sockets.loop import Loop
from pzc.protocol import Limits

from tests.contract.rigs.calling import TIMEOUT, Gate, Instrument, served

PEER = Peer("tcp://127.0.0.1:1", "PZC01", "a" * 32, 1, "", "", 0, {})
ORIGINAL = Peer("tcp://127.0.0.1:2", "PZC00", "tcp://127.0.0.1:2", 0, "", "", 0, {})


class Asked:
    """What a keeper sent, each with the future of its answer."""

    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[tuple[Peer, Any, Future[Reply]]] = queue.SimpleQueue()
        self.error: Exception | None = None

    def __call__(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        assert 0 < timeout <= Limits().alive_timeout
        future: Future[Reply] = Future()
        self.sent.put((peer, content, future))
        if self.error is not None:
            raise self.error
        return future

    def next(self) -> tuple[Peer, Any, Future[Reply]]:
        return self.sent.get(timeout=TIMEOUT)


def answer(future: Future[Reply], sender: str = PEER.agent_id) -> None:
    future.set_result(Reply({"pzc": "alive"}, "pickle", True, sender))


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = loops.acquire()
    yield made
    loops.release(made)


@pytest.fixture
def keeping(loop: Loop) -> Iterator[tuple[Keeper, Asked]]:
    asked = Asked()
    keeper = Keeper(loop, asked)
    yield keeper, asked
    keeper.close()


def settled(loop: Loop) -> None:
    """What was handed to the I/O thread so far is done."""
    for _ in range(3):
        loop.run(lambda: None)


def test_a_hold_sends_a_sign_of_life_at_once(keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    keeper.hold(PEER)
    peer, content, _ = asked.next()
    assert (peer, content) == (PEER, {"pzc": "alive"})


def test_exactly_one_is_outstanding_whatever_is_held(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    for _ in range(100):
        keeper.hold(PEER)
    *_, future = asked.next()
    settled(loop)
    assert asked.sent.empty()
    answer(future)
    asked.next()
    settled(loop)
    assert asked.sent.empty()


def test_each_endpoint_has_its_own(keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    other = Peer("tcp://127.0.0.1:3", "PZC01", "b" * 32, 1, "", "", 0, {})
    keeper.hold(PEER)
    keeper.hold(other)
    assert [asked.next()[0], asked.next()[0]] == [PEER, other]


def test_nothing_is_sent_when_nothing_is_held_any_more(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    release = keeper.hold(PEER)
    *_, future = asked.next()
    release()
    release()
    answer(future)
    settled(loop)
    assert asked.sent.empty()
    keeper.hold(PEER)
    asked.next()


def test_what_is_over_soon_sends_nothing(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    for _ in range(100):
        keeper.hold(PEER, after=TIMEOUT)()
    settled(loop)
    assert asked.sent.empty()


def test_what_lasts_sends_after_a_while(keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    keeper.hold(PEER, after=0.01)
    asked.next()


def test_an_urgent_hold_does_not_wait_for_a_patient_one(keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    keeper.hold(PEER, after=600.0)
    keeper.hold(PEER)
    asked.next()


@pytest.mark.parametrize("raised", [False, True])
def test_a_sign_of_life_that_is_not_answered_is_repeated(keeping: tuple[Keeper, Asked], raised: bool) -> None:
    keeper, asked = keeping
    if raised:
        asked.error = CallTimeout("no answer")
    keeper.hold(PEER)
    *_, future = asked.next()
    if not raised:
        future.set_exception(CallTimeout("no answer"))
    asked.next()


def test_a_hold_at_a_server_that_was_replaced_is_lost(keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    keeper.hold(PEER, lost=reasons.put, patience=TIMEOUT)
    *_, future = asked.next()
    answer(future, "c" * 32)
    assert "was restarted" in reasons.get(timeout=TIMEOUT)


def test_a_hold_without_interest_in_its_loss_goes_on_at_the_new_server(
    keeping: tuple[Keeper, Asked],
) -> None:
    keeper, asked = keeping
    keeper.hold(PEER)
    *_, future = asked.next()
    answer(future, "c" * 32)
    assert asked.next()[0].agent_id == "c" * 32


def test_a_hold_is_lost_once_its_patience_is_over(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    keeper.hold(PEER, lost=reasons.put, patience=TIMEOUT)
    keeper.hold(PEER, lost=reasons.put, patience=0.0)
    *_, future = asked.next()
    future.set_exception(CallTimeout("no answer"))
    assert "silent" in reasons.get(timeout=TIMEOUT)
    settled(loop)
    assert reasons.empty()


def test_every_hold_is_lost_when_its_agent_was_stopped(keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    asked.error = AgentClosed("the agent was stopped")
    keeper.hold(PEER, lost=reasons.put, patience=TIMEOUT)
    assert "was stopped" in reasons.get(timeout=TIMEOUT)


def test_an_original_pizco_is_left_alone(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    keeper.hold(ORIGINAL)()
    settled(loop)
    assert asked.sent.empty()


def test_a_closed_keeper_sends_nothing(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    keeper.hold(PEER)
    *_, future = asked.next()
    keeper.close()
    answer(future)
    keeper.hold(PEER)
    settled(loop)
    assert asked.sent.empty()


def test_holds_of_many_threads_are_all_kept(loop: Loop, keeping: tuple[Keeper, Asked]) -> None:
    keeper, asked = keeping
    releases: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def hold() -> None:
        for number in range(200):
            release = keeper.hold(PEER, after=0.001)
            if number % 2:
                release()
            else:
                releases.put(release)

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    *_, future = asked.next()
    answer(future)
    *_, future = asked.next()
    for _ in range(800):
        releases.get_nowait()()
    answer(future)
    settled(loop)
    assert asked.sent.empty()


def test_the_holder_of_a_lock_is_alive_while_its_own_thread_is_busy() -> None:
    with served(Instrument()) as (_, psu):
        with lock(psu, ttl=0.6):
            for _ in range(3):
                threading.Event().wait(0.3)
            assert psu.ramp(2) == 4


def test_an_unanswered_future_is_held_and_an_answered_one_is_not() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        keeper = proxy._proxy_remote.agent.keeper
        future = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        (watch,) = keeper._watches.values()
        assert len(watch.holds) == 1
        gate.opened.set()
        assert future.result(TIMEOUT) == "through"
        assert not watch.holds
