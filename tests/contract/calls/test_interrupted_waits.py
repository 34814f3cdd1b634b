"""Calls whose waits are interrupted by signals."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pzc import CallTimeout, Protocol, lock

from tests.contract.rigs.alarms import Alarm, alarm
from tests.contract.rigs.calling import KEY, TIMEOUT, ServerProcess, proxied


def interrupted(function: Callable[[], object], number: int) -> bool:
    """Call it, and interrupt it where so many functions of pzc have begun; whether it was, before it was over."""
    left, ours = number, (str(Path(inspect.getfile(Protocol)).parents[1]), threading.__file__)

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        place = frame.f_code.co_filename
        left -= event == "call" and place.startswith(ours) and place != __file__
        if not left:
            sys.settrace(None)
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_signals_that_come_all_the_time_keep_no_call_beyond_its_timeout(
    tmp_path: Path, transport: str
) -> None:
    """As those of a profiler, or of whoever is impatient."""
    over, me = threading.Event(), threading.get_ident()

    def interrupt() -> None:
        while not over.wait(0.01):
            signal.pthread_kill(me, signal.SIGUSR1)

    before, thread = signal.signal(signal.SIGUSR1, lambda *_: None), threading.Thread(target=interrupt)
    try:
        with ServerProcess() as server:
            options: dict[str, Any] = {"timeout": 0.5, "transport": transport, "protocol": Protocol(KEY)}
            with proxied(server.endpoint, **options) as proxy:
                proxy.write(str(tmp_path / "notes"), "before")
                server.freeze()
                thread.start()
                with pytest.raises(CallTimeout):
                    proxy.write(str(tmp_path / "notes"), "frozen")
                over.set()
                server.thaw()
    finally:
        over.set()
        if thread.ident:
            thread.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_timeout_that_an_alarm_raises_ends_a_call_at_once(tmp_path: Path, transport: str) -> None:
    path = str(tmp_path / "notes")
    with (
        ServerProcess() as server,
        proxied(server.endpoint, timeout=TIMEOUT, transport=transport, protocol=Protocol(KEY)) as proxy,
    ):
        proxy.write(path, "before")
        with pytest.raises(Alarm), alarm(0.2):
            proxy.stall(path, TIMEOUT / 2)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_timeout_that_an_alarm_raises_ends_the_wait_for_a_lock(transport: str) -> None:
    options: dict[str, Any] = {"timeout": TIMEOUT, "transport": transport, "protocol": Protocol(KEY)}
    with (
        ServerProcess() as server,
        proxied(server.endpoint, **options) as holder,
        proxied(server.endpoint, **options) as waits,
    ):
        with lock(holder):
            with pytest.raises(Alarm), alarm(0.2):
                lock(waits, wait=TIMEOUT)
        with lock(holder, wait=TIMEOUT):
            holder.pid()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer was interrupted
def test_a_lock_can_be_taken_again_wherever_its_block_was_interrupted() -> None:
    options: dict[str, Any] = {"timeout": TIMEOUT, "transport": "unix", "protocol": Protocol(KEY)}
    with ServerProcess() as server, proxied(server.endpoint, **options) as proxy:

        def use() -> None:
            with lock(proxy):
                proxy.pid()

        use()
        number = 1
        while interrupted(use, number):
            with lock(proxy, wait=TIMEOUT):
                proxy.pid()
            number += 1
