"""What a server does for callers that give up, and what it tells about what runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pzc import Agent, CallTimeout, Key, Keyring, Protocol, Role, RoleRefused, Server

from tests.contract.rigs import cancelling
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, in_thread, proxied, until
from tests.contract.rigs.cancelling import Worker, later

worker, lone, client = cancelling.worker, cancelling.lone, cancelling.client

SOON = 1.0
"""Seconds after its death within which the call of a process has to see that."""

CALLER = """
import sys
from pzc import Agent, Protocol

with Agent(protocol=Protocol(sys.argv[2])) as agent:
    content = ("PSMessage", "exec", {"name": sys.argv[3], "method": "__call__", **eval(sys.argv[5])})
    agent.exchange(sys.argv[1], content, 60.0, transport=sys.argv[4])
"""


def step(agent: Agent, server: Server, transport: str, **options: Any) -> Any:
    content = ("PSMessage", "exec", {"name": "step", "method": "__call__", **options})
    return agent.exchange(server.rep_endpoint, content, TIMEOUT, transport=transport).content


def started(server: Server, worker: Worker, transport: str, **options: Any) -> subprocess.Popen[bytes]:
    """A process whose call runs."""
    command = [sys.executable, "-c", CALLER, server.rep_endpoint, KEY, "work", transport, repr(options)]
    process = subprocess.Popen(command)
    assert worker.entered.wait(TIMEOUT)
    return process


def running(agent: Agent, server: Server) -> list[dict[str, Any]]:
    return agent.request(server.rep_endpoint, {"pzc": "running"}, TIMEOUT)["running"]


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_call_whose_turn_does_not_come_in_its_time_never_runs_and_is_told_what_does(
    client: Agent, lone: Server, worker: Worker, transport: str
) -> None:
    busy = later(client, lone, "work")
    assert worker.entered.wait(TIMEOUT)
    with pytest.raises(CallTimeout, match=r"step .*within .* s: work for .* has been running for \d"):
        step(client, lone, transport, timeout=0.3)
    worker.opened.set()
    busy.result(TIMEOUT)
    assert step(client, lone, transport, timeout=TIMEOUT)[2] == 1


@pytest.mark.needs("pidfd")
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_the_call_of_a_process_that_was_killed_sees_that_it_was_cancelled(
    client: Agent, lone: Server, worker: Worker, transport: str
) -> None:
    with started(lone, worker, transport, timeout=60.0) as process:
        assert [each["member"] for each in running(client, lone)] == ["work"]
        process.send_signal(signal.SIGKILL)
        died = time.monotonic()
        until(lambda: not running(client, lone))
    assert time.monotonic() - died < SOON + 1.0  # of a busy machine
    assert not worker.opened.is_set()


@pytest.mark.needs("unix")
def test_a_detached_call_goes_on_when_its_process_was_killed(
    client: Agent, lone: Server, worker: Worker
) -> None:
    with started(lone, worker, "unix", detached=True) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT)
    assert step_waits(client, lone)
    assert [each["cancelled"] for each in running(client, lone) if each["member"] == "work"] == [False]
    worker.opened.set()


def step_waits(client: Agent, lone: Server) -> bool:
    """True when another call waits behind the one that runs, for as long as it says."""
    with pytest.raises(CallTimeout):
        step(client, lone, "unix", timeout=SOON)
    return True


@pytest.mark.needs("unix")
def test_a_caller_cancels_all_that_is_its_own_and_an_admin_what_is_anybodys(worker: Worker) -> None:
    keys = {role: Key(f"a long secret of the {role.name}", role.name.lower(), role) for role in Role}

    def protocol_of(role: Role) -> Protocol:
        return Protocol(keyring=Keyring(keys.values(), keys[role]))

    with (
        Server(worker, protocol=protocol_of(Role.ADMIN)) as server,
        Agent(protocol=protocol_of(Role.ADMIN)) as admin,
        Agent(protocol=protocol_of(Role.OPERATOR)) as operator,
    ):
        calls = [later(operator, server, name) for name in ("work", "step", "step")]
        assert worker.entered.wait(TIMEOUT)
        until(lambda: len(running(operator, server)) == len(calls))
        assert {each["state"] for each in running(operator, server)} == {"running", "waiting"}
        with pytest.raises(RoleRefused):
            operator.request(server.rep_endpoint, {"pzc": "cancel", "everybody": True}, TIMEOUT)
        told = admin.request(server.rep_endpoint, {"pzc": "cancel", "mine": True}, TIMEOUT)
        assert (told["removed"], told["told"]) == (0, 0)
        told = operator.request(server.rep_endpoint, {"pzc": "cancel", "mine": True}, TIMEOUT)
        assert (told["removed"], told["told"]) == (2, 1)
        assert calls[0].result(TIMEOUT).content[2] is True
        worker.entered.clear()
        again = later(operator, server, "work")
        assert worker.entered.wait(TIMEOUT)
        told = admin.request(server.rep_endpoint, {"pzc": "cancel", "everybody": True}, TIMEOUT)
        assert (told["removed"], told["told"]) == (0, 1)
        assert again.result(TIMEOUT).content[2] is True
    assert worker.calls == 0


@pytest.mark.parametrize("way", ["call", "future"])
def test_a_call_over_tcp_that_is_late_says_that_it_runs_for_whom_and_since_when(
    lone: Server, way: str
) -> None:
    with proxied(lone.rep_endpoint, protocol=Protocol(KEY), timeout=1.0, transport="tcp") as proxy:
        with pytest.raises(CallTimeout, match=r"; work runs there for \w{8} since \d\d:\d\d:\d\d$"):
            proxy.work() if way == "call" else proxy.work.future().result(TIMEOUT)


class Deaf:
    """Does not look whether its call was given up."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def hold(self) -> bool:
        """Until the test ends."""
        return self.ended.wait(TIMEOUT)


@pytest.mark.needs("unix")
def test_a_call_over_a_unix_socket_that_is_late_says_so_as_well() -> None:
    """A server cannot say so on the connection on whose thread it runs the call, so it is asked."""
    deaf, protocol = Deaf(), Protocol(KEY)
    with Server(deaf, protocol=protocol) as server:
        with proxied(server.rep_endpoint, protocol=protocol, timeout=0.5, transport="unix") as proxy:
            hold = proxy.hold
            with pytest.raises(CallTimeout, match=r"; hold runs there for \w{8} since \d\d:\d\d:\d\d$"):
                hold()
            deaf.ended.set()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_call_that_was_given_up_and_goes_on_takes_no_later_call_of_its_process_with_it(
    client: Agent, timings: Callable[..., None], transport: str
) -> None:
    timings(silence=0.4)
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
            with pytest.raises(CallTimeout):
                proxy.wait.options(timeout=0.1)()
            thread, outcome = in_thread(proxy.count.options(timeout=TIMEOUT))
            until(lambda: [each["member"] for each in running(client, server)] == ["wait", "count"])
            command = [
                sys.executable,
                "-c",
                CALLER,
                server.rep_endpoint,
                KEY,
                "count",
                transport,
                "{'timeout': 60.0}",
            ]
            with subprocess.Popen(command) as later:
                until(lambda: len(running(client, server)) == 3)
                later.kill()
            until(lambda: len(running(client, server)) == 2)
            gate.opened.set()
            thread.join(TIMEOUT)
            assert outcome == [2]
