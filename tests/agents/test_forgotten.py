"""What is remembered of others goes when nobody uses them, however many there were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pzc import Agent, Policy, Protocol, Server, block, drop, lock, mailbox

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, until
from tests.contract.rigs.pairs import pair


class Counter:
    def count(self) -> int:
        return 1


def remembered(agent: Agent) -> list[object]:
    """What an agent has of endpoints that it has asked."""
    client: Any = agent.client
    return [*client._pools._of, *client.known.__self__, *client.heartbeat._watches]


def test_nothing_is_remembered_of_agents_that_were_asked_once(timings: Callable[..., None]) -> None:
    timings(connection_idle=0.1)
    with Agent(protocol=Protocol(KEY)) as agent:
        for _ in range(5):
            with Agent(protocol=Protocol(KEY)) as other:
                assert agent.request(other.rep_endpoint, "echo", TIMEOUT) == "echo"
        until(lambda: not remembered(agent))


def test_nothing_is_remembered_of_servers_whose_proxies_were_closed(timings: Callable[..., None]) -> None:
    timings(connection_idle=0.1)
    with Server(Counter(), protocol=Protocol(KEY)) as stays:
        with proxied(stays.rep_endpoint, protocol=Protocol(KEY)) as held:
            agent: Any = held._proxy_remote.agent
            for _ in range(3):
                with Server(Counter(), protocol=Protocol(KEY)) as server:
                    with proxied(server.rep_endpoint, protocol=Protocol(KEY)) as proxy, lock(proxy):
                        assert proxy.count.future().result(TIMEOUT) == 1
            until(lambda: set(remembered(agent)) <= {stays.rep_endpoint})
            assert agent.client.known(stays.rep_endpoint) is not None
            assert held.count() == 1


def test_an_agent_that_was_forgotten_is_met_again(timings: Callable[..., None]) -> None:
    timings(connection_idle=0.1)
    with Agent(protocol=Protocol(KEY)) as agent, Agent(protocol=Protocol(KEY)) as other:
        for _ in range(3):
            assert agent.request(other.rep_endpoint, "echo", TIMEOUT) == "echo"
            until(lambda: not remembered(agent))


@pytest.mark.parametrize("policy", [block(), drop(10), mailbox()], ids=["block", "drop", "mailbox"])
def test_a_publisher_remembers_no_topic_that_a_reader_left(policy: Policy) -> None:
    with pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "stays", policy=policy, transport="unix")
        for number in range(5):
            reader.subscribe(publisher.rep_endpoint, f"t{number}", policy=policy, transport="unix").close()
        (link,) = publisher._publishing.subscribers.links.values()
        until(lambda: list(link._readers) == ["stays"])
