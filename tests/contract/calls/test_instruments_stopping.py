"""Whoever gives up stops what runs for him, whatever he gives up by; what is urgent passes everything."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from pzc import CallCancelled, CallTimeout, Protocol, Proxy, PzcError, Server, batch, close, lock, running
from pzc.testing import command

from tests.contract.rigs.coming import coming
from tests.contract.rigs.drivers import BOTH_CARRIERS
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.supply import KEY, TIMEOUT, Supply, another, held

MOMENT = 2.0
"""Seconds that an end may take to be seen on a busy machine."""


@pytest.fixture
def supply() -> Iterator[Supply]:
    made = Supply()
    yield made
    made.opened.set()


CALLER = """
import sys
from pzc import Protocol, Proxy
psu = Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]), transport=sys.argv[3])
try:
    getattr(psu, sys.argv[4])()
except KeyboardInterrupt:
    print("interrupted")
"""


def caller(server: Server, transport: str, member: str) -> subprocess.Popen[str]:
    """A process that calls a member."""
    arguments = [server.rep_endpoint, KEY, transport, member]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CALLER, *arguments], stdout=subprocess.PIPE, text=True
    )


@contextlib.contextmanager
def served(supply: Supply, **options: Any) -> Iterator[Server]:
    with Server(supply, protocol=Protocol(KEY), discovery=False, **options) as server:
        try:
            yield server
        finally:
            supply.opened.set()


@pytest.mark.needs("pidfd", "unix")
@BOTH_CARRIERS
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_the_end_of_a_client_ends_its_ramp_and_switches_off_once(
    supply: Supply, transport: str, how: signal.Signals
) -> None:
    with served(supply, on_cancel={"ramp": "off"}) as server:
        child = caller(server, transport, "ramp")
        assert supply.running.wait(TIMEOUT)
        child.send_signal(how)
        assert supply.ended.wait(MOMENT)
        out, _ = child.communicate(timeout=TIMEOUT)
        assert out == ("interrupted\n" if how is signal.SIGINT else "")
        with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as psu:
            psu.note()
    assert supply.calls.count("off") == 1


def by_timeout(psu: Any) -> None:
    with another(psu, timeout=0.2) as other, pytest.raises(CallTimeout):
        other.ramp()


def by_closing(psu: Any) -> None:
    other, failed = another(psu), Future[BaseException]()

    def call() -> None:
        try:
            other.ramp()
        except PzcError as exc:
            failed.set_result(exc)

    thread = threading.Thread(target=call)
    thread.start()
    while not coming("running")(psu):
        pass
    close(other)
    assert failed.result(TIMEOUT)
    thread.join(TIMEOUT)


def by_cancelling_a_future(psu: Any) -> None:
    future = psu.ramp.future()
    while not coming("running")(psu):
        pass
    assert future.cancel()
    with pytest.raises((CancelledError, CallCancelled)):
        future.result(TIMEOUT)


@pytest.mark.parametrize("give_up", [by_timeout, by_closing, by_cancelling_a_future])
def test_giving_up_ends_a_ramp_and_switches_off_once(supply: Supply, give_up: Callable[[Any], None]) -> None:
    with held(supply, on_cancel={"ramp": "off"}) as psu:
        give_up(psu)
        assert supply.ended.wait(MOMENT)
        psu.note()
        assert supply.calls.count("off") == 1


@BOTH_CARRIERS
def test_a_call_that_waits_never_runs_when_its_caller_is_killed(supply: Supply, transport: str) -> None:
    with served(supply) as server, Proxy(server.rep_endpoint, protocol=Protocol(KEY)) as psu:
        running = psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        child = caller(server, transport, "trip")
        deadline = time.monotonic() + TIMEOUT
        while len(coming("running")(psu)) < 2 and time.monotonic() < deadline:
            pass
        child.kill()
        child.communicate(timeout=TIMEOUT)
        while len(coming("running")(psu)) > 1 and time.monotonic() < deadline:
            pass
        supply.opened.set()
        assert running.result(TIMEOUT) == "let go"
        psu.note()
        assert supply.calls == ["hold", "note"]


@BOTH_CARRIERS
def test_an_urgent_member_of_another_client_starts_at_once(supply: Supply, transport: str) -> None:
    with served(supply, urgent=("off",)) as server:
        protocol = Protocol(KEY)
        with (
            Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as psu,
            Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT, transport=transport) as other,
            lock(psu),
        ):
            other.off()  # the connection is there
            psu.hold.future()
            assert supply.running.wait(TIMEOUT)
            took: list[float] = []
            for _ in range(5):
                began = time.monotonic()
                assert other.off() == "off"
                took.append(time.monotonic() - began)
            assert min(took) < 0.05
            assert not supply.ended.is_set()


def test_decorated_members_are_urgent_and_switched_off() -> None:
    urgent, on_cancel = coming("urgent"), coming("on_cancel")

    class Heater(Supply):
        @urgent
        def abort(self) -> str:
            """At once."""
            self.calls.append("abort")
            return "aborted"

        @on_cancel("abort")
        def heat(self) -> str:
            """Until called off."""
            return self.ramp()

    heater = Heater()
    with held(heater, timeout=0.5) as proxy:
        future = proxy.heat.future()
        assert heater.running.wait(TIMEOUT)
        assert proxy.abort() == "aborted"
        with pytest.raises(CallTimeout):
            future.result(TIMEOUT)
        assert heater.ended.wait(MOMENT)
        proxy.note()
        assert heater.calls == ["ramp", "abort", "abort", "note"]


@BOTH_CARRIERS
def test_a_timeout_says_what_runs_for_whom_and_since_when(supply: Supply, transport: str) -> None:
    with served(supply) as server, Proxy(server.rep_endpoint, protocol=Protocol(KEY)) as psu:
        psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        target, protocol = server.rep_endpoint, Protocol(KEY)
        with Proxy(target, protocol=protocol, timeout=2.0, transport=transport) as other:  # told 0.2 s before
            with pytest.raises(CallTimeout, match=r"hold.*since|hold.*for \d|hold.*\d s"):
                other.note()


def test_a_detached_call_outlives_its_caller(supply: Supply) -> None:
    with held(supply) as psu:
        with another(psu) as other:
            future = other.ramp.options(detached=True).future()
            assert supply.running.wait(TIMEOUT)
        assert [call.member for call in coming("running")(psu)] == ["ramp"]
        supply.opened.set()
        assert supply.ended.wait(TIMEOUT)
        assert future.done() or not future.cancelled()


def test_commands_tell_what_runs_and_stop_it(supply: Supply) -> None:
    with Server(supply, discovery=False) as server, Proxy(server.rep_endpoint) as psu:
        try:
            psu.ramp.future()
            assert supply.running.wait(TIMEOUT)
            assert "ramp" in command("running", server.rep_endpoint).out
            assert command("cancel", server.rep_endpoint, "--everybody").status == 0
            assert supply.ended.wait(MOMENT)
        finally:
            supply.opened.set()


def test_a_batch_that_is_given_up_ends_with_what_is_said_of_the_call_that_ran(supply: Supply) -> None:
    with held(supply, on_cancel={"ramp": "off"}) as psu:
        together = batch(psu, timeout=0.5)
        together.note("before")
        together.ramp()
        together.note("after")
        with pytest.raises(CallTimeout), together:
            pass
        eventually(lambda: not running(psu))
        assert supply.calls == ["before", "ramp", "off"]
