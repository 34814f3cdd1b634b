"""Urgent calls that came over TCP share their threads by key: whoever holds many, others can stop things."""

from __future__ import annotations

import threading

import pytest

from pzc import Agent, Keyring, Protocol, Role, Server, reading, urgent

from tests.contract.rigs.calling import TIMEOUT, until
from tests.contract.rigs.cancelling import later
from tests.contract.rigs.roles import KEYS, SERVER, protocol_of


class Heater:
    """Has an urgent member that observers may call, and that takes long."""

    def __init__(self) -> None:
        self.opened, self.held = threading.Event(), 0

    @urgent
    @reading
    def hold(self) -> None:
        self.held += 1
        assert self.opened.wait(TIMEOUT)

    @urgent
    def off(self) -> str:
        return "off"


PROTOCOLS = {
    "by key": (Keyring([*KEYS, SERVER], SERVER), Role.OBSERVER, Role.OPERATOR),
    "by agent": (None, None, None),
}


def protocol_for(role: Role | None) -> Protocol:
    return Protocol() if role is None else protocol_of(role)


@pytest.mark.parametrize("many", [8, 40, 200])
@pytest.mark.parametrize("shared", PROTOCOLS)
def test_the_stop_button_of_others_works_while_one_holds_all_urgent_calls_it_may(
    shared: str, many: int
) -> None:
    heater = Heater()
    ring, holder, stopper = PROTOCOLS[shared]
    with (
        Server(heater, protocol=Protocol(keyring=ring)) as server,
        Agent(protocol=protocol_for(holder)) as observer,
        Agent(protocol=protocol_for(stopper)) as operator,
    ):
        for _ in range(many):
            later(observer, server, "hold")
        try:
            until(lambda: heater.held)
            observer.request(server.rep_endpoint, "ping", TIMEOUT)
            assert later(operator, server, "off").result(TIMEOUT).content[2] == "off"
        finally:
            heater.opened.set()
