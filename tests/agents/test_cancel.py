from __future__ import annotations

import pytest

from pzc import Agent, CallCancelled, Protocol, Server

from tests.contract.rigs import cancelling
from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, proxied, until
from tests.contract.rigs.cancelling import Worker, cancel, later

worker, server, lone, client = cancelling.worker, cancelling.server, cancelling.lone, cancelling.client


def test_a_call_that_waits_is_never_executed_and_told_so(client: Agent, lone: Server, worker: Worker) -> None:
    running, waiting = later(client, lone, "work"), later(client, lone, "step")
    assert worker.entered.wait(TIMEOUT)
    until(lambda: len(lone._answering.lanes[0]) == 1)
    assert cancel(client, lone, waiting.msgid) == "removed"
    with pytest.raises(CallCancelled, match="cancelled before it started"):
        waiting.result(TIMEOUT)
    assert cancel(client, lone, waiting.msgid) == "unknown"
    worker.opened.set()
    running.result(TIMEOUT)
    assert later(client, lone, "step").result(TIMEOUT).content[2] == 1


def test_a_call_that_waits_on_the_fast_lane_is_cancelled_too(
    client: Agent, lone: Server, worker: Worker
) -> None:
    with proxied(lone.rep_endpoint, protocol=Protocol(KEY), transport="unix") as proxy:
        running = later(client, lone, "work")
        assert worker.entered.wait(TIMEOUT)
        thread, outcome = in_thread(proxy.step)
        until(lambda: len(lone._answering.lanes[0]) == 1)
        calls = [call_id for _, call_id in lone._answering.calls.table]
        waiting = next(call_id for call_id in calls if call_id != running.msgid)
        assert cancel(client, lone, waiting) == "removed"
        thread.join(TIMEOUT)
        worker.opened.set()
        running.result(TIMEOUT)
    assert [type(error) for error in outcome] == [CallCancelled]
    assert worker.calls == 0


def test_cancelling_and_ending_at_the_same_time_gives_either_outcome(
    client: Agent, lone: Server, worker: Worker
) -> None:
    states: set[str] = set()
    for _ in range(100):
        call = later(client, lone, "step")
        states.add(cancel(client, lone, call.msgid))
        try:
            assert call.result(TIMEOUT).content[1] == "return"
        except CallCancelled:
            states.add("refused")
    assert states <= {"removed", "told", "unknown", "refused"}
    assert (len(lone._answering.calls), len(lone._answering.lanes[0])) == (0, 0)
