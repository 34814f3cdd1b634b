from __future__ import annotations

import pytest

from pzc import (
    CallTimeout,
    PeerLost,
    Protocol,
    Server,
    lock,
)

from tests.contract.rigs.calling import (
    KEY,
    TIMEOUT,
    Gate,
    Instrument,
    ServerProcess,
    proxied,
    served,
)


def test_a_lock_that_timed_out_leaves_the_next_one_alone() -> None:
    with ServerProcess("Instrument") as child:
        with proxied(child.endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as psu:
            for _ in range(3):
                psu._proxy_remote.timeout = 0.2
                child.freeze()
                with pytest.raises((CallTimeout, PeerLost)):
                    lock(psu)
                child.thaw()
                psu._proxy_remote.timeout = TIMEOUT
                with lock(psu, wait=TIMEOUT):
                    assert [psu.ramp(2) for _ in range(5)] == [4] * 5


def test_a_lock_is_given_back_in_time_when_a_call_under_it_does_not_end() -> None:
    gate = Gate()
    with served(gate) as (server, one), proxied(server.rep_endpoint, timeout=TIMEOUT) as two:
        with lock(one):
            running = one.wait.future()
            assert gate.entered.wait(TIMEOUT)
            one._proxy_remote.timeout = 0.1
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
        assert psu._proxy_remote.lock_token is None
