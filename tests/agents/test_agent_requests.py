from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import zmq

from pzc import (
    Agent,
)

from tests.contract.rigs.calling import TIMEOUT
from tests.contract.rigs.gated import places


def wait_until_noticed(client: Agent, endpoint: str) -> None:
    """A request sent in the moment in which a connection ends is lost, and is not sent again."""
    deadline = time.monotonic() + TIMEOUT
    pool = client._requester.lines._idle
    lines = client._deferred._lines

    def connected() -> bool:
        idle = [line for (place, _), known in list(pool.items()) if place == endpoint for line in list(known)]
        later = [line.socket for (place, _), line in lines.items() if place == endpoint]
        return any(line.transport.idle() for line in idle) or any(s.poll(0, zmq.POLLOUT) for s in later)

    while client.loop.run(connected):
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


@pytest.mark.parametrize("transport", ["tcp", "ipc", "inproc"])
def test_an_agent_that_was_restarted_at_its_endpoint_is_asked_again(tmp_path: Path, transport: str) -> None:
    rep, pub = places(tmp_path)[transport]
    with Agent() as client:
        for _ in range(3):
            with Agent(rep, pub) as agent:
                rep = agent.rep_endpoint
                assert client.request(rep, 7, TIMEOUT) == 7
                if transport == "inproc":  # for the others see the tests of faults
                    peer = client.peer(rep)
                    assert client.exchange_later(peer, 8, TIMEOUT).result(TIMEOUT).content == 8
            wait_until_noticed(client, rep)
