"""A call that its caller gave up, or that is cancelled, is told to end."""

from __future__ import annotations

import contextlib
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


def test_a_running_call_is_listed_and_can_be_cancelled(supply: Supply) -> None:
    with held(supply) as psu:
        future = psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        assert [call.member for call in coming("running")(psu)] == ["ramp"]
        coming("cancel")(psu)
        assert supply.ended.wait(MOMENT)
        assert future.done() or future.cancel() is not None
