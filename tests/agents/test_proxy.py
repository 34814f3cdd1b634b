from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pzc import (
    Protocol,
    Proxy,
    RemoteProtocolError,
    Server,
)
from pzc.agents import leasing as client

from tests.contract.rigs.calling import TIMEOUT, Instrument, proxied, served
from tests.contract.rigs.signalling import Collected, Source


def test_an_agent_that_serves_nothing_says_so() -> None:
    with served(Instrument()) as (_, proxy):
        agent: Any = proxy._proxy_remote.agent
        with pytest.raises(RemoteProtocolError, match="serves no object"):
            Proxy(agent.rep_endpoint, timeout=TIMEOUT)


def test_proxies_share_one_agent_which_goes_with_the_last() -> None:
    with Server(Instrument()) as server:
        with proxied(server.rep_endpoint) as one:
            shared: Any = one._proxy_remote.agent
            with proxied(server.rep_endpoint) as two:
                assert two._proxy_remote.agent is shared
            assert one.ramp(2) == 4
        assert shared.join(TIMEOUT)


def test_proxies_of_different_protocols_share_nothing() -> None:
    with Server(Instrument()) as server:
        with (
            proxied(server.rep_endpoint) as one,
            proxied(server.rep_endpoint, protocol=Protocol("", "json")) as two,
        ):
            assert one._proxy_remote.agent is not two._proxy_remote.agent


def test_a_dropped_proxy_is_collected_and_releases_everything() -> None:
    source = Source()
    with Server(source) as server:
        proxy = Proxy(server.rep_endpoint)
        proxy.changed.connect(Collected())
        shared: Any = proxy._proxy_remote.agent
        gone = weakref.ref(proxy)
        assert source.changed.connected.wait(TIMEOUT)
        del proxy
        gc.collect()
        assert gone() is None
        assert shared.join(TIMEOUT)
        assert source.changed.empty.wait(TIMEOUT)
    assert client._agents.things == {}


def test_a_proxy_in_a_cycle_is_collected_too() -> None:
    with Server(Instrument()) as server:
        proxy = Proxy(server.rep_endpoint)
        shared: Any = proxy._proxy_remote.agent
        knot: list[Any] = [proxy]
        knot.append(knot)
        del proxy, knot
        gc.collect()
        assert shared.join(TIMEOUT)
