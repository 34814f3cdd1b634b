from __future__ import annotations

from pzc import Proxy

from tests.contract.rigs import scanners
from tests.contract.rigs.scanners import Scanner

scanning = scanners.scanning


def test_a_stream_is_held_until_it_ends(scanning: tuple[Scanner, Proxy]) -> None:
    _, proxy = scanning
    keeper = proxy._proxy_remote.client.heartbeat
    stream = proxy.scan(3)
    (watch,) = keeper._watches.values()
    assert len(watch.holds) == 1
    assert list(stream) == [0, 1, 2]
    assert not watch.holds
    stream = proxy.endless()
    assert len(watch.holds) == 1
    stream.close()
    assert not watch.holds
