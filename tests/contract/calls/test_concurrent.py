"""Concurrent members run beside a call that blocks, and respect the lock."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import pzc
from pzc import Agent, CallTimeout, ConfigError, Protocol, Server, aio, batch, lock

from tests.contract.rigs.drivers import BOTH_CARRIERS
from tests.contract.rigs.stages import KEY, TIMEOUT, Stage, proxy_of, stage

__all__ = ["stage"]


def served(stage: object, *concurrent: str, **options: Any) -> Server:
    return Server(stage, protocol=Protocol(KEY), discovery=False, concurrent=concurrent, **options)


def moving(made: Any, stage: Stage) -> None:
    made.move.future()
    assert stage.moving.wait(TIMEOUT)


@BOTH_CARRIERS
def test_a_property_is_read_during_a_move(stage: Stage, transport: str) -> None:
    with served(stage, "position") as server, proxy_of(server, transport=transport) as made:
        moving(made, stage)
        assert made.position < made.position
        assert not stage.ended.is_set()


def test_a_property_is_awaited_during_a_move(stage: Stage) -> None:
    async def read(endpoint: str) -> float:
        async with aio.Proxy(endpoint, protocol=Protocol(KEY)) as made:
            return await made.position

    with served(stage, "position") as server, proxy_of(server) as made:
        moving(made, stage)
        assert asyncio.run(read(server.rep_endpoint)) == 1.0
        assert not stage.ended.is_set()


def test_a_method_is_called_during_a_one_way_move(stage: Stage) -> None:
    with served(stage, "where") as server, proxy_of(server) as made:
        made.move.oneway()
        assert stage.moving.wait(TIMEOUT)
        assert made.where() == 1.0
        assert not stage.ended.is_set()


def test_a_property_is_polled_during_a_move_beside_one_that_waits(stage: Stage) -> None:
    poll = {"position": 0.1, "y.position": 0.1}
    with served(stage, "position", poll=poll) as server, proxy_of(server) as made:
        with Agent(protocol=Protocol(KEY), discovery=False) as reader:
            moving(made, stage)
            readings = reader.subscribe(server.rep_endpoint, "position")
            values = [readings.recv(TIMEOUT).content for _ in range(5)]
            assert values == sorted(set(values))
            assert not stage.ended.is_set()


def test_a_decorated_property_and_method_run_during_a_move() -> None:
    class Marked(Stage):
        @pzc.concurrent
        @property
        def height(self) -> float:
            return 2.0

        @property
        @pzc.concurrent
        def depth(self) -> float:
            return 3.0

        @pzc.concurrent
        def where(self) -> float:
            return 4.0

    stage = Marked()
    with served(stage) as server, proxy_of(server) as made:
        moving(made, stage)
        assert (made.height, made.depth, made.where()) == (2.0, 3.0, 4.0)
        assert not stage.ended.is_set()
        stage.halted.set()


def test_two_concurrent_members_run_beside_each_other(stage: Stage) -> None:
    with served(stage, "y.move", "position") as server, proxy_of(server) as made:
        moving(made, stage)
        made.y.move.future()
        assert stage.y.moving.wait(TIMEOUT)
        assert made.position == 1.0
        assert not stage.ended.is_set()
        assert not stage.y.ended.is_set()


def test_a_channel_of_one_of_several_objects_is_read_during_its_move(stage: Stage) -> None:
    with served({"x": stage}, "x.y.position", lanes="each") as server, proxy_of(server) as made:
        moving(made.x, stage)
        assert made.x.y.position == 1.0
        assert not stage.ended.is_set()


def test_setting_a_concurrent_property_waits_for_the_move(stage: Stage) -> None:
    with served(stage, "position") as server, proxy_of(server, timeout=0.3) as made:
        moving(made, stage)
        with pytest.raises(CallTimeout):
            made.position = 5.0


def test_a_batch_of_other_and_concurrent_members_runs_in_one_turn(stage: Stage) -> None:
    stage.halted.set()
    with served(stage, "where") as server, proxy_of(server) as made:
        with batch(made) as together:
            together.move()
            together.where()
        assert together.results == [1.0, 1.0]


def test_a_lock_refuses_the_concurrent_members_of_others(stage: Stage) -> None:
    with served(stage, "where") as server, proxy_of(server) as made, lock(made):
        assert made.where() == 1.0
        with Agent(protocol=Protocol(KEY), discovery=False) as other:
            content = ("PSMessage", "exec", {"name": "where", "method": "__call__"})
            answer = other.request(server.rep_endpoint, content, TIMEOUT)
        assert "LockedBy" in str(answer)


def test_an_affine_server_takes_no_concurrent_members(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="thread_affine"):
        served(stage, "position", thread_affine=True)


def test_a_decorated_member_takes_its_turn_at_an_affine_server() -> None:
    class Marked:
        @pzc.concurrent
        def thread(self) -> int:
            return threading.get_ident()

        def other(self) -> int:
            return threading.get_ident()

    with served(Marked(), thread_affine=True) as server, proxy_of(server) as made:
        assert made.thread() == made.other()


def test_a_wrong_concurrent_member_is_refused_with_the_nearest(stage: Stage) -> None:
    with pytest.raises(ConfigError, match=r"concurrent.*position"):
        served(stage, "positon")
