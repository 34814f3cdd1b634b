"""Whoever gives up stops what he asked for; what is urgent runs at once; a wait says what runs."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pzc import (
    CallTimeout,
    Protocol,
    PzcError,
    Server,
    close,
    lock,
)

from tests.contract.rigs.coming import coming
from tests.contract.rigs.supply import KEY, TIMEOUT, Supply, another, held

MOMENT = 2.0
"""Seconds that an end may take to be seen on a busy machine; the ramp would go on for longer."""


@pytest.fixture
def supply() -> Iterator[Supply]:
    made = Supply()
    yield made
    made.opened.set()


def test_a_call_that_timed_out_is_called_off(supply: Supply) -> None:
    with held(supply, timeout=0.2) as psu:
        with pytest.raises(CallTimeout):
            psu.ramp()
        assert supply.ended.wait(MOMENT)


def test_a_call_of_a_closed_proxy_is_called_off(supply: Supply) -> None:
    with held(supply) as psu:
        other = another(psu)

        def call() -> None:
            with contextlib.suppress(PzcError):
                other.ramp()

        caller = threading.Thread(target=call)
        caller.start()
        assert supply.running.wait(TIMEOUT)
        close(other)
        assert supply.ended.wait(MOMENT)
        caller.join(TIMEOUT)


def test_an_interrupted_call_is_called_off(supply: Supply) -> None:
    def interrupt() -> None:
        if supply.running.wait(TIMEOUT):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with held(supply) as psu:
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                psu.ramp()
            assert supply.ended.wait(MOMENT)
    finally:
        signal.signal(signal.SIGINT, before)


CALLER = """
import sys
from pzc import Protocol, Proxy
Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]), transport="tcp").ramp()
"""


def test_a_call_of_a_killed_client_is_called_off(supply: Supply) -> None:
    with Server(supply, protocol=Protocol(KEY)) as server:
        child = subprocess.Popen([sys.executable, "-c", CALLER, server.rep_endpoint, KEY])
        assert supply.running.wait(TIMEOUT)
        child.kill()
        child.wait(TIMEOUT)
        assert supply.ended.wait(MOMENT)


def test_a_call_that_is_called_off_runs_what_on_cancel_names(supply: Supply) -> None:
    with held(supply, timeout=0.2, on_cancel={"ramp": "off"}) as psu:
        with pytest.raises(CallTimeout):
            psu.ramp()
        assert supply.ended.wait(MOMENT)
        assert supply.calls.count("off") == 1


def test_an_urgent_member_runs_beside_a_ramp_and_a_lock(supply: Supply) -> None:
    with held(supply, urgent=("off",)) as psu, lock(psu):
        psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        with another(psu, timeout=2) as other:
            assert other.off() == "off"
        assert not supply.ended.is_set()


def test_a_timeout_says_what_runs(supply: Supply) -> None:
    # The server says it a tenth of the timeout before the caller gives up: long enough for a busy machine.
    with held(supply) as psu, another(psu, timeout=2.0, transport="tcp") as other:
        assert other.voltage == 1.0
        psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        with pytest.raises(CallTimeout, match="hold"):
            other.note()


def test_a_running_call_is_listed_and_can_be_cancelled(supply: Supply) -> None:
    with held(supply) as psu:
        future = psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        assert [call.member for call in coming("running")(psu)] == ["ramp"]
        coming("cancel")(psu)
        assert supply.ended.wait(MOMENT)
        assert future.done() or future.cancel() is not None
