from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, LockedBy, LockLost, Protocol, Role, RoleRefused, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, until

HOLDER = """
import sys
from pzc import Protocol, Proxy, lock

proxy = Proxy(sys.argv[1], protocol=Protocol(sys.argv[2]))
held = lock(proxy, ttl=float(sys.argv[3]), reason="works alone")
stream = proxy.count()
next(stream)
print("ready", flush=True)
sys.stdin.read()
"""


class Bench:
    """What a client may hold."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.entered, self.opened = threading.Event(), threading.Event()
        self.calls = 0

    def count(self) -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            self.closed.set()

    def wait(self) -> None:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)

    def step(self) -> int:
        self.calls += 1
        return self.calls


class Asker:
    """An agent that holds things, as far as a test lets it."""

    def __init__(self, server: Server, agent: Agent) -> None:
        self.agent, self.endpoint = agent, server.rep_endpoint
        self.peer = agent.peer(self.endpoint)

    def lock(self, token: str = "t", **options: Any) -> Any:
        return self.agent.request(self.endpoint, {"pzc": "lock", "token": token, **options}, TIMEOUT)

    def lock_later(self, **options: Any) -> Any:
        return self.agent.exchange_later(self.peer, {"pzc": "lock", "token": "t", **options}, TIMEOUT)

    def unlock(self, token: str = "t", **options: Any) -> bool:
        return self.agent.request(self.endpoint, {"pzc": "unlock", "token": token, **options}, TIMEOUT)[
            "held"
        ]

    def alive(self) -> Any:
        return self.agent.exchange_later(self.peer, {"pzc": "alive"}, TIMEOUT)

    def call(self, name: str, **options: Any) -> Any:
        content = ("PSMessage", "exec", {"name": name, "method": "__call__", **options})
        return self.agent.exchange_later(self.peer, content, TIMEOUT)


@contextmanager
def asking(server: Server, protocol: Protocol | None = None) -> Iterator[Asker]:
    with Agent(protocol=protocol or Protocol(KEY)) as agent:
        yield Asker(server, agent)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def server(bench: Bench) -> Iterator[Server]:
    with Server(bench, protocol=Protocol(KEY)) as made:
        yield made
        bench.opened.set()


@contextmanager
def holder(server: Server, ttl: float) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock and a stream."""
    command = [sys.executable, "-c", HOLDER, server.rep_endpoint, KEY, str(ttl)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def owner_of(server: Server) -> Any:
    return server.describe()["lock"]


def waiting(server: Server, count: int) -> Callable[[], bool]:
    return lambda: (owner_of(server) or {}).get("waiting") == count


@pytest.mark.needs("pidfd", "unix")
def test_a_killed_client_loses_lock_and_stream_because_its_connection_ends(
    server: Server, bench: Bench, timings: Callable[..., None]
) -> None:
    timings(silence=3600.0)  # so that it is not this that ends it
    with holder(server, ttl=3600.0) as process:
        assert owner_of(server)["reason"] == "works alone"
        process.send_signal(signal.SIGKILL)
        assert bench.closed.wait(TIMEOUT)
        until(lambda: owner_of(server) is None)
    until(lambda: server.statistics()["calls"]["held"] == 0)


def test_a_frozen_client_loses_its_stream_to_silence_and_its_lock_to_its_ttl(
    server: Server, bench: Bench, timings: Callable[..., None]
) -> None:
    timings(silence=0.6)
    with holder(server, ttl=1.5) as process:
        process.send_signal(signal.SIGSTOP)
        assert bench.closed.wait(TIMEOUT)
        until(lambda: owner_of(server) is None)
        with asking(server) as other:
            assert other.lock()["pzc"] == "lock"


@contextmanager
def held_without_a_sign_of_life(server: Server, **options: Any) -> Iterator[Asker]:
    """The lock, as of a client that was killed in the moment of getting it."""
    with asking(server) as client:
        assert client.agent.exchange(
            client.endpoint, {"pzc": "lock", "token": "t", "ttl": 3600.0, **options}, TIMEOUT, transport="tcp"
        ).content["owner"]
        yield client


def test_a_client_that_was_killed_before_its_first_sign_of_life_loses_its_lock(
    server: Server, timings: Callable[..., None]
) -> None:
    timings(silence=0.2)
    with held_without_a_sign_of_life(server):
        until(lambda: owner_of(server) is None)
    assert server.statistics()["calls"]["held"] == 0


def test_a_client_that_was_killed_before_its_first_sign_of_life_loses_its_stream(
    server: Server, timings: Callable[..., None]
) -> None:
    timings(silence=0.2)
    with asking(server) as client:
        assert client.call("count").result(TIMEOUT).content
        until(lambda: server.statistics()["calls"]["held"] == 0)


def test_whoever_waits_gets_the_lock_of_a_client_that_was_killed_before_its_first_sign_of_life(
    server: Server, timings: Callable[..., None]
) -> None:
    timings(silence=0.2)
    with held_without_a_sign_of_life(server), asking(server) as other:
        assert other.agent.agent_id[:8] in other.lock(wait=TIMEOUT)["owner"]


def test_a_second_lock_is_lost_as_the_first_when_its_client_gives_no_sign_of_life_any_more(
    server: Server, timings: Callable[..., None]
) -> None:
    timings(silence=0.5)
    with held_without_a_sign_of_life(server) as client:
        client.alive().result(TIMEOUT)
        assert client.unlock()
        client.lock(ttl=3600.0)
        until(lambda: owner_of(server) is None)


def test_one_sign_of_life_is_enough_to_keep_the_lock_for_its_ttl(
    server: Server, bench: Bench, timings: Callable[..., None]
) -> None:
    timings(silence=0.2)
    with held_without_a_sign_of_life(server) as client:
        client.alive().result(TIMEOUT)
        until(lambda: server.statistics()["calls"]["held"] == 0)  # it was silent meanwhile
        assert owner_of(server) is not None


def test_a_lock_that_was_given_back_leaves_nothing_held(server: Server) -> None:
    with asking(server) as client:
        for _ in range(3):
            client.lock()
            assert client.unlock()
            assert server.statistics()["calls"]["held"] == 0


def test_a_client_that_is_alive_keeps_what_it_holds(
    server: Server, bench: Bench, timings: Callable[..., None]
) -> None:
    timings(silence=2.0)
    with holder(server, ttl=2.0), asking(server) as other:
        with pytest.raises(LockedBy, match="works alone"):
            other.lock(wait=4.0)
        assert not bench.closed.is_set()


def test_a_sign_of_life_is_answered_later(server: Server) -> None:
    with asking(server) as client:
        answer = client.alive()
        client.agent.request(server.rep_endpoint, "ping", TIMEOUT)
        assert not answer.done()
        assert answer.result(TIMEOUT).content == {"pzc": "alive"}


def test_a_sign_of_life_is_answered_at_once_when_the_next_one_comes(server: Server) -> None:
    with asking(server) as client:
        first, second = client.alive(), client.alive()
        assert first.result(TIMEOUT).content == {"pzc": "alive"}
        for _ in range(20):
            client.agent.request(server.rep_endpoint, "ping", TIMEOUT)
        assert not second.done()
        assert second.result(TIMEOUT).content == {"pzc": "alive"}


def test_who_let_everything_go_and_falls_silent_keeps_its_waiting_calls(
    server: Server, bench: Bench, timings: Callable[..., None]
) -> None:
    timings(silence=0.3)
    with asking(server) as client, asking(server) as other:
        running = other.call("wait")
        assert bench.entered.wait(TIMEOUT)
        step = client.call("step")
        client.alive().result(TIMEOUT)
        until(lambda: server.statistics()["calls"]["held"] == 0)
        bench.opened.set()
        assert tuple(step.result(TIMEOUT).content) == ("PSMessage", "return", 1)
        running.result(TIMEOUT)


def test_the_waiting_calls_of_a_client_that_is_gone_are_never_executed(server: Server, bench: Bench) -> None:
    with asking(server) as other:
        running = other.call("wait")
        assert bench.entered.wait(TIMEOUT)
        with asking(server) as client:
            client.call("step").add_done_callback(lambda future: future.exception())
            until(lambda: server.statistics()["calls"]["waiting"] == 1)
            client.alive().add_done_callback(lambda future: future.exception())
            until(lambda: server.statistics()["calls"]["held"] == 1)
        until(lambda: server.statistics()["calls"]["waiting"] == 0)
        bench.opened.set()
        running.result(TIMEOUT)
    assert bench.calls == 0


def test_who_waits_for_the_lock_gets_it_in_arrival_order(server: Server) -> None:
    with asking(server) as one, asking(server) as two, asking(server) as three, asking(server) as four:
        one.lock()
        order, later = [], []
        for number, client in enumerate((two, three, four)):
            later.append(client.lock_later(wait=TIMEOUT))
            until(waiting(server, number + 1))
        for client, answer in zip((one, two, three), later, strict=True):
            assert client.unlock()
            order.append(answer.result(TIMEOUT).content["owner"].rpartition("agent ")[2][:8])
        assert order == [client.agent.agent_id[:8] for client in (two, three, four)]


def test_who_waits_for_the_lock_is_refused_when_the_time_is_over(server: Server) -> None:
    with asking(server) as one, asking(server) as two:
        one.lock(reason="calibration")
        with pytest.raises(LockedBy, match="calibration"):
            two.lock(wait=0.05)
        assert one.unlock()
        assert two.lock()["pzc"] == "lock"


def test_who_is_gone_while_it_waits_is_not_given_the_lock(server: Server) -> None:
    with asking(server) as one, asking(server) as three:
        one.lock()
        with asking(server) as two:
            two.lock_later(wait=TIMEOUT).add_done_callback(lambda future: future.exception())
            until(waiting(server, 1))
            two.alive().add_done_callback(lambda future: future.exception())
            two.agent.request(server.rep_endpoint, "ping", TIMEOUT)
            next_one = three.lock_later(wait=TIMEOUT)
            until(waiting(server, 2))
        until(waiting(server, 1))
        assert one.unlock()
        assert three.agent.agent_id[:8] in next_one.result(TIMEOUT).content["owner"]


def test_a_call_of_others_is_refused_and_one_of_the_holder_runs(server: Server, bench: Bench) -> None:
    with asking(server) as one, asking(server) as two:
        one.lock()
        assert one.call("step", lock="t").result(TIMEOUT).content[2] == 1
        refused = [two.call("step"), two.call("step", lock="t"), one.call("step"), one.call("step", lock="x")]
        types = [answer.result(TIMEOUT).content[2][0]["type"].rpartition(".")[2] for answer in refused]
        assert types == ["LockedBy", "LockLost", "LockedBy", "LockLost"]
    assert bench.calls == 1


def test_a_call_that_relies_on_a_lock_that_nobody_holds_does_not_run(server: Server, bench: Bench) -> None:
    with asking(server) as one:
        detail = one.call("step", lock="t").result(TIMEOUT).content[2][0]
    assert detail["type"].endswith(LockLost.__name__)
    assert bench.calls == 0


def test_unlocking_what_is_not_held_says_so(server: Server) -> None:
    with asking(server) as one, asking(server) as two:
        assert not one.unlock()
        one.lock()
        assert not two.unlock()
        assert not one.unlock("another token")
        assert one.unlock()


def test_a_lock_that_was_given_up_before_its_request_came_is_not_granted(server: Server) -> None:
    with asking(server) as one, asking(server) as two:
        assert not one.unlock(given_up=True)
        with pytest.raises(LockLost, match="gave up"):
            one.lock()
        two.lock()


@pytest.mark.parametrize("reads_while_locked", [False, True])
def test_others_may_read_while_it_is_locked_if_the_server_says_so(
    bench: Bench, reads_while_locked: bool
) -> None:
    with Server(bench, protocol=Protocol(KEY), reads_while_locked=reads_while_locked) as server:
        with asking(server) as one, asking(server) as two:
            one.lock()
            answer = two.agent.request(server.rep_endpoint, ("PSMessage", "getattr", {"name": "calls"}))
    assert (answer[1] == "return") == reads_while_locked


KEYS = [Key(f"secret of the {role.name}", role.name.lower(), role) for role in Role]


def protocol_of(role: Role) -> Protocol:
    return Protocol(keyring=Keyring(KEYS, KEYS[list(Role).index(role)]))


@pytest.mark.needs("unix")
def test_taking_over_needs_an_admin_and_the_former_holder_is_told_by_its_next_call(bench: Bench) -> None:
    with Server(bench, protocol=protocol_of(Role.ADMIN)) as server:
        with (
            asking(server, protocol_of(Role.OPERATOR)) as one,
            asking(server, protocol_of(Role.OPERATOR)) as two,
            asking(server, protocol_of(Role.ADMIN)) as admin,
            asking(server, protocol_of(Role.OBSERVER)) as observer,
        ):
            one.lock()
            with pytest.raises(RoleRefused):
                two.lock(takeover=True)
            with pytest.raises(RoleRefused):
                observer.lock()
            assert "admin" in admin.lock(takeover=True)["owner"]
            detail = one.call("step", lock="t").result(TIMEOUT).content[2][0]
            assert detail["type"].endswith("LockLost")
            assert "taken over by admin" in detail["text"]
    assert bench.calls == 0


@pytest.mark.parametrize("token", ["", "x" * 129])
def test_a_token_that_cannot_be_used_is_refused(server: Server, token: str) -> None:
    with asking(server) as one, pytest.raises(Exception, match="lock token"):
        one.lock(token)


def test_terms_that_are_no_numbers_are_replaced_by_the_usual_ones(server: Server) -> None:
    with asking(server) as one:
        one.lock(ttl="for ever", wait=None, reason=["because"])
        assert owner_of(server)["ttl"] == 30.0
