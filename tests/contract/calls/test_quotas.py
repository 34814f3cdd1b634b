"""What waits or is remembered for the holders of one key leaves room for those of another: line 4.8."""

from __future__ import annotations

import pytest

from pzc import (
    Key,
    Keyring,
    Protocol,
    Proxy,
    Role,
    Server,
)

from tests.contract.rigs.calling import TIMEOUT, Gate, in_thread, until

NAMES = ("admin", "alice", "bob")
SECRETS = {name: f"the secret of {name}, which is long" for name in NAMES}
KEYS = {name: Key(secret, name) for name, secret in SECRETS.items()}


def signed_by(active: str, *others: str) -> Protocol:
    """Protocol of a process that signs with one key; with all others unless they are named."""
    known = [KEYS[name] for name in NAMES if name == active or name in others or not others]
    return Protocol(keyring=Keyring(known, KEYS[active]))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_the_calls_of_one_key_wait_behind_one_of_many_with_another_and_not_behind_all(transport: str) -> None:
    gate = Gate()
    with (
        Server(gate, protocol=signed_by("admin"), discovery=False) as server,
        Proxy(server.rep_endpoint, protocol=signed_by("alice"), timeout=TIMEOUT) as alice,
        Proxy(server.rep_endpoint, protocol=signed_by("bob"), transport=transport, timeout=TIMEOUT) as bob,
    ):
        runs = alice.wait.future()
        try:
            assert gate.entered.wait(TIMEOUT)
            many = [alice.count.future() for _ in range(3)]
            until(lambda: server.statistics()["calls"]["waiting"] == 3)
            asked, answer = in_thread(bob.count)
            until(lambda: server.statistics()["calls"]["waiting"] == 4)
        finally:
            gate.opened.set()
        assert runs.result(TIMEOUT) == "through"
        assert [each.result(TIMEOUT) for each in many] == [2, 4, 5]
        asked.join(TIMEOUT)
        assert answer == [3]


def test_one_way_calls_that_are_refused_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    keyring = Keyring([KEYS["admin"], Key(SECRETS["alice"], "alice", Role.OBSERVER)], KEYS["admin"])
    with (
        Server(Gate(), protocol=Protocol(keyring=keyring), discovery=False) as server,
        Proxy(server.rep_endpoint, protocol=signed_by("alice", "alice"), timeout=TIMEOUT) as alice,
    ):
        for _ in range(3):
            alice.count.oneway()
        until(lambda: server.statistics()["counts"].get("refused_RoleRefused") == 3)
    assert len([each for each in caplog.messages if "one-way request" in each]) == 1
