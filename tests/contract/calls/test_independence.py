"""Proxies of one signal, of which each hears what it is connected for."""

from __future__ import annotations

import queue

import pytest

from pzc import Protocol, Server, Signal

from tests.contract.acceptance import acceptance
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, until

EMITS = 1000


class Counter:
    """Emits numbers."""

    def __init__(self) -> None:
        self.counted = Signal()

    def count(self, first: int, behind: int) -> None:
        for number in range(first, behind):
            self.counted.emit(number)


@acceptance("P5")
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_one_of_two_proxies_disconnects_half_way_and_has_its_half_and_the_other_everything(
    transport: str,
) -> None:
    counter, left, stayed = Counter(), queue.SimpleQueue[int](), queue.SimpleQueue[int]()
    with (
        Server(counter, protocol=Protocol(KEY)) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as one,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), transport=transport) as other,
    ):
        one.counted.connect(left.put)
        other.counted.connect(stayed.put)
        one.count(0, EMITS // 2)
        assert [left.get(timeout=TIMEOUT) for _ in range(EMITS // 2)] == list(range(EMITS // 2))
        one.counted.disconnect(left.put)
        one.count(EMITS // 2, EMITS)
        assert [stayed.get(timeout=TIMEOUT) for _ in range(EMITS)] == list(range(EMITS))
        assert left.empty()
        other.counted.disconnect(stayed.put)
        until(lambda: not counter.counted.slots)
    assert stayed.empty()
