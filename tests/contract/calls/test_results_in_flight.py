from __future__ import annotations

from concurrent.futures import Future

import pytest

from pzc import Protocol, RemoteProtocolError, Server

from tests.contract.rigs import counting
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied
from tests.contract.rigs.counting import Counter

counter, server = counting.counter, counting.server


@pytest.mark.parametrize("name", ["leaving"])
def test_a_result_that_cannot_be_sent_costs_the_other_calls_nothing(server: Server, name: str) -> None:
    with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
        for _ in range(5):
            futures = [proxy.note.future(1), getattr(proxy, name).future(), proxy.note.future(2)]
            assert futures[0].result(TIMEOUT) == 1
            with pytest.raises((TypeError, RemoteProtocolError)):
                futures[1].result(TIMEOUT)
            assert futures[2].result(TIMEOUT) == 2


@pytest.mark.parametrize("serializer", ["json", "msgpack", "pickle4"])
def test_calls_in_flight_are_answered_in_every_serializer(counter: Counter, serializer: str) -> None:
    protocol = Protocol(KEY, serializer)
    with (
        Server(counter, protocol=protocol) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY, serializer), timeout=TIMEOUT) as proxy,
    ):
        futures: list[Future[int]] = [proxy.note.future(number) for number in range(30)]
        assert [future.result(TIMEOUT) for future in futures] == list(range(30))
        with pytest.raises(TypeError):
            proxy.note.future(1, nonsense=2).result(TIMEOUT)
