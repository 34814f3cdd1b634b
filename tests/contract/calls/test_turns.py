"""In which order calls of several sizes and transports run, and what is left of them."""

from __future__ import annotations

import pytest

from pzc import Keyring, Protocol, Role, RoleRefused, Server

from tests.contract.rigs import counting
from tests.contract.rigs.calling import KEY, TIMEOUT, RawPeer, counts, proxied, until
from tests.contract.rigs.counting import Counter
from tests.contract.rigs.requesting import SENDER, request_for
from tests.contract.rigs.roles import KEYS, key_of

counter, server = counting.counter, counting.server

TRANSPORTS = pytest.mark.parametrize("transport", ["unix", "tcp"])
LARGE = bytes(1 << 18)
"""More than is decoded where it arrives."""


def protocol_of(role: Role) -> Protocol:
    return Protocol(keyring=Keyring(KEYS, key_of(role)))


@TRANSPORTS
def test_no_role_does_more_after_many_calls_than_at_first(counter: Counter, transport: str) -> None:
    with (
        Server(counter, protocol=protocol_of(Role.ADMIN)) as server,
        proxied(server.rep_endpoint, protocol=protocol_of(Role.OPERATOR), transport=transport) as operator,
        proxied(server.rep_endpoint, protocol=protocol_of(Role.OBSERVER), transport=transport) as observer,
    ):
        for number in range(1, 8):
            assert operator.note(number) == number
            assert len(observer.noted) == number
            with pytest.raises(RoleRefused):
                observer.note(number)
            with pytest.raises(RoleRefused):
                operator._proxy_instantiate("os.getcwd")


def test_large_and_small_requests_of_one_client_run_in_the_order_in_which_they_were_sent(
    server: Server, counter: Counter
) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        for _ in range(10):
            proxy.note(-1)  # makes it a quick one
        futures = [
            proxy.note.future(number, LARGE) if number % 3 == 0 else proxy.note.future(number)
            for number in range(60)
        ]
        assert [future.result(TIMEOUT) for future in futures] == list(range(60))
    assert counter.noted[10:] == list(range(60))


@TRANSPORTS
def test_a_quick_request_does_not_overtake_one_that_waits(
    server: Server, counter: Counter, transport: str
) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport=transport) as proxy:
        for number in range(10):
            proxy.note(number)
        running = proxy.hold.future(10, TIMEOUT)
        assert counter.entered.wait(TIMEOUT)
        waiting = [proxy.note.future(number) for number in range(11, 21)]
        until(lambda: server.statistics()["calls"]["waiting"] == 10)
        counter.opened.set()
        for future in (running, *waiting):
            future.result(TIMEOUT)
    assert counter.noted == list(range(21))


def test_a_request_with_the_id_of_one_that_runs_is_refused(counter: Counter) -> None:
    def call(name: str, *args: object) -> list[bytes]:
        options = {"name": name, "method": "__call__", "args": args}
        return request_for(server, ("PSMessage", "exec", options))

    with Server(counter) as server, RawPeer(server.rep_endpoint) as one, RawPeer(server.rep_endpoint) as two:
        running, again = call("hold", 1, TIMEOUT), call("note", 2)
        assert SENDER.encode() in running[0]
        one.socket.send_multipart(running)
        assert counter.entered.wait(TIMEOUT)
        again[3] = running[3]
        two.ask(again)
        assert counter.noted == [1]
        counter.opened.set()
        one.receive()
        assert counts(server)["requests"] == 2


@TRANSPORTS
def test_nothing_is_left_of_calls_that_have_ended(server: Server, transport: str) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as proxy:
        for _ in range(20):
            proxy.note(1)
        with pytest.raises(TypeError):
            proxy.note(1, 2, 3)
        until(lambda: server.statistics()["calls"]["running"] == 0)
        assert server.statistics()["calls"]["waiting"] == 0
