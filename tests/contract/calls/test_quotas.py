"""What waits or is remembered for the holders of one key leaves room for those of another: line 4.8."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from pzc import (
    Agent,
    Key,
    Keyring,
    Policy,
    Protocol,
    Proxy,
    Refused,
    Role,
    Server,
    UnknownName,
    drop,
    lock,
    mailbox,
)
from pzc.testing import Timings

from tests.contract.rigs.calling import TIMEOUT, Gate, in_thread, until
from tests.contract.rigs.naming import registry

NAMES = ("admin", "alice", "bob")
SECRETS = {name: f"the secret of {name}, which is long" for name in NAMES}
KEYS = {name: Key(secret, name) for name, secret in SECRETS.items()}


def signed_by(active: str, *others: str) -> Protocol:
    """Protocol of a process that signs with one key; with all others unless they are named."""
    known = [KEYS[name] for name in NAMES if name == active or name in others or not others]
    return Protocol(keyring=Keyring(known, KEYS[active]))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_the_calls_of_one_key_that_wait_leave_room_for_another(transport: str) -> None:
    gate = Gate()
    with (
        Timings(lane_waiting_per_key=1),
        Server(gate, protocol=signed_by("admin"), discovery=False) as server,
        Proxy(
            server.rep_endpoint, protocol=signed_by("alice"), transport=transport, timeout=TIMEOUT
        ) as alice,
        Proxy(server.rep_endpoint, protocol=signed_by("bob"), transport=transport, timeout=TIMEOUT) as bob,
    ):
        runs = alice.wait.future()
        assert gate.entered.wait(TIMEOUT)
        waits = alice.count.future()
        until(lambda: server.statistics()["calls"]["waiting"] == 1)
        try:
            with pytest.raises(Refused, match=r"with this key already \(lane_waiting_per_key = 1\)"):
                alice.count.future().result(TIMEOUT)
            other = bob.count.future()
            until(lambda: server.statistics()["calls"]["waiting"] == 2)
            assert server.statistics()["counts"]["refused_Refused"] == 1
        finally:
            gate.opened.set()
        assert runs.result(TIMEOUT) == "through"
        assert [waits.result(TIMEOUT), other.result(TIMEOUT)] == [2, 3]
        assert alice.count.future().result(TIMEOUT) == 4  # there is room again


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


def test_those_of_one_key_who_wait_for_a_lock_leave_room_for_another() -> None:
    with (
        Timings(lock_waiting_per_key=1),
        Server(Gate(), protocol=signed_by("admin"), discovery=False) as server,
        ExitStack() as stack,
    ):
        one, two, three, bob = (
            stack.enter_context(Proxy(server.rep_endpoint, protocol=signed_by(name), timeout=TIMEOUT))
            for name in ("alice", "alice", "alice", "bob")
        )
        with lock(one):
            waits, first = in_thread(lambda: lock(two, wait=TIMEOUT).release())
            until(lambda: server.statistics()["calls"]["lock"]["waiting"] == 1)
            with pytest.raises(Refused, match=r"with this key already \(lock_waiting_per_key = 1\); alice"):
                lock(three, wait=TIMEOUT)
            other, second = in_thread(lambda: lock(bob, wait=TIMEOUT).release())
            until(lambda: server.statistics()["calls"]["lock"]["waiting"] == 2)
            assert server.statistics()["counts"]["refused_Refused"] == 1
        waits.join(TIMEOUT)
        other.join(TIMEOUT)
        assert (first, second) == ([None], [None])
        with lock(three, wait=TIMEOUT):
            assert three.count() == 1


def test_the_sessions_of_one_key_replace_none_of_another() -> None:
    def ask(name: str) -> None:
        protocol = signed_by(name)
        with Proxy(server.rep_endpoint, protocol=protocol, transport="tcp", timeout=TIMEOUT) as proxy:
            assert proxy.count()

    with Timings(sessions=2), Server(Gate(), protocol=signed_by("admin"), discovery=False) as server:
        for name in ("bob", "bob", "alice", "alice"):
            ask(name)
        assert "sessions_replaced" not in server.statistics()["counts"]
        ask("alice")
        assert server.statistics()["counts"]["sessions_replaced"] == 1


def test_the_entries_of_one_key_leave_room_for_another() -> None:
    with Timings(entries_per_key=1), Agent(protocol=signed_by("admin")) as client:
        with Agent(name="one", protocol=signed_by("alice")), Agent(name="two", protocol=signed_by("alice")):
            with Agent(name="cam", protocol=signed_by("bob")) as cam:
                assert client.request("cam", "info", TIMEOUT)["rep_endpoint"] == cam.rep_endpoint
            until(lambda: client.statistics()["discovery"]["counts"].get("entries_full"))
        with Agent(name="three", protocol=signed_by("alice")) as three:
            assert client.request("three", "info", TIMEOUT)["rep_endpoint"] == three.rep_endpoint


def test_the_processes_of_one_key_leave_room_for_another() -> None:
    with (
        Timings(processes_per_key=1),
        Agent(protocol=signed_by("admin")) as client,
        Agent(name="one", protocol=signed_by("alice", "admin")) as one,
    ):
        assert client.request("one", "info", TIMEOUT)["rep_endpoint"] == one.rep_endpoint
        # With other keys beside it, an agent announces as another process.
        with Agent(name="two", protocol=signed_by("alice", "bob")):
            with Agent(name="cam", protocol=signed_by("bob", "admin")) as cam:
                assert client.request("cam", "info", TIMEOUT)["rep_endpoint"] == cam.rep_endpoint
            until(lambda: client.statistics()["discovery"]["counts"].get("processes_full"))
            with pytest.raises(UnknownName):
                client.request("two", "info", 1.0)


def test_the_processes_of_one_key_leave_room_for_another_at_a_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = tmp_path / "keyring.toml"
    keyring.write_text(
        'active = "admin"\n'
        + "".join(
            f'[keys.{name}]\nsecret = "{secret}"\nrole = "admin"\n' for name, secret in SECRETS.items()
        ),
        encoding="utf-8",
    )
    keyring.chmod(0o600)
    monkeypatch.setenv("PZC_KEYRING", str(keyring))
    monkeypatch.setenv("PZC_CONFIG", str(Timings(processes_per_key=1).write(tmp_path)))

    def told(agent: Agent) -> str:
        return agent.statistics()["discovery"]["registry"]["error"]

    def connected(agent: Agent) -> bool:
        return agent.statistics()["discovery"]["registry"]["state"] == "connected"

    with registry() as endpoint:
        monkeypatch.setenv("PZC_REGISTRY", endpoint)
        monkeypatch.delenv("PZC_CONFIG")
        with (
            Agent(name="one", protocol=signed_by("alice", "admin")) as one,
            Agent(name="cam", protocol=signed_by("bob", "admin")) as cam,
        ):
            until(lambda: connected(one) and connected(cam))
            with Agent(name="two", protocol=signed_by("alice", "admin", "bob")) as two:
                until(lambda: "with this key already (processes_per_key = 1)" in told(two))
            with Agent(protocol=signed_by("admin")) as client:
                assert client.request("cam", "info", TIMEOUT)["rep_endpoint"] == cam.rep_endpoint
            assert connected(one)


def test_the_subscriptions_of_one_key_that_wait_for_their_mark_leave_room_for_another() -> None:
    word = {"pzc": "placed", "mark": "nobody.1", "topic": "t"}

    def asked() -> object:
        try:
            return alice.request(publisher.rep_endpoint, word, TIMEOUT)
        except Refused as exc:
            return str(exc)

    with (
        Timings(marks_per_key=1),
        Agent(protocol=signed_by("admin"), discovery=False) as publisher,
        Agent(protocol=signed_by("alice"), discovery=False) as alice,
        Agent(protocol=signed_by("bob"), discovery=False) as bob,
    ):
        waiting = [in_thread(asked) for _ in range(4)]
        with bob.subscribe(publisher.rep_endpoint, "t", transport="tcp") as inbox:
            publisher.publish("t", 7)
            assert inbox.recv(TIMEOUT).content == 7
        for thread, _ in waiting:
            thread.join(TIMEOUT)
        told = [answer for _, (answer,) in waiting]
        assert {"pzc": "placed", "placed": False} in told
        assert any("with this key already (marks_per_key = 1)" in str(each) for each in told)


@pytest.mark.parametrize("policy", [drop(), mailbox()], ids=["drop", "mailbox"])
def test_the_topics_and_keys_that_one_key_wants_leave_room_for_another(policy: Policy) -> None:
    with (
        Timings(interests_per_key=3),
        Agent(protocol=signed_by("admin"), discovery=False) as publisher,
        Agent(protocol=signed_by("alice"), discovery=False) as alice,
        Agent(protocol=signed_by("bob"), discovery=False) as bob,
    ):
        first = alice.subscribe(publisher.rep_endpoint, "t", policy=policy, key=["a", "b"])
        with pytest.raises(Refused, match=r"has 3 topics and keys here already \(interests_per_key = 3\)"):
            alice.subscribe(publisher.rep_endpoint, "t", policy=policy, key="c", transport="tcp")
        inbox = bob.subscribe(publisher.rep_endpoint, "t", policy=policy, key="c")
        publisher.publish("t", 7, key="c")
        assert inbox.recv(TIMEOUT).content == 7
        first.close()
        alice.subscribe(publisher.rep_endpoint, "t", policy=policy, key="c")


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
