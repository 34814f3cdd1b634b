"""Ctrl-C while a call is waited for: what the interrupt says, and what its traceback shows."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pzc import PendingCall, Protocol, Server, aio, attach, batch
from pzc.testing import Running, command

from tests.contract.rigs.supply import KEY, TIMEOUT, Supply, held

OURS = str(Path(inspect.getfile(Protocol)).parents[1])
TESTS = f"{OURS}/tests"


@pytest.fixture
def supply() -> Iterator[Supply]:
    made = Supply()
    yield made
    made.opened.set()


@contextlib.contextmanager
def interrupt(supply: Supply) -> Iterator[pytest.ExceptionInfo[KeyboardInterrupt]]:
    """Interrupt this thread when a call runs."""

    def wait() -> None:
        if supply.running.wait(TIMEOUT):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            yield caught
    finally:
        thread.join(TIMEOUT)
        signal.signal(signal.SIGINT, before)


def by_batch(psu: Any) -> None:
    with batch(psu) as calls:
        calls.ramp()


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "call": (lambda psu: psu.ramp(), "psu.ramp was cancelled"),
    "detached": (lambda psu: psu.ramp.options(detached=True)(), "psu.ramp goes on at the server, because"),
    "batch": (by_batch, "the batch was cancelled"),
}


@pytest.mark.parametrize("way", CALLS)
def test_an_interrupt_says_whether_the_instrument_goes_on(supply: Supply, way: str) -> None:
    call, said = CALLS[way]
    with held(supply, name="psu") as psu, interrupt(supply) as caught:
        call(psu)
    (note,) = caught.value.__notes__
    assert note.startswith(said)


def interrupt_wait(supply: Supply, wait: Callable[[], object]) -> str:
    """What an interrupt of a wait for a running call says."""
    assert supply.running.wait(TIMEOUT)
    supply.running.clear()
    with interrupt(supply) as caught:
        threading.Timer(0.5, supply.running.set).start()  # then this thread waits
        wait()
    return "".join(getattr(caught.value, "__notes__", ()))


@pytest.mark.parametrize("wait", [PendingCall.result, PendingCall.exception])
def test_an_interrupt_of_the_wait_for_a_future_cancels_its_call(
    supply: Supply, wait: Callable[[PendingCall], object]
) -> None:
    with held(supply, name="psu", on_cancel={"ramp": "off"}) as psu:
        future = psu.ramp.future()
        said = interrupt_wait(supply, partial(wait, future))
        assert said == "psu.ramp was cancelled; if it had begun, its server calls 'off'"
        assert future.cancelled()
        assert supply.ended.wait(TIMEOUT)


def test_an_interrupt_of_the_wait_for_a_detached_future_leaves_its_call(supply: Supply) -> None:
    with held(supply, name="psu") as psu:
        future = psu.ramp.options(detached=True).future()
        assert interrupt_wait(supply, future.result).startswith("psu.ramp goes on at the server")
        supply.opened.set()
        assert future.result(TIMEOUT) == "let go"


def test_an_interrupt_of_the_wait_for_an_attached_call_leaves_it(supply: Supply) -> None:
    with held(supply, name="psu") as psu:
        future = psu.ramp.future()
        attached = attach(future.call_id, protocol=Protocol(KEY))
        assert interrupt_wait(supply, attached.result) == ""
        supply.opened.set()
        assert future.result(TIMEOUT) == "let go"


def test_a_cancelled_wait_of_a_task_says_it_as_well(supply: Supply) -> None:
    async def call(psu: aio.Proxy) -> list[str]:
        try:
            await psu.ramp()
        except asyncio.CancelledError as exc:
            return exc.__notes__
        return []

    async def main(endpoint: str) -> list[str]:
        async with aio.Proxy(endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as psu:
            task = asyncio.create_task(call(psu))
            await asyncio.to_thread(supply.running.wait, TIMEOUT)
            task.cancel()
            return await task

    with Server(supply, name="psu", protocol=Protocol(KEY), discovery=False) as server:
        (note,) = asyncio.run(main(server.rep_endpoint))
    assert note.startswith("psu.ramp was cancelled")


def test_an_interrupted_command_says_it_as_well(supply: Supply) -> None:
    def meanwhile(running: Running) -> None:
        assert supply.running.wait(TIMEOUT)
        running.kill(signal.SIGINT)

    with Server(supply, name="psu", protocol=Protocol(KEY), discovery=False) as server:
        target, environment = f"{server.rep_endpoint}.ramp", {"PZC_KEY": KEY}
        outcome = command("call", target, environment=environment, meanwhile=meanwhile)
    assert outcome.status == 130
    assert outcome.err.startswith("pzc: psu.ramp was cancelled")


def test_an_interrupt_names_the_member_that_stops_the_instrument(supply: Supply) -> None:
    with held(supply, name="psu", on_cancel={"ramp": "off"}) as psu, interrupt(supply) as caught:
        psu.ramp()
    assert caught.value.__notes__ == ["psu.ramp was cancelled; if it had begun, its server calls 'off'"]


@pytest.mark.parametrize("way", CALLS)
def test_the_traceback_of_an_interrupt_shows_the_frames_of_the_user(supply: Supply, way: str) -> None:
    with held(supply) as psu, interrupt(supply) as caught:
        CALLS[way][0](psu)
    files = [frame.filename for frame in traceback.extract_tb(caught.tb)]
    ours = [file for file in files if file.startswith(OURS) and not file.startswith(TESTS)]
    assert len(ours) <= 4
    assert "During handling" not in "".join(traceback.format_exception(caught.value))
