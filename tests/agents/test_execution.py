from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, Protocol, Role, RoleRefused, Server
from pzc.agents.server.replies import authorize
from pzc.protocol.frames import PZC01
from pzc.transport.endpoints import DECODE_LATER

from tests.contract.rigs.calling import KEY, TIMEOUT, RawPeer, counts, proxied, until
from tests.contract.rigs.peers import run_threads

KEYS = {role: Key(f"secret of the {role.name}", role.name.lower(), role) for role in Role}
TRANSPORTS = pytest.mark.parametrize("transport", ["unix", "tcp"])


class Counter:
    """Counts its calls, and notes in which order they came."""

    def __init__(self) -> None:
        self.calls = 0
        self.order: list[int] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def step(self) -> int:
        self.calls += 1
        return self.calls

    def note(self, number: int, ballast: bytes = b"") -> int:
        self.order.append(number)
        return number

    def wait(self) -> None:
        self.entered.set()
        assert self.opened.wait(TIMEOUT)


@pytest.fixture
def counter() -> Iterator[Counter]:
    made = Counter()
    yield made
    made.opened.set()


@pytest.fixture
def server(counter: Counter) -> Iterator[Server]:
    with Server(counter, protocol=Protocol(KEY)) as made:
        yield made
        counter.opened.set()


def test_an_unsigned_request_is_not_restricted_and_a_signed_one_by_its_role() -> None:
    authorize(None, Role.ADMIN)
    authorize(KEYS[Role.OPERATOR], Role.OPERATOR)
    with pytest.raises(RoleRefused, match="key observer is observer; this needs operator"):
        authorize(KEYS[Role.OBSERVER], Role.OPERATOR)


@TRANSPORTS
def test_no_role_does_more_after_many_calls_than_at_first(counter: Counter, transport: str) -> None:
    def protocol_of(role: Role) -> Protocol:
        return Protocol(keyring=Keyring(KEYS.values(), KEYS[role]))

    with (
        Server(counter, protocol=protocol_of(Role.ADMIN)) as server,
        proxied(server.rep_endpoint, protocol=protocol_of(Role.OPERATOR), transport=transport) as operator,
        proxied(server.rep_endpoint, protocol=protocol_of(Role.OBSERVER), transport=transport) as observer,
    ):
        for number in range(1, 8):
            assert operator.step() == number
            assert observer.calls == number
            with pytest.raises(RoleRefused):
                observer.step()
            with pytest.raises(RoleRefused):
                operator._proxy_instantiate("os.getcwd")


@TRANSPORTS
def test_every_thread_gets_its_own_answers(server: Server, counter: Counter, transport: str) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:

        def ask(first: int) -> None:
            for number in range(first, first + 50):
                assert proxy.note(number) == number

        run_threads(*[lambda first=first: ask(first) for first in range(0, 400, 50)])
    assert sorted(counter.order) == list(range(400))


def test_large_and_small_requests_of_one_client_run_in_the_order_in_which_they_were_sent(
    server: Server, counter: Counter
) -> None:
    ballast = bytes(DECODE_LATER + 1)
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        for _ in range(10):
            proxy.step()  # makes it a quick one
        futures = [
            proxy.note.future(number, ballast) if number % 3 == 0 else proxy.note.future(number)
            for number in range(60)
        ]
        assert [future.result(TIMEOUT) for future in futures] == list(range(60))
    assert counter.order == list(range(60))


def test_a_quick_request_does_not_overtake_one_that_waits(server: Server, counter: Counter) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport="tcp") as proxy:
        for number in range(10):
            proxy.note(number)
        running = proxy.wait.future()
        assert counter.entered.wait(TIMEOUT)
        waiting = [proxy.note.future(number) for number in range(10, 20)]
        until(lambda: len(server._answering.lanes[0]) == 10)
        counter.opened.set()
        for future in (running, *waiting):
            future.result(TIMEOUT)
    assert counter.order == list(range(20))


def test_a_request_with_the_id_of_one_that_runs_is_refused(server: Server, counter: Counter) -> None:
    protocol = Protocol(KEY)
    call: Any = ("PSMessage", "exec", {"name": "wait", "method": "__call__"})
    with Agent(protocol=Protocol(KEY)) as client, RawPeer(server.rep_endpoint) as raw:
        running = client.exchange_later(client.peer(server.rep_endpoint), call, TIMEOUT)
        assert counter.entered.wait(TIMEOUT)
        frames = protocol.encode("f" * 32, "", call, receiver=server.agent_id, dialect=PZC01)
        frames[3] = running.msgid.encode()
        raw.ask([bytes(frame) for frame in frames])
        assert counts(server)["requests_refused"] == 1
        counter.opened.set()
        assert running.result(TIMEOUT).content[1] == "return"


@TRANSPORTS
def test_nothing_is_left_of_calls_that_have_ended(server: Server, transport: str) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
        for _ in range(20):
            proxy.step()
        with pytest.raises(TypeError):
            proxy.step("too much")
        answering = server._answering
        until(lambda: (len(answering.calls), answering.lanes[0].running) == (0, []))


@TRANSPORTS
def test_the_result_of_every_call_can_be_fetched_by_its_id(
    server: Server, counter: Counter, transport: str
) -> None:
    ids: list[str] = []
    real = server._exposed.act

    def noting(call: Any, action: str, options: Any) -> Any:
        if action == "exec":
            ids.append(call.id)
        return real(call, action, options)

    server._exposed.act = noting
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
        for number in range(1, 8):
            assert proxy.step() == number
    with Agent(protocol=Protocol(KEY)) as successor:
        found = [successor.request(server.rep_endpoint, {"pzc": "future", "id": each})[2] for each in ids]
    assert found == list(range(1, 8))
