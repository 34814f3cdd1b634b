"""What agents do without descriptors: nothing crashes, waits for ever or is lost uncounted, and it passes."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from pzc import Agent, PeerLost, Protocol, Refused
from pzc.agents.notifications.links import inlets, outlet, pipe
from pzc.agents.server import unix_listener
from pzc.transport import descriptors
from pzc.transport.greeting import connect
from pzc.transport.parts import WITHOUT_COPY

from tests.contract.rigs.calling import run_in_fork
from tests.contract.rigs.pairs import LONG, Publishing, pair, read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Workers
from tests.contract.rigs.scarcity import Hog


class Scarce:
    """In place of the kernel's: gives no descriptor for an epoll while ``there`` is False."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = False
        self._real = pipe.select.epoll
        monkeypatch.setattr(pipe.select, "epoll", self)

    def __call__(self) -> Any:
        if self.there:
            return self._real()
        raise OSError(errno.EMFILE, "Too many open files")


# --- links -----------------------------------------------------------------------------------------------


def test_a_unix_link_that_cannot_be_had_is_refused_and_leaves_nothing_at_its_publisher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Scarce(monkeypatch)
    with pair() as (publisher, reader):
        for _ in range(3):
            with pytest.raises(Refused, match="ulimit -n"):
                reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        assert publisher.statistics()["links"]["links"] == []
        publisher.publish("t", 1)


def test_a_link_that_may_take_any_way_goes_over_tcp_then(monkeypatch: pytest.MonkeyPatch) -> None:
    scarce = Scarce(monkeypatch)
    with pair() as (publisher, reader):
        monkeypatch.setattr("pzc.agents.notifications.links.local.find", lambda *_: None)
        first = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        assert first.transport == "tcp"
        publisher.publish("t", 1)
        assert read(first, 1) == [1]
        first.close()
        scarce.there = True
        assert reader.subscribe(publisher.rep_endpoint, "t", policy=LONG).transport == "unix"


def test_a_broken_link_that_cannot_be_had_over_unix_any_more_goes_on_over_tcp_without_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        Scarce(monkeypatch)
        publishing = Publishing(publisher, "t", range(300))
        found = read(subscription, 100)
        for each in list(inlets._table.inlets):
            stream: Any = getattr(each._way, "_stream", None)
            stream._socket.shutdown(socket.SHUT_RDWR)
        found += read(subscription, 200)
        publishing.finish()
        assert found == list(range(300))
        assert (subscription.transport, subscription.dropped, subscription.gaps) == ("tcp", 0, [])


def test_a_link_that_cannot_be_looked_after_does_not_keep_the_others_from_it(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat, poor = outlet.Outlet.beat, list[outlet.Outlet]()

    def sometimes(self: outlet.Outlet, now: float) -> None:
        if self in poor:
            raise MemoryError
        beat(self, now)

    monkeypatch.setattr(outlet.Outlet, "beat", sometimes)
    reader = workers.start()
    with pair() as (publisher, other):
        other.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        poor.extend(publisher._publishing.outlets.links.values())
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", LONG, "tcp")
        assert len(publisher._publishing.outlets.links) == 2
        reader.freeze()
        wait_until(lambda: list(publisher._publishing.outlets.links.values()) == poor)


# --- the fast lane ---------------------------------------------------------------------------------------


def knock(agent: Agent) -> socket.socket:
    """A connection that is not accepted yet, by the time that the kernel has no more descriptors."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(TIMEOUT)
    return made


def test_a_fast_lane_without_threads_closes_the_connection_and_accepts_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
    timings: Callable[..., None],
) -> None:
    def none_left(self: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    timings(scarcity_pause=0.01)
    with Agent(protocol=Protocol(KEY)) as agent:
        with monkeypatch.context() as patch, knock(agent) as client:
            patch.setattr(unix_listener.UnixConnection, "start", none_left)
            client.connect(f"\0pzc/{agent.agent_id}")
            assert client.recv(1) == b""
        wait_until(lambda: agent.counters["fast_lane_rests"] == 1)
        stream, _ = connect(agent.agent_id, agent.rep_endpoint, time.monotonic() + TIMEOUT)
        stream.close()


def test_a_client_without_descriptors_is_told_so() -> None:
    with Agent(protocol=Protocol(KEY)) as agent, Hog():
        with pytest.raises(PeerLost, match="ulimit -n"):
            connect(agent.agent_id, agent.rep_endpoint)


def test_large_contents_go_over_tcp_without_a_descriptor_more() -> None:
    def child() -> None:
        with Agent(protocol=Protocol(KEY)) as one, Agent(protocol=Protocol(KEY)) as two:
            assert one.exchange(two.rep_endpoint, "echo", TIMEOUT, transport="tcp").content == "echo"
            large = bytes(4 * WITHOUT_COPY)
            with Hog():
                assert one.exchange(two.rep_endpoint, large, TIMEOUT, transport="tcp").content == large

    assert run_in_fork(child) == 0


def test_what_needs_a_descriptor_that_the_kernel_could_not_give_says_so() -> None:
    with pytest.raises(descriptors.Starved, match="ulimit -n"):
        descriptors.Descriptors().keep((), int(socket.MSG_CTRUNC))
