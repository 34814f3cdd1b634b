from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, Protocol, Role, RoleRefused, Server, cancelled

from tests.contract.rigs.calling import KEY, TIMEOUT

KEYS = {role: Key(f"secret of the {role.name}", role.name.lower(), role) for role in Role}


class Worker:
    """Long calls that look whether they were cancelled."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.calls = 0

    def work(self) -> bool:
        """True when it was cancelled."""
        self.entered.set()
        for _ in range(int(TIMEOUT / 0.01)):
            if cancelled() or self.opened.wait(0.01):
                break
        return cancelled()

    def step(self) -> int:
        self.calls += 1
        return self.calls


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture(params=[1, 2], ids=["one at a time", "two at a time"])
def server(worker: Worker, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(worker, protocol=Protocol(KEY), concurrency=request.param) as made:
        yield made
        worker.opened.set()


@pytest.fixture
def lone(worker: Worker) -> Iterator[Server]:
    with Server(worker, protocol=Protocol(KEY)) as made:
        yield made
        worker.opened.set()


@pytest.fixture
def client() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


def later(client: Agent, server: Server, name: str) -> Any:
    content = ("PSMessage", "exec", {"name": name, "method": "__call__"})
    return client.exchange_later(client.peer(server.rep_endpoint), content, TIMEOUT)


def cancel(client: Agent, server: Server, call_id: str) -> str:
    return client.request(server.rep_endpoint, {"pzc": "cancel", "id": call_id}, TIMEOUT)["state"]


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
    def protocol_of(role: Role) -> Protocol:
        return Protocol(keyring=Keyring(KEYS.values(), KEYS[role]))

    with (
        Server(worker, protocol=protocol_of(Role.ADMIN)) as server,
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
