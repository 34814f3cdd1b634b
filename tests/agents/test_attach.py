from __future__ import annotations

import subprocess
import sys

import pytest

from pzc import (
    CallTimeout,
    LocalProtocolError,
    PeerLost,
    Protocol,
    Server,
    attach,
    batch,
)
from pzc.agents import leasing as client

from tests.contract.calls.test_attach import Counts
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, ServerProcess, served

CALLER = """
import sys
from pzc import Protocol, Proxy
proxy = Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]))
print(getattr(proxy, sys.argv[3]).future().call_id, flush=True)
sys.stdin.read()
"""


class Crashing:
    """A process that calls a method, tells the call id, and is killed before it knows the result."""

    def __init__(self, endpoint: str, method: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CALLER, endpoint, KEY, method],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.call_id = self.process.stdout.readline().strip()

    def __enter__(self) -> Crashing:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def test_the_result_of_a_call_whose_caller_was_killed_is_fetched_by_another_process() -> None:
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        with Crashing(server.rep_endpoint, "wait") as caller:
            assert gate.entered.wait(TIMEOUT)
        future = attach(caller.call_id, protocol=Protocol(KEY), timeout=TIMEOUT)
        assert not future.done()
        gate.opened.set()
        assert future.result(TIMEOUT) == "through"
        assert gate.calls == 1
        assert attach(caller.call_id, protocol=Protocol(KEY)).result(TIMEOUT) == "through"
    assert client._agents.things == {}


def test_a_batch_is_fetched_as_its_results() -> None:
    with served(Counts()) as (_, proxy):
        with batch(proxy) as b:
            b.count()
        calls = [["exec", {"name": "count", "method": "__call__"}], ["getattr", {"name": "calls"}]]
        future = proxy._proxy_remote.request_later("batch", {"calls": calls})
        assert future.result(TIMEOUT).results == [2, 2]
        assert attach(future.call_id).result(TIMEOUT) == [2, 2]


@pytest.mark.parametrize("text", ["", "x", "urn:uuid:1", "urn:uuid:1@nowhere", "1@tcp://127.0.0.1:1"])
def test_what_is_no_call_id_is_an_error(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="is no call id"):
        attach(text)
    assert client._agents.things == {}


def test_a_server_that_is_gone_is_an_error_in_time() -> None:
    with ServerProcess("Instrument") as child:
        endpoint = child.endpoint
    with pytest.raises((PeerLost, CallTimeout)):
        attach(f"urn:uuid:00000000-0000-8000-8000-000000000000@{endpoint}", timeout=0.2)
    assert client._agents.things == {}
