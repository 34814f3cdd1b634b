"""Where a server takes streams, and that strangers there keep nobody out."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from pzc import Agent, BindError, ConfigError, Protocol, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, counts, in_thread, proxied, until
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.knocking import crowd, dripping, place_of, tcp, unix

SECOND = 1.0
MESSAGE = bytes([2, 0, 45, 0, 4, 0, 45, 0, 1, 0, 0, 0]) + (1 << 20).to_bytes(8, "little")
"""The first bytes of a message of a megabyte."""

pytestmark = pytest.mark.needs("unix")


def info(agent: Agent) -> dict[str, Any]:
    """What an agent says of itself to another one."""
    with Agent(protocol=Protocol(KEY)) as asking:
        return asking.request(agent.rep_endpoint, "info", TIMEOUT)


@pytest.fixture
def key() -> Protocol:
    return Protocol(KEY)


@pytest.mark.parametrize(
    "rep", ["tcp://127.0.0.1:0", "tcp://[::1]:0", "tcp://0.0.0.0:0", "tcp://*:0", "tcp://[::]:0"]
)
def test_streams_are_taken_on_the_host_of_the_rep_endpoint(rep: str, key: Protocol) -> None:
    with Agent(rep, protocol=key) as agent:
        told = info(agent)
        assert told["stream_endpoint"].rpartition(":")[0] == agent.rep_endpoint.rpartition(":")[0]
        with socket.create_connection(
            ("::1" if "[" in rep else "127.0.0.1", place_of(told["stream_endpoint"])[1])
        ):
            pass


def test_every_interface_of_ipv6_takes_ipv4_as_well(key: Protocol) -> None:
    with Agent("tcp://[::]:0", protocol=key) as agent:
        _, port = place_of(agent.stream_endpoint)
        with socket.create_connection(("127.0.0.1", port), TIMEOUT):
            pass


def test_both_sockets_can_be_reached(key: Protocol) -> None:
    with Agent(protocol=key) as agent:
        told = info(agent)
        for connect in (tcp, unix):
            connect(told).close()


def test_the_port_of_streams_can_be_named(key: Protocol) -> None:
    endpoint = free_endpoint()
    with Server(Gate(), stream=endpoint, protocol=key) as server:
        assert info(server)["stream_endpoint"] == endpoint


def test_a_port_of_streams_that_is_used_is_named_in_the_error(key: Protocol) -> None:
    with Agent(protocol=key) as agent, pytest.raises(BindError, match=agent.stream_endpoint):
        Agent(stream=agent.stream_endpoint, protocol=key)


@pytest.mark.parametrize("stream", ["5556", "ipc:///tmp/stream", "inproc://stream"])
def test_what_is_no_tcp_endpoint_is_refused_for_streams(stream: str, key: Protocol) -> None:
    with pytest.raises(ConfigError, match="tcp://"):
        Agent(stream=stream, protocol=key)


def test_a_single_port_opens_none_for_streams(key: Protocol) -> None:
    with Agent(single_port=True, protocol=key) as agent:
        told = info(agent)
    assert (told["stream_endpoint"], told["stream_name"]) == ("", f"pzc/stream/{agent.agent_id}")


def test_an_endpoint_within_this_host_opens_no_port(key: Protocol) -> None:
    with Agent("inproc://listener", protocol=key) as agent:
        assert agent.stream_endpoint == ""


def test_strangers_who_say_nothing_keep_a_client_out_for_no_second(key: Protocol) -> None:
    with Server(Gate(), protocol=key) as server, crowd(info(server), 500):
        until(lambda: counts(server).get("stream_pushed_out", 0) >= 500 - 64)
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=SECOND) as proxy:
            assert proxy.count() == 1


def test_strangers_in_the_middle_of_a_message_keep_a_client_out_for_no_second(key: Protocol) -> None:
    with (
        Server(Gate(), protocol=key) as server,
        crowd(info(server), 64, MESSAGE) as strangers,
        dripping(strangers),
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=SECOND) as proxy,
    ):
        assert proxy.count() == 1


def test_strangers_are_hung_up(key: Protocol) -> None:
    with Agent(protocol=key) as agent, crowd(info(agent), 4, MESSAGE) as strangers:
        assert [each.recv(1) for each in strangers] == [b""] * 4


def test_a_call_that_runs_is_answered_while_its_server_stops(key: Protocol) -> None:
    gate = Gate()
    with Server(gate, protocol=key) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
            thread, outcome = in_thread(proxy.wait)
            assert gate.entered.wait(TIMEOUT)
            stopping, _ = in_thread(server.stop)
            gate.opened.set()
            thread.join(TIMEOUT)
            stopping.join(TIMEOUT)
    assert outcome == ["through"]
