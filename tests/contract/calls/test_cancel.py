from __future__ import annotations

from typing import Any

import pytest

from pzc import Agent, Key, Keyring, Protocol, Role, RoleRefused, Server

from tests.contract.rigs import cancelling
from tests.contract.rigs.calling import TIMEOUT
from tests.contract.rigs.cancelling import Worker, cancel, later

worker, server, lone, client = cancelling.worker, cancelling.server, cancelling.lone, cancelling.client

KEYS = {role: Key(f"secret of the {role.name}", role.name.lower(), role) for role in Role}


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
