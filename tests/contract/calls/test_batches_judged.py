"""The role of each call of a batch is judged in its turn, as that of a call by itself."""

from __future__ import annotations

from typing import Any

import pytest

from pzc import Agent, Keyring, Protocol, Proxy, Role, RoleRefused, Server, batch, reading

from tests.contract.rigs.calling import TIMEOUT
from tests.contract.rigs.roles import KEYS, SERVER, protocol_of


class Mount:
    """Holds a stage as soon as it was looked for."""

    def __init__(self) -> None:
        self.moved = 0

    @reading
    def look(self) -> None:
        self.stage = Stage(self)


class Stage:
    """Moves its mount."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount

    def move(self) -> None:
        self._mount.moved += 1


class Strict(Server):
    """Nobody but an admin may look."""

    def role_needed(self, content: Any) -> Role:
        return Role.ADMIN if "look" in str(content[2].get("name")) else super().role_needed(content)


CALLS = [
    ["exec", {"name": "look", "method": "__call__"}],
    ["exec", {"on": ["stage"], "name": "move", "method": "__call__"}],
]


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_an_observer_calls_no_member_of_operators_that_its_batch_brings_about(transport: str) -> None:
    mount, protocol = Mount(), Protocol(keyring=Keyring([*KEYS, SERVER], SERVER))
    with Server(mount, protocol=protocol) as server, Agent(protocol=protocol_of(Role.OBSERVER)) as observer:
        content = ("PSMessage", "batch", {"calls": CALLS})
        answer = observer.exchange(server.rep_endpoint, content, TIMEOUT, transport=transport).content
    assert "needs operator" in str(answer[2]["raised"])
    assert (mount.moved, answer[2]["results"]) == (0, [None])


def test_a_role_of_the_server_itself_is_asked_about_each_call_of_a_batch() -> None:
    mount, protocol = Mount(), Protocol(keyring=Keyring([*KEYS, SERVER], SERVER))
    with (
        Strict(mount, protocol=protocol) as server,
        Proxy(server.rep_endpoint, protocol=protocol_of(Role.OPERATOR), timeout=TIMEOUT) as psu,
    ):
        with pytest.raises(RoleRefused, match="needs admin"), batch(psu) as calls:
            calls.look()
        assert not hasattr(mount, "stage")
