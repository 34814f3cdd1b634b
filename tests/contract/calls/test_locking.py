from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    CallTimeout,
    ConfigError,
    LockedBy,
    LockLost,
    PeerLost,
    Protocol,
    Proxy,
    Refused,
    Role,
    RoleRefused,
    Server,
    close,
    lock,
)

from tests.contract.rigs import original, roles
from tests.contract.rigs.calling import (
    KEY,
    TIMEOUT,
    Gate,
    Instrument,
    ServerProcess,
    in_thread,
    proxied,
    served,
)
from tests.contract.rigs.pairs import OUTSIDE

guarded, protocol_of = roles.guarded, roles.protocol_of


@pytest.fixture
def pair() -> Iterator[tuple[Proxy, Proxy]]:
    """Two proxies of one process, which are two holders."""
    with served(Instrument(), key=KEY) as (server, one):
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as two:
            yield one, two


def test_only_the_holder_of_the_lock_may_call(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    with lock(one, reason="calibration") as held:
        assert held.owner
        one.voltage = 3.3
        assert (one.ramp(2), one.ramp.future(3).result(TIMEOUT)) == (4, 6)
        with pytest.raises(LockedBy, match="calibration") as caught:
            two.ramp(2)
        assert (caught.value.owner, caught.value.reason) == (held.owner, "calibration")
        assert caught.value.since > 0
        with pytest.raises(LockedBy):
            two.ramp.future(2).result(TIMEOUT)
    assert two.ramp(2) == 4


def test_a_lock_that_somebody_holds_is_refused_at_once(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    with lock(one), pytest.raises(LockedBy):
        lock(two)
    with lock(two):
        assert two.ramp(2) == 4


def test_a_lock_that_was_refused_leaves_the_next_one_alone(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    for _ in range(30):
        with lock(one), pytest.raises(LockedBy):
            lock(two)
        with lock(two):
            assert [two.ramp(2) for _ in range(5)] == [4] * 5


def test_a_lock_may_be_waited_for(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    held = lock(one)
    asked = threading.Event()

    def wait_for_it() -> int:
        asked.set()
        with lock(two, wait=TIMEOUT):
            return two.ramp(2)

    thread, outcome = in_thread(wait_for_it)
    assert asked.wait(TIMEOUT)
    held.release()
    thread.join(TIMEOUT)
    assert outcome == [4]


def test_waiting_for_a_lock_ends(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    with lock(one):
        with pytest.raises(LockedBy):
            lock(two, wait=0.1)
        assert one.ramp(2) == 4
    assert two.ramp(2) == 4


def test_a_lock_may_be_taken_again_by_the_same_proxy(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    with lock(one):
        with lock(one) as inner:
            inner.release()
            inner.release()
        assert one.ramp(2) == 4
        with pytest.raises(LockedBy):
            two.ramp(2)
    assert two.ramp(2) == 4


def test_a_lock_is_held_from_the_call_on_and_entered_once(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    held = lock(one)
    assert "held" in repr(held)
    with pytest.raises(LockedBy):
        two.ramp(2)
    with held:
        assert one.ramp(2) == 4
    assert "given back" in repr(held)
    assert two.ramp(2) == 4
    with pytest.raises(ConfigError, match="take another"), held:
        pass


def test_a_lock_that_was_given_back_within_its_block_is_free_after_it(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    with lock(one) as held:
        held.release()
        held.release()
        assert two.ramp(2) == 4
        with lock(one):
            pass
    assert two.ramp(2) == 4


def test_threads_of_one_proxy_share_its_lock(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair

    def work() -> int:
        with lock(one):
            return one.ramp(2)

    with lock(one):
        for thread, outcome in [in_thread(work) for _ in range(8)]:
            thread.join(TIMEOUT)
            assert outcome == [4]
        with pytest.raises(LockedBy):
            two.ramp(2)
    assert two.ramp(2) == 4


def test_a_call_that_was_made_under_the_lock_runs_under_it() -> None:
    gate = Gate()
    with served(gate) as (server, one), proxied(server.rep_endpoint, timeout=TIMEOUT) as two:
        with lock(one):
            first, second = one.wait.future(), one.count.future()
            assert gate.entered.wait(TIMEOUT)
            with pytest.raises(LockedBy):
                lock(two)
            gate.opened.set()
        assert (first.done(), second.done()) == (True, True)
        assert (first.result(), second.result()) == ("through", 2)


def test_a_lock_that_cannot_be_given_back_is_an_error_of_a_block_without_one() -> None:
    with Server(Instrument()) as server, proxied(server.rep_endpoint, timeout=0.5) as psu:
        held = lock(psu)
        server.stop()
        with pytest.raises((PeerLost, CallTimeout)), held:
            pass


def test_a_lock_that_was_lost_is_told_to_the_next_call_and_when_it_is_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    protocol = Protocol(KEY)
    server = Server(Instrument(), protocol=protocol)
    endpoint = server.rep_endpoint
    with proxied(endpoint, protocol=protocol, timeout=TIMEOUT) as psu:
        held = lock(psu)
        server.stop()
        with Server(Instrument(), endpoint, protocol=protocol):
            with pytest.raises(LockLost):
                psu.ramp(2)
            with caplog.at_level(logging.WARNING, "pzc.proxy"):
                held.release()
            assert "was lost before it was given back" in caplog.text
            assert psu.ramp(2) == 4


def test_whoever_waits_for_a_lock_hears_that_the_server_died() -> None:
    with ServerProcess("Instrument") as child:
        protocol = Protocol(KEY)
        with (
            proxied(child.endpoint, protocol=protocol, timeout=0.5) as one,
            proxied(child.endpoint, protocol=protocol, timeout=0.5) as two,
        ):
            held = lock(one)
            thread, outcome = in_thread(lambda: lock(two, wait=600.0))
            child.kill()
            thread.join(TIMEOUT)
            assert isinstance(outcome[0], PeerLost | CallTimeout)
            with pytest.raises((PeerLost, CallTimeout)):
                held.release()


def test_a_proxy_that_is_closed_gives_its_lock_back(pair: tuple[Proxy, Proxy]) -> None:
    one, two = pair
    held = lock(one)
    close(one)
    with lock(two, wait=TIMEOUT):
        assert two.ramp(2) == 4
    held.release()


def test_the_lock_of_a_holder_that_died_is_free() -> None:
    with ServerProcess("Instrument") as child:
        protocol = Protocol(KEY)
        holder = HolderProcess(child.endpoint)
        with proxied(child.endpoint, protocol=protocol, timeout=TIMEOUT) as psu:
            with pytest.raises(LockedBy):
                psu.ramp(2)
            holder.kill()
            with lock(psu, wait=TIMEOUT):
                assert psu.ramp(2) == 4


class HolderProcess:
    """A process that holds the lock until it is killed."""

    code = (
        "import sys, threading; from pzc import Protocol, Proxy, lock;"
        "held = lock(Proxy(sys.argv[1], protocol=Protocol(sys.argv[2])), ttl=600.0);"
        "print('held', flush=True); sys.stdin.read()"
    )

    def __init__(self, endpoint: str) -> None:
        import subprocess
        import sys

        self.process = subprocess.Popen(
            [sys.executable, "-c", self.code, endpoint, KEY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def test_an_admin_may_take_a_lock_over_and_an_operator_may_not(guarded: Server) -> None:
    at, alices, bosses = guarded.rep_endpoint, protocol_of(Role.OPERATOR), protocol_of(Role.ADMIN)
    with (
        proxied(at, protocol=alices, timeout=TIMEOUT) as alice,
        proxied(at, protocol=alices, timeout=TIMEOUT) as other,
        proxied(at, protocol=bosses, timeout=TIMEOUT) as boss,
    ):
        held = lock(alice)
        assert held.owner.startswith("operator")
        with pytest.raises(RoleRefused):
            lock(other, takeover=True)
        with lock(boss, takeover=True):
            with pytest.raises((LockLost, LockedBy)):
                alice.ramp(2)
            assert boss.ramp(2) == 4
        held.release()
        assert alice.ramp(2) == 4


def test_a_slow_call_of_the_holder_keeps_the_lock() -> None:
    gate = Gate()
    with served(gate) as (server, one), proxied(server.rep_endpoint, timeout=TIMEOUT) as two:
        with lock(one, ttl=0.5):
            waiting = one.wait.future()
            assert gate.entered.wait(TIMEOUT)
            with pytest.raises(LockedBy):
                lock(two, wait=1.0)
            gate.opened.set()
            assert waiting.result(TIMEOUT) == "through"


@pytest.mark.parametrize(
    "terms", [{"ttl": 0}, {"ttl": float("inf")}, {"ttl": "3"}, {"wait": -1}, {"wait": float("nan")}]
)
def test_seconds_that_cannot_be_used_are_refused(pair: tuple[Proxy, Proxy], terms: Any) -> None:
    with pytest.raises(ConfigError):
        lock(pair[0], **terms)


@pytest.mark.usefixtures("beside_originals")
def test_an_original_pizco_refuses_a_lock() -> None:
    key = KEY.encode()
    with (
        original.Server(key, original.invented(key)) as server,
        proxied(server.endpoint, timeout=TIMEOUT, protocol=Protocol(KEY, "pickle2")) as psu,
    ):
        with pytest.raises(Refused, match="an original Pizco cannot be locked"):
            lock(psu)
        assert psu.ramp(2) == 4


def test_a_lock_whose_request_timed_out_leaves_the_next_one_alone() -> None:
    with ServerProcess("Instrument") as child:
        with proxied(child.endpoint, protocol=Protocol(KEY), timeout=0.5) as psu:
            ramp = psu.ramp.options(timeout=TIMEOUT)
            child.freeze()
            with pytest.raises((CallTimeout, PeerLost)):
                lock(psu)
            child.thaw()
            with lock(psu, wait=TIMEOUT):
                assert [ramp(2) for _ in range(5)] == [4] * 5


@pytest.mark.parametrize("transport", OUTSIDE)
def test_a_server_that_stood_still_for_longer_than_the_ttl_leaves_the_lock_to_its_holder(
    transport: str,
) -> None:
    with ServerProcess("Instrument") as child:
        with proxied(child.endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport=transport) as psu:
            with lock(psu, ttl=1.0):
                child.freeze()
                with pytest.raises((CallTimeout, PeerLost)):
                    psu.ramp.options(timeout=2.0)(2)
                child.thaw()
                assert psu.ramp(2) == 4


def test_a_lock_is_given_back_in_time_when_a_call_under_it_does_not_end() -> None:
    gate = Gate()
    with (
        served(gate, timeout=0.5) as (server, one),
        proxied(server.rep_endpoint, timeout=TIMEOUT) as two,
    ):
        with lock(one):
            running = one.wait.options(timeout=TIMEOUT).future()
            assert gate.entered.wait(TIMEOUT)
        with lock(two):
            gate.opened.set()
            assert running.result(TIMEOUT) == "through"


def test_the_exception_of_the_block_comes_out_when_the_lock_cannot_be_given_back() -> None:
    with Server(Instrument()) as server, proxied(server.rep_endpoint, timeout=0.5) as psu:
        held = lock(psu)
        server.stop()
        with pytest.raises(KeyError, match="mine") as caught, held:
            raise KeyError("mine")
        assert "could not be given back" in caught.value.__notes__[0]
