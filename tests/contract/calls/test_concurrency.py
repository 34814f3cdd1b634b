from __future__ import annotations

from typing import Any

import pytest

from pzc import CallTimeout, ConfigError, Protocol, Server

from tests.contract.rigs import rooms
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, served
from tests.contract.rigs.peers import run_threads
from tests.contract.rigs.rooms import Moody, Room

moody = rooms.moody


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
