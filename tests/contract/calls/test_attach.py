from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from pzc import (
    CallTimeout,
    LocalProtocolError,
    PeerLost,
    Protocol,
    Refused,
    RemoteStream,
    Server,
    attach,
    lock,
)

from tests.contract.rigs import original
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, Instrument, ServerProcess, proxied, served
from tests.contract.rigs.pairs import wait_until

DETACHED = """
import sys
from pzc import Proxy, close
proxy = Proxy(sys.argv[1])
for _ in range(10):
    proxy.count.options(detached=True).future()
close(proxy)
"""


class Counts:
    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> int:
        self.calls += 1
        return self.calls

    def fail(self) -> None:
        raise ValueError("out of range")

    def scan(self) -> Iterator[int]:
        yield from range(5)


def test_the_result_of_a_call_that_timed_out_is_fetched_later() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        with pytest.raises(CallTimeout) as caught:
            proxy.wait.options(timeout=0.1)()
        future = attach(caught.value.call_id)
        gate.opened.set()
        assert future.result(TIMEOUT) == "through"
        assert future.call_id == caught.value.call_id


def test_what_a_call_raised_is_raised_when_it_is_fetched() -> None:
    with served(Counts()) as (_, proxy):
        future = proxy.fail.future()
        for each in (future, attach(future.call_id)):
            with pytest.raises(ValueError, match="out of range"):
                each.result(TIMEOUT)


def test_a_stream_is_fetched_and_read_by_the_same_agent() -> None:
    with served(Counts()) as (_, proxy):
        future = proxy.scan.future()
        assert isinstance(future.result(TIMEOUT), RemoteStream)
        with attach(future.call_id).result(TIMEOUT) as stream:
            assert list(stream) == list(range(5))


def test_detached_calls_go_on_when_their_proxy_is_closed_right_behind_them() -> None:
    counts = Counts()
    with served(counts) as (server, _):
        with proxied(server.rep_endpoint) as proxy:
            for _ in range(10):
                proxy.count.options(detached=True).future()
        wait_until(lambda: counts.calls == 10)


def test_detached_calls_go_on_when_their_process_closes_its_proxy_and_ends() -> None:
    counts = Counts()
    with served(counts) as (server, _):
        run = [sys.executable, "-c", DETACHED, server.rep_endpoint]
        subprocess.run(run, check=True, timeout=TIMEOUT)
        wait_until(lambda: counts.calls == 10)


def test_a_call_that_nobody_made_is_refused() -> None:
    with served(Counts()) as (server, _):
        unknown = f"urn:uuid:00000000-0000-8000-8000-000000000000@{server.rep_endpoint}"
        with pytest.raises(Refused, match="no result is kept"):
            attach(unknown).result(TIMEOUT)


def test_a_call_of_another_key_is_refused() -> None:
    with Server(Counts(), protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY)) as proxy:
            future = proxy.count.future()
            assert future.result(TIMEOUT) == 1
            with pytest.raises((Refused, ValueError)):
                attach(future.call_id, protocol=Protocol("a long secret of another"), timeout=2.0).result(
                    TIMEOUT
                )


def test_asking_ends_with_its_timeout_and_the_call_goes_on() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        running = proxy.wait.future()
        with pytest.raises(CallTimeout) as caught:
            attach(running.call_id, timeout=0.3).result(TIMEOUT)
        gate.opened.set()
        assert caught.value.call_id == running.call_id
        assert running.result(TIMEOUT) == "through"


def test_asking_may_be_cancelled_with_the_call() -> None:
    gate = Gate()
    with served(gate) as (_, proxy):
        running = proxy.wait.future()
        assert gate.entered.wait(TIMEOUT)
        future = attach(running.call_id)
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result(0)
        gate.opened.set()
        assert running.result(TIMEOUT) == "through"


def test_the_holder_of_a_lock_may_fetch_a_result() -> None:
    with served(Counts()) as (_, proxy), lock(proxy):
        future = proxy.count.future()
        assert attach(future.call_id).result(TIMEOUT) == 1


@pytest.mark.usefixtures("beside_originals")
def test_an_original_pizco_keeps_no_outcome() -> None:
    key = KEY.encode()
    with original.Server(key, original.invented(key)) as server:
        with pytest.raises(Refused, match="an original Pizco cannot keep"):
            attach(f"urn:uuid:1@{server.endpoint}", protocol=Protocol(KEY, "pickle2"), timeout=TIMEOUT)


def test_every_call_has_an_id_of_its_own() -> None:
    with served(Instrument()) as (_, psu):
        futures = [psu.ramp.future(number) for number in range(100)]
        assert len({future.call_id for future in futures}) == 100
        assert [attach(future.call_id).result(TIMEOUT) for future in futures[:3]] == [0, 2, 4]


CALLER = """
import sys
from pzc import Protocol, Proxy
proxy = Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]))
print(proxy.wait.future().call_id, flush=True)
sys.stdin.read()
"""


def test_the_result_of_a_call_whose_caller_was_killed_is_fetched_by_another_process() -> None:
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        command = [sys.executable, "-c", CALLER, server.rep_endpoint, KEY]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as caller:  # fmt: skip
            assert caller.stdout is not None
            call_id = caller.stdout.readline().strip()
            assert gate.entered.wait(TIMEOUT)
            caller.kill()
        future = attach(call_id, protocol=Protocol(KEY), timeout=TIMEOUT)
        assert not future.done()
        gate.opened.set()
        assert future.result(TIMEOUT) == "through"
        assert attach(call_id, protocol=Protocol(KEY)).result(TIMEOUT) == "through"
        assert gate.calls == 1


@pytest.mark.parametrize("text", ["", "x", "urn:uuid:1", "urn:uuid:1@nowhere", "1@tcp://127.0.0.1:1", None])
def test_what_is_no_call_id_is_an_error(text: Any) -> None:
    with pytest.raises(LocalProtocolError, match="is no call id"):
        attach(text)


def test_a_server_that_is_gone_is_an_error_in_time() -> None:
    with ServerProcess("Instrument") as child:
        endpoint = child.endpoint
    with pytest.raises((PeerLost, CallTimeout)):
        attach(f"urn:uuid:00000000-0000-8000-8000-000000000000@{endpoint}", timeout=0.2)
