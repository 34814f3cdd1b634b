"""Processes that are killed while children that they forked live on, with copies of all that they had open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pzc import Agent, PeerLost, Protocol
from pzc.agents.notifications.links import inlets

from tests.contract.rigs import families
from tests.contract.rigs.calling import KEY, TIMEOUT, in_thread, proxied, run_in_fork
from tests.contract.rigs.families import every_how, family
from tests.contract.rigs.pairs import LONG, pair, read, wait_until

patient = families.patient


@every_how
def test_a_reader_hears_of_its_killed_publisher_which_left_a_child(how: str, patient: None) -> None:
    with Agent(protocol=Protocol(KEY)) as reader, family("server", how) as publisher:
        subscription = reader.subscribe(publisher.told, "t", policy=LONG, transport="unix")
        publisher.fork()
        publisher.kill()
        wait_until(lambda: (inlets.statistics(subscription) or {})["transport"] == "none")


@every_how
def test_a_publisher_hears_of_its_killed_reader_which_left_a_child(
    how: str, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Agent(name="publisher", protocol=Protocol(KEY)) as publisher:
        with family("reader", how, publisher.rep_endpoint) as reader:
            reader.fork()
            assert publisher.statistics()["links"]["links"][0]["transport"] == "unix"
            reader.kill()
            wait_until(lambda: not publisher.statistics()["links"]["links"])
            wait_until(lambda: len(publisher._answering.unix) == 0)  # of which only the socket tells


@every_how
def test_a_call_hears_of_its_killed_server_which_left_a_child(how: str, timings: Callable[..., None]) -> None:
    timings(call_recovery=0.3)
    with family("server", how) as server:
        with proxied(server.told, protocol=Protocol(KEY), timeout=3600.0, transport="unix") as proxy:
            assert proxy.count() == 1
            server.fork()
            thread, outcome = in_thread(proxy.wait)
            wait_until(lambda: _is_entered(proxy))
            server.kill()
            thread.join(TIMEOUT)
            assert isinstance(outcome[0], PeerLost)


def _is_entered(proxy: Any) -> bool:
    return proxy._proxy_remote.ask({"pzc": "statistics"}).content["calls"]["running"] == 1


def test_closing_what_was_the_parents_in_a_child_does_not_end_the_parents() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")

        def close() -> None:
            subscription.close()
            for each in (publisher, reader):
                for connection in list(each._answering.unix._connections):
                    connection.hang_up()
                each.stop()

        assert run_in_fork(close) == 0
        publisher.publish("t", 1)
        assert read(subscription, 1) == [1]
        assert subscription.transport == "unix"
