from __future__ import annotations

import threading
from typing import Any

import pytest

import pzc
from pzc import Agent, CallCancelled, Keyring, Protocol, Role, RoleRefused, Server, urgent

from tests.contract.rigs import cancelling
from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, proxied, until
from tests.contract.rigs.cancelling import Worker, cancel, later
from tests.contract.rigs.roles import KEYS, SERVER, protocol_of

worker, server, lone, client = cancelling.worker, cancelling.server, cancelling.lone, cancelling.client


def test_a_call_that_runs_sees_that_it_was_cancelled(client: Agent, server: Server, worker: Worker) -> None:
    running = later(client, server, "work")
    assert worker.entered.wait(TIMEOUT)
    assert cancel(client, server, running.msgid) == "told"
    assert tuple(running.result(TIMEOUT).content) == ("PSMessage", "return", True)


def test_the_next_call_is_not_cancelled(client: Agent, server: Server, worker: Worker) -> None:
    running = later(client, server, "work")
    assert worker.entered.wait(TIMEOUT)
    cancel(client, server, running.msgid)
    running.result(TIMEOUT)
    worker.opened.set()
    assert later(client, server, "work").result(TIMEOUT).content[2] is False


@pytest.mark.parametrize("call_id", ["", "unknown", None, 7])
def test_a_call_that_nobody_made_is_unknown(client: Agent, lone: Server, call_id: Any) -> None:
    assert cancel(client, lone, call_id) == "unknown"


def test_a_call_that_has_ended_is_unknown(client: Agent, lone: Server) -> None:
    done = later(client, lone, "step")
    done.result(TIMEOUT)
    assert cancel(client, lone, done.msgid) == "unknown"


def test_the_call_of_another_key_is_cancelled_by_an_admin_only(worker: Worker) -> None:
    with (
        Server(worker, protocol=Protocol(keyring=Keyring([*KEYS, SERVER], SERVER))) as server,
        Agent(protocol=protocol_of(Role.ADMIN)) as admin,
        Agent(protocol=protocol_of(Role.OPERATOR)) as operator,
        Agent(protocol=protocol_of(Role.OBSERVER)) as observer,
    ):
        running = later(operator, server, "work")
        assert worker.entered.wait(TIMEOUT)
        with pytest.raises(RoleRefused):
            cancel(observer, server, running.msgid)
        assert cancel(admin, server, running.msgid) == "told"
        assert running.result(TIMEOUT).content[2] is True


def waiting_at(server: Server) -> int:
    """Calls that wait for their turn."""
    return server.statistics()["calls"]["waiting"]


def test_a_call_that_waits_is_never_executed_and_told_so(client: Agent, lone: Server, worker: Worker) -> None:
    running, waiting = later(client, lone, "work"), later(client, lone, "step")
    assert worker.entered.wait(TIMEOUT)
    until(lambda: waiting_at(lone) == 1)
    assert cancel(client, lone, waiting.msgid) == "removed"
    with pytest.raises(CallCancelled, match="cancelled before it started"):
        waiting.result(TIMEOUT)
    assert cancel(client, lone, waiting.msgid) == "unknown"
    worker.opened.set()
    running.result(TIMEOUT)
    assert later(client, lone, "step").result(TIMEOUT).content[2] == 1


class Stops:
    """Urgent members, more of which are called than there are threads for them."""

    def __init__(self) -> None:
        self.opened, self.stopped = threading.Event(), 0

    @urgent
    def hold(self) -> None:
        assert self.opened.wait(TIMEOUT)

    @urgent
    def stop(self) -> None:
        self.stopped += 1


def test_an_urgent_call_that_is_cancelled_before_there_is_a_thread_for_it_never_runs(client: Agent) -> None:
    stops = Stops()
    with Server(stops, protocol=Protocol(KEY)) as server:
        holding = [later(client, server, "hold") for _ in range(40)]
        stop = later(client, server, "stop")
        until(lambda: len(client.request(server.rep_endpoint, {"pzc": "running"}, TIMEOUT)["running"]) == 41)
        assert cancel(client, server, stop.msgid) == "told"
        stops.opened.set()
        with pytest.raises(CallCancelled, match="cancelled before it started"):
            stop.result(TIMEOUT)
        assert [each.result(TIMEOUT).content[1] for each in holding] == ["return"] * 40
        assert stops.stopped == 0


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_thread_that_waits_for_its_turn_is_told_that_its_call_was_cancelled(
    client: Agent, lone: Server, worker: Worker, transport: str
) -> None:
    with proxied(lone.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
        running = later(client, lone, "work")
        assert worker.entered.wait(TIMEOUT)
        thread, outcome = in_thread(proxy.step)
        until(lambda: waiting_at(lone) == 1)
        (waiting,) = [call for call in pzc.running(proxy) if call.id != running.msgid]
        assert cancel(client, lone, waiting.id) == "removed"
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
            states.add(call.result(TIMEOUT).content[1])
        except CallCancelled:
            states.add("refused")
    assert states <= {"removed", "told", "unknown", "refused", "return"}
    assert (lone.statistics()["calls"]["running"], waiting_at(lone)) == (0, 0)
