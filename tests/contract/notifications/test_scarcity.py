"""What agents do without descriptors: nothing crashes, waits for ever or is lost uncounted, and it passes."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading

import pytest

from pzc import Agent, BindError, CallTimeout, PeerLost, Protocol

from tests.contract.rigs.calling import run_in_fork
from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import LONG, Publishing, pair, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Workers
from tests.contract.rigs.scarcity import Hog

LARGE, HUGE = 200_000, 64 << 20


@pytest.mark.timeout(120)
@pytest.mark.parametrize("left", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_a_reader_without_descriptors_gets_everything_once_it_has_some(
    workers: Workers, way: str, left: int
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        publisher.advertise("t", buffers=4)
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, way, "hash")
        publisher.publish("t", payload(1, 10))
        reader.ask("account", "t", 1)
        reader.ask("starve", left)
        publishing = Publishing(publisher, "t", (payload(number, LARGE) for number in range(2, 5)))
        publishing.finish()
        reader.ask("feed")
        whole = [(1, digest(payload(1, 10))), *((n, digest(payload(n, LARGE))) for n in range(2, 5))]
        assert reader.ask("account", "t", 4) == (4, 0, whole)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("left", [0, 1, 2, 3, 5])
def test_a_publisher_without_descriptors_sends_everything_and_takes_readers_once_it_has_some(
    workers: Workers, left: int
) -> None:
    publisher, endpoint = workers.publisher()
    reader, late = workers.start(), workers.start()
    reader.ask("subscribe", "t", endpoint, "t", LONG, "unix", "hash")
    publisher.ask("starve", left)
    publisher.ask("publish", "t", [LARGE] * 20)
    whole = [(number, digest(payload(number, LARGE))) for number in range(1, 21)]
    assert reader.ask("account", "t", 20) == (20, 0, whole)
    late.start("subscribe", "t", endpoint, "t", LONG, "auto", "hash")
    publisher.ask("feed")
    late.finish()
    publisher.ask("publish", "t", [LARGE], 21)
    assert late.ask("account", "t", 1)[:2] == (1, 0)


@pytest.mark.needs("memfd", "unix")
def test_what_a_reader_without_memory_cannot_map_is_lost_and_counted_and_the_rest_arrives(
    workers: Workers,
) -> None:
    reader = workers.start()
    with pair() as (publisher, _):
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "unix", "hash")
        reader.ask("limit_memory", HUGE // 2)
        publisher.publish("t", payload(1, HUGE))
        publisher.publish("t", payload(2, 10))
        assert reader.ask("account", "t", 2) == (1, 1, [(2, digest(payload(2, 10)))])


def test_a_publisher_without_memory_says_so_and_goes_on(workers: Workers) -> None:
    reader = workers.start()
    publisher, endpoint = workers.publisher()
    reader.ask("subscribe", "t", endpoint, "t", LONG, "unix", "hash")
    publisher.ask("limit_memory", 3 * HUGE // 2)  # for the content, and no copy of it
    with pytest.raises(AssertionError, match="MemoryError"):
        publisher.ask("publish", "t", [HUGE])
    assert publisher.ask("publish", "t", [10], 1) == 1
    assert reader.ask("account", "t", 1) == (1, 0, [(1, digest(payload(1, 10)))])


@pytest.mark.slow
def test_an_agent_that_finds_no_descriptors_gives_back_what_it_had() -> None:
    with Agent(protocol=Protocol(KEY)) as other:
        before = threading.active_count()
        hog = Hog()
        for left in range(14):
            hog.take(left)
            try:
                with contextlib.suppress(BindError):  # or there were enough
                    Agent(protocol=Protocol(KEY)).stop()
            finally:
                hog.free()
        assert other.join(0) is False
        assert threading.active_count() == before


@pytest.mark.parametrize("left", range(6))
def test_a_call_without_descriptors_is_an_error_of_this_package_and_works_once_there_are_some(
    left: int,
) -> None:
    with Agent(protocol=Protocol(KEY)) as one, Agent(protocol=Protocol(KEY)) as two:
        hog = Hog()
        hog.take(left)
        try:
            with contextlib.suppress(PeerLost, CallTimeout):  # or there were enough
                one.request(two.rep_endpoint, "echo", 0.5)
        finally:
            hog.free()
        assert one.request(two.rep_endpoint, "echo", TIMEOUT) == "echo"


# --- the fast lane ---------------------------------------------------------------------------------------


def knock(agent: Agent) -> socket.socket:
    """A connection that is not accepted yet, by the time that the kernel has no more descriptors."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(TIMEOUT)
    return made


@pytest.mark.needs("unix")
def test_a_fast_lane_that_cannot_accept_rests() -> None:
    with Agent(protocol=Protocol(KEY)) as agent, knock(agent) as client:
        with Hog():
            client.connect(f"\0pzc/{agent.agent_id}")
            wait_until(lambda: agent.counters["fast_lane_rests"])
            for _ in range(100):
                agent.loop.run(lambda: None)
        assert agent.counters["fast_lane_rests"] < 10


@pytest.mark.needs("unix")
def test_a_fast_lane_that_rested_says_so_once_and_accepts_when_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Agent(protocol=Protocol(KEY)) as agent, knock(agent) as client:
        with Hog():
            client.connect(f"\0pzc/{agent.agent_id}")
            wait_until(lambda: agent.counters["fast_lane_rests"] > 1)
        assert client.recv(1)
        told = [each for each in caplog.records if "takes no more connections" in each.message]
        assert [each.levelno for each in told] == [logging.WARNING]


# --- ZeroMQ ----------------------------------------------------------------------------------------------


def test_a_first_agent_without_descriptors_is_an_error_and_not_the_end_of_the_process() -> None:
    def child() -> None:
        hog = Hog()
        for left in range(0, 60, 4):
            hog.take(left)
            try:
                with contextlib.suppress(BindError):  # or there were enough
                    Agent(protocol=Protocol(KEY)).stop()
            finally:
                hog.free()
        with Agent(protocol=Protocol(KEY)) as one, Agent(protocol=Protocol(KEY)) as two:
            assert one.request(two.rep_endpoint, "echo", TIMEOUT) == "echo"

    assert run_in_fork(child) == 0


@pytest.mark.needs("unix")
def test_a_listener_without_threads_closes_the_connection_and_accepts_when_it_can() -> None:
    with Agent(protocol=Protocol(KEY)) as agent, Agent(protocol=Protocol(KEY)) as other:
        usual = threading.stack_size(1 << 46)  # more than there is
        try:
            with knock(agent) as client:
                client.connect(f"\0pzc/{agent.agent_id}")
                assert client.recv(1) == b""
        finally:
            threading.stack_size(usual)
        wait_until(lambda: agent.counters["fast_lane_rests"] == 1)
        wait_until(
            lambda: other.exchange(agent.rep_endpoint, "echo", TIMEOUT, transport="unix").content == "echo"
        )


def test_a_client_without_descriptors_is_told_so() -> None:
    with Agent(protocol=Protocol(KEY)) as agent, Agent(protocol=Protocol(KEY)) as client:
        client.peer(agent.rep_endpoint, TIMEOUT)
        with Hog(), pytest.raises(PeerLost, match="ulimit -n"):
            client.exchange(agent.rep_endpoint, "echo", TIMEOUT, transport="unix")


def test_large_contents_go_over_tcp_without_a_descriptor_more() -> None:
    def child() -> None:
        with Agent(protocol=Protocol(KEY)) as one, Agent(protocol=Protocol(KEY)) as two:
            assert one.exchange(two.rep_endpoint, "echo", TIMEOUT, transport="tcp").content == "echo"
            large = bytes(1 << 20)
            with Hog():
                assert one.exchange(two.rep_endpoint, large, TIMEOUT, transport="tcp").content == large

    assert run_in_fork(child) == 0
