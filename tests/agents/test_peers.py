from __future__ import annotations

import threading
import time

import pytest

from pzc import Agent, CallTimeout, Protocol
from pzc.agents.client.peers import Peers

from tests.contract.rigs.calling import KEY, TIMEOUT


def test_threads_that_are_the_first_to_ask_an_agent_shake_hands_once() -> None:
    with Agent(protocol=Protocol(KEY)) as asked, Agent(protocol=Protocol(KEY)) as asking:
        ready = threading.Barrier(8)

        def ask() -> None:
            ready.wait(TIMEOUT)
            asking.peer(asked.rep_endpoint, TIMEOUT)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
        assert asked.counters["requests"] == 1


def test_whoever_waits_for_the_handshake_of_another_thread_waits_until_its_own_deadline() -> None:
    peers, refused = Peers(), threading.Event()

    def wait() -> None:
        with pytest.raises(CallTimeout, match="another thread's handshake"), peers.meeting("tcp://x:1", 0.0):
            pass
        refused.set()

    with peers.meeting("tcp://x:1", time.monotonic() + TIMEOUT) as met:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(TIMEOUT)
    assert met is None
    assert refused.is_set()
