"""Processes and a registry that comes and goes, over real sockets."""

from __future__ import annotations

import math
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pzc import Agent, Key, Keyring, Protocol, Role
from pzc.agents.registry import Registry
from pzc.discovery.datagrams import Reader
from pzc.discovery.records import Advertise

from tests.agents.registrants import KEY, PATIENCE, Registrant
from tests.contract.rigs.endpoints import free_endpoint

Join = Callable[..., Registrant]

CHILD = """
import sys
from pzc import Protocol
from pzc.agents.registry import Registry
registry = Registry(sys.argv[1], protocol=Protocol(sys.argv[2]), state=sys.argv[3] or None)
print(registry.rep_endpoint, flush=True)
registry.serve_forever()
"""


class RegistryProcess:
    """A registry that can be killed."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:0", state: str = "") -> None:
        command = [sys.executable, "-P", "-c", CHILD, endpoint, KEY, state]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(protocol=Protocol(KEY)) as registry:
        yield registry


@pytest.fixture
def join() -> Iterator[Join]:
    joined: list[Registrant] = []

    def join(endpoint: str, name: str = "/psu", protocol: Protocol | None = None) -> Registrant:
        joined.append(Registrant(endpoint, name, protocol).start())
        return joined[-1]

    yield join
    for each in joined:
        each.close()


@pytest.fixture
def start() -> Iterator[Callable[..., RegistryProcess]]:
    started: list[RegistryProcess] = []

    def start(*arguments: str) -> RegistryProcess:
        started.append(RegistryProcess(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_processes_learn_of_each_other_what_each_said(registry: Registry, join: Join) -> None:
    one, two = join(registry.rep_endpoint, "/camera"), join(registry.rep_endpoint)
    one.wait_for(lambda: one.knows(two))
    two.wait_for(lambda: two.knows(one))
    said = [Reader(Protocol(KEY).codec.keyring).read(each) for each in two.datagrams]
    assert [each.records[0].name for each in said if isinstance(each, Advertise)] == ["/camera"]


def test_a_change_is_told(registry: Registry, join: Join) -> None:
    one, two = join(registry.rep_endpoint), join(registry.rep_endpoint)
    two.wait_for(lambda: two.knows(one))
    one.name = "/renamed"
    one.registering.changed()
    two.wait_for(lambda: any(b"/renamed" in each for each in two.datagrams))


def test_changes_gather_while_the_ones_before_are_told(registry: Registry, join: Join) -> None:
    one, two = join(registry.rep_endpoint), join(registry.rep_endpoint)
    two.wait_for(lambda: two.knows(one))
    before = one.change(f"/psu{number}" for number in range(100))
    two.wait_for(lambda: any(b"/psu99" in each for each in two.datagrams))
    assert one.wholes - before <= 2


def test_whoever_leaves_is_gone_at_once(registry: Registry, join: Join) -> None:
    one, two = Registrant(registry.rep_endpoint, "/psu").start(), join(registry.rep_endpoint)
    two.wait_for(lambda: two.knows(one))
    one.close()
    two.wait_for(lambda: one.process in two.gone)
    assert registry.state.tick(0.0) == []


def test_it_waits_for_a_registry_that_is_not_there_yet(join: Join) -> None:
    endpoint = free_endpoint()
    one = join(endpoint)
    one.wait_for(lambda: one.registering.error)
    with Registry(endpoint, protocol=Protocol(KEY)) as registry:
        one.wait_for(lambda: one.registering.state == "connected" and len(registry.state))


@pytest.mark.slow
def test_a_registry_killed_and_started_again_knows_everybody_again(
    start: Callable[..., RegistryProcess], join: Join
) -> None:
    registry = start()
    one, two = join(registry.endpoint), join(registry.endpoint)
    one.wait_for(lambda: one.knows(two))
    registry.kill()
    one.wait_for(lambda: one.silences)
    assert one.registering.state != "connected"
    one.known.clear()
    start(registry.endpoint)
    one.wait_for(lambda: one.knows(two))
    two.wait_for(lambda: two.knows(one))


@pytest.mark.slow
def test_a_frozen_registry_costs_nobody_time_and_is_used_again(
    start: Callable[..., RegistryProcess], join: Join
) -> None:
    registry = start()
    one, two = join(registry.endpoint), join(registry.endpoint)
    one.wait_for(lambda: one.knows(two))
    registry.signal(signal.SIGSTOP)
    try:
        one.registering.changed()  # does not wait
        one.wait_for(lambda: one.silences)
    finally:
        registry.signal(signal.SIGCONT)
    one.wait_for(lambda: one.returns)
    assert one.knows(two)


@pytest.mark.slow
def test_connections_of_topics_come_at_once_and_after_a_restart(
    start: Callable[..., RegistryProcess], join: Join, tmp_path: Path
) -> None:
    state = str(tmp_path / "registry.json")
    registry = start("tcp://127.0.0.1:0", state)
    one = join(registry.endpoint)
    with Agent(protocol=Protocol(KEY)) as agent:
        from pzc import Proxy, close

        proxy = Proxy(registry.endpoint, protocol=agent.protocol)
        proxy.connect("/a", "/b")
        close(proxy)
    one.wait_for(lambda: one.registering.graph.connections() == [("/a", "/b")])
    registry.kill()
    start(registry.endpoint, state)
    late = join(registry.endpoint)
    late.wait_for(lambda: late.registering.graph.connections() == [("/a", "/b")])


def test_an_agent_that_is_no_registry_is_told_so(join: Join) -> None:
    with Agent(protocol=Protocol(KEY)) as agent:
        one = join(agent.rep_endpoint)
        one.wait_for(lambda: "no registry" in one.registering.error)


def test_a_registry_that_tells_what_cannot_be_is_told_so(registry: Registry, join: Join) -> None:
    registry.state.cursor = cast("Any", math.inf)
    one = join(registry.rep_endpoint)
    one.wait_for(lambda: "answer cannot be read" in one.registering.error)


def test_a_wrong_key_is_told(registry: Registry, join: Join) -> None:
    one = join(registry.rep_endpoint, protocol=Protocol("another key, of another lab"))
    one.wait_for(lambda: "SignatureError" in one.registering.error)


def test_with_an_observers_key_a_process_learns_and_tells_nothing() -> None:
    operator, observer = (
        Key("operator's long secret", "op"),
        Key("observer's long secret", "ob", Role.OBSERVER),
    )
    own = Key("the registry's long secret", "registry")
    keys = [own, operator, observer]
    with Registry(protocol=Protocol(keyring=Keyring(keys, own))) as registry:
        one = Registrant(registry.rep_endpoint, "/psu", Protocol(keyring=Keyring(keys, operator))).start()
        two = Registrant(registry.rep_endpoint, "/eye", Protocol(keyring=Keyring(keys, observer))).start()
        try:
            two.wait_for(lambda: two.knows(one))
            assert len(registry.state) == 1
        finally:
            one.close()
            two.close()


def test_closing_does_not_wait_for_a_registry_that_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        one = Registrant(f"tcp://127.0.0.1:{deaf.getsockname()[1]}", "/psu").start()
        closing = threading.Thread(target=one.close)
        closing.start()
        closing.join(PATIENCE)
        assert not closing.is_alive()


def test_dozens_of_processes_learn_of_each_other(registry: Registry, join: Join) -> None:
    everybody = [join(registry.rep_endpoint, f"/psu{number}") for number in range(30)]
    for each in everybody:
        each.wait_for(lambda each=each: len(each.known) == len(everybody) - 1)
    assert len(registry.state) == len(everybody)
