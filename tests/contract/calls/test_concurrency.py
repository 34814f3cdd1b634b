from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import CallTimeout, ConfigError, Protocol, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, served
from tests.contract.rigs.peers import run_threads


class Room:
    """Counts who is inside, and lets a test decide when a call ends."""

    def __init__(self, meeting: int = 1) -> None:
        self._guard, self._meeting = threading.Lock(), threading.Barrier(meeting)
        self.inside = self.most = 0
        self.threads: set[int] = set()
        self.made_in = threading.get_ident()

    def meet(self) -> None:
        with self._guard:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.threads.add(threading.get_ident())
        self._meeting.wait(TIMEOUT)
        with self._guard:
            self.inside -= 1

    def where(self) -> tuple[int, int]:
        return self.made_in, threading.get_ident()


class Moody:
    """Quick, until it is told not to be."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.slow = False
        self.other: Callable[[], object] | None = None
        self.ran_in: list[str] = []

    def step(self) -> str:
        self.ran_in.append(threading.current_thread().name)
        if self.slow:
            self.slow = False
            self.entered.set()
            assert self.opened.wait(TIMEOUT)
        return "done"

    def relay(self) -> Any:
        return None if self.other is None else self.other()


@pytest.fixture
def moody(timings: Callable[..., None]) -> Iterator[Moody]:
    timings(quick_call=TIMEOUT)  # whatever a loaded machine makes of it
    made = Moody()
    yield made
    made.opened.set()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_three_calls_run_at_once_and_never_four(transport: str) -> None:
    room = Room(meeting=3)
    with Server(room, protocol=Protocol(KEY), concurrency=3) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
            run_threads(*[lambda: proxy.meet()] * 27)
    assert (room.most, room.inside) == (3, 0)


def test_calls_of_both_transports_share_the_slots() -> None:
    room = Room(meeting=2)
    with served(room, concurrency=2) as (_, proxy):
        futures = [proxy.meet.future() for _ in range(6)]
        run_threads(*[lambda: proxy.meet()] * 6)
        for future in futures:
            future.result(TIMEOUT)
    assert room.most == 2


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": 2, "thread_affine": True}])
def test_an_impossible_number_of_calls_is_a_config_error_and_leaves_nothing(options: Any) -> None:
    with pytest.raises(ConfigError, match="is not possible"):
        Server(Room(), **options)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_method_that_calls_its_own_server_without_another_slot_gets_a_timeout(
    moody: Moody, transport: str
) -> None:
    with (
        served(moody) as (server, _),
        proxied(server.rep_endpoint, transport=transport, timeout=TIMEOUT) as outer,
        proxied(server.rep_endpoint, transport=transport, timeout=0.3) as inner,
    ):
        moody.other = inner.step
        with pytest.raises(CallTimeout):
            outer.relay()
        assert outer.step() == "done"
