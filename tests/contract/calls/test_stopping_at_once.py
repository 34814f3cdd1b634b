"""An urgent member that `on_cancel` names stops a call that asks nothing, at once and once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import pytest

from pzc import (
    CallCancelled,
    CallTimeout,
    Protocol,
    Proxy,
    PzcError,
    Server,
    aio,
    batch,
    cancel,
    close,
    on_cancel,
    running,
    urgent,
)
from pzc.testing import command

from tests.contract.rigs.drivers import BOTH_CARRIERS
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.stages import KEY, STOPPED, TIMEOUT, Axis, Stage, moved_by, proxy_of, stage

__all__ = ["stage"]


def in_the_background(call: Callable[[], object]) -> None:
    def work() -> None:
        with contextlib.suppress(PzcError, StopIteration):
            call()

    threading.Thread(target=work, daemon=True).start()


def plain_and_timeout(made: Any, stage: Stage) -> None:
    with pytest.raises(CallTimeout):
        made.move.options(timeout=0.3)()


def plain_and_closed(made: Any, stage: Stage) -> None:
    in_the_background(made.move)
    assert stage.moving.wait(TIMEOUT)
    close(made)


def future_and_cancel(made: Any, stage: Stage) -> None:
    future = made.move.future()
    assert stage.moving.wait(TIMEOUT)
    assert future.cancel()
    with pytest.raises((CancelledError, CallCancelled)):
        future.result(TIMEOUT)


def future_and_timeout(made: Any, stage: Stage) -> None:
    with pytest.raises(CallTimeout):
        made.move.options(timeout=0.3).future().result(TIMEOUT)


def future_and_cancel_of_all(made: Any, stage: Stage) -> None:
    made.move.future()
    assert stage.moving.wait(TIMEOUT)
    cancel(made)


def one_way_and_cancel_of_all(made: Any, stage: Stage) -> None:
    made.move.oneway()
    assert stage.moving.wait(TIMEOUT)
    cancel(made)


def detached_and_cancel_of_all(made: Any, stage: Stage) -> None:
    made.move.options(detached=True).future()
    assert stage.moving.wait(TIMEOUT)
    cancel(made)


def by_batch(made: Any) -> None:
    with batch(made) as together:
        together.move()


def batch_and_timeout(made: Any, stage: Stage) -> None:
    together = batch(made, timeout=0.3)
    together.where()
    together.move()
    with pytest.raises(CallTimeout), together:
        pass


def stream_and_timeout(made: Any, stage: Stage) -> None:
    with pytest.raises(CallTimeout):
        list(made.steps.options(timeout=0.3)())


def stream_and_closed(made: Any, stage: Stage) -> None:
    items = made.steps()
    assert next(items) == 1
    in_the_background(lambda: next(items))
    assert stage.moving.wait(TIMEOUT)
    items.close()


WAYS = [
    plain_and_timeout, plain_and_closed, future_and_cancel, future_and_timeout, future_and_cancel_of_all,
    one_way_and_cancel_of_all, detached_and_cancel_of_all, batch_and_timeout, stream_and_timeout,
    stream_and_closed,
]  # fmt: skip


def is_stopped(axis: Axis) -> bool:
    assert axis.ended.wait(TIMEOUT)
    return axis.calls == ["stop", "move"]


@BOTH_CARRIERS
@pytest.mark.parametrize("give_up", WAYS)
def test_giving_up_a_call_stops_it_at_once(
    stage: Stage, transport: str, give_up: Callable[[Any, Stage], None]
) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        with proxy_of(server, transport=transport) as made:
            give_up(made, stage)
            assert is_stopped(stage)


@BOTH_CARRIERS
@pytest.mark.parametrize("call", ["move", "future", "batch"])
def test_the_last_proxy_that_closes_cancels_its_calls_before_it_is_missed(
    stage: Stage, transport: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        made = proxy_of(server, transport=transport)
        in_the_background(
            {"move": made.move, "future": made.move.future, "batch": partial(by_batch, made)}[call]
        )
        assert stage.moving.wait(TIMEOUT)
        close(made)
        assert is_stopped(stage)
    assert "is gone" not in caplog.text


@BOTH_CARRIERS
def test_a_cancelled_task_stops_what_it_awaits(stage: Stage, transport: str) -> None:
    async def give_up(endpoint: str) -> None:
        async with aio.Proxy(endpoint, protocol=Protocol(KEY), transport=transport) as made:
            task = asyncio.create_task(made.move())
            assert await asyncio.to_thread(stage.moving.wait, TIMEOUT)
            task.cancel()
            assert await asyncio.to_thread(is_stopped, stage)

    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        asyncio.run(give_up(server.rep_endpoint))


@pytest.mark.needs("pidfd", "unix")
@pytest.mark.parametrize(
    ("transport", "how"),
    [
        *(
            (transport, how)
            for transport in ("tcp", "unix")
            for how in ("plain", "future", "awaited", "stream")
        ),
        ("unix", "one-way"),
        pytest.param(
            "tcp",
            "one-way",
            marks=pytest.mark.xfail(strict=False, reason="by REP, which it may take, the client is not seen"),
        ),
    ],
)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_the_end_of_a_client_stops_its_call(
    stage: Stage, transport: str, how: str, end: signal.Signals
) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        child = moved_by(server, transport, how)
        assert stage.moving.wait(TIMEOUT)
        child.send_signal(end)
        child.wait(TIMEOUT)
        assert is_stopped(stage)


def test_the_command_stops_a_call(stage: Stage) -> None:
    with Server(stage, discovery=False, **STOPPED) as server, Proxy(server.rep_endpoint) as made:
        made.move.oneway()
        assert stage.moving.wait(TIMEOUT)
        assert command("cancel", server.rep_endpoint, "--everybody").status == 0
        assert is_stopped(stage)


def test_decorators_stop_a_call() -> None:
    class Marked(Stage):
        @urgent
        def stop(self) -> None:
            super().stop()

        @on_cancel("stop")
        def move(self, position: float = 1.0) -> float:
            return super().move(position)

    stage = Marked()
    with Server(stage, protocol=Protocol(KEY), discovery=False) as server, proxy_of(server) as made:
        future_and_cancel(made, stage)
        assert is_stopped(stage)


def test_a_channel_is_stopped_by_its_own_member(stage: Stage) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        with proxy_of(server, timeout=0.3) as made, pytest.raises(CallTimeout):
            made.y.move()
        assert is_stopped(stage.y)
        assert stage.calls == []


def test_a_member_of_several_objects_is_stopped(stage: Stage) -> None:
    options: dict[str, Any] = {"urgent": ["x.stop"], "on_cancel": {"x.move": "stop"}}
    with Server({"x": stage}, protocol=Protocol(KEY), discovery=False, **options) as server:
        with proxy_of(server, timeout=0.3) as made, pytest.raises(CallTimeout):
            made.x.move()
        assert is_stopped(stage)


def test_a_stop_that_is_not_urgent_waits_for_the_end_of_the_call(stage: Stage) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, on_cancel={"move": "stop"}) as server:
        with proxy_of(server) as made:
            future_and_cancel(made, stage)
            eventually(lambda: running(made)[0].cancelled)
            stage.halted.set()
            eventually(lambda: stage.calls == ["move", "stop"])


def test_a_call_that_follows_is_not_stopped(stage: Stage) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        with proxy_of(server) as made:
            future_and_cancel(made, stage)
            assert made.move() == 1.0
            assert stage.calls == ["stop", "move", "move"]


def test_a_batch_that_has_gone_on_is_not_stopped_by_an_earlier_call(stage: Stage) -> None:
    stage.halted.set()
    with (
        Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server,
        proxy_of(server) as made,
    ):
        together = batch(made, timeout=0.3)
        together.move()
        together.y.move()
        with pytest.raises(CallTimeout), together:
            pass
        assert is_stopped(stage.y)
        assert stage.calls == ["move"]


@BOTH_CARRIERS
def test_an_urgent_call_passes_the_one_way_call_before_it(stage: Stage, transport: str) -> None:
    with Server(stage, protocol=Protocol(KEY), discovery=False, **STOPPED) as server:
        with proxy_of(server, transport=transport) as made:
            made.move.oneway()
            assert stage.moving.wait(TIMEOUT)
            made.stop()
            assert is_stopped(stage)
