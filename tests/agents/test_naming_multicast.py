from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pzc.agents.naming.multicast import HEARTBEATS_WAIT, SOON, WAITING, MulticastSockets, patience
from pzc.discovery.interfaces import Interface, chosen
from pzc.discovery.multicast import Datagram
from pzc.discovery.outbox import Outgoing
from pzc.discovery.site import Site
from pzc.protocol.errors import ConfigError
from pzc.transport import loops
from pzc.transport.loop import Loop

from tests.conftest import free_port
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT


@dataclass
class Bench:
    multicast: MulticastSockets
    owner: Loop
    site: Site
    data: list[bytes]
    come: threading.Event
    found: list[Callable[[str | None], list[Interface]]]


@pytest.fixture
def bench() -> Iterator[Bench]:
    owner = loops.acquire()
    data: list[bytes] = []
    come = threading.Event()

    def hear(datagram: Datagram) -> None:
        data.append(datagram.data)

    found: list[Callable[[str | None], list[Interface]]] = [chosen]
    site = Site(port=free_port(), address="127.0.0.1")
    multicast = MulticastSockets(
        owner, site, bytes(16), hear, lambda _: [], lambda _: come.set(), lambda at: found[0](at)
    )
    yield Bench(multicast, owner, site, data, come, found)
    owner.run(multicast.close)
    loops.release(owner)


def test_what_is_said_on_loopback_is_heard_there(bench: Bench) -> None:
    reaches = bench.owner.run(bench.multicast.look)
    assert reaches is not None
    assert [reach.view for reach in reaches] == [0]
    bench.owner.run(lambda: bench.multicast.say([Outgoing(0, b"hello"), Outgoing(77, b"no such view")]))
    assert bench.come.wait(TIMEOUT)
    assert bench.data == [b"hello"]


def test_interfaces_that_stay_as_they_are_are_left_alone(bench: Bench) -> None:
    bench.owner.run(bench.multicast.look)
    assert bench.owner.run(bench.multicast.look) is None


def test_sockets_are_made_anew_when_the_interfaces_have_changed(bench: Bench) -> None:
    bench.owner.run(bench.multicast.look)
    others = [*chosen("127.0.0.1"), Interface("gone0", 99_999, "203.0.113.7", False)]
    bench.found[:] = [lambda _: others]
    reaches = bench.owner.run(bench.multicast.look)
    assert reaches is not None
    assert [each["name"] for each in bench.multicast.statistics()["interfaces"]] == ["lo"]


def test_an_interface_that_goes_away_is_told_and_found_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def none(_: str | None) -> list[Interface]:
        raise ConfigError("no interface has it")

    bench.found[:] = [none]
    bench.owner.run(bench.multicast.look)
    bench.owner.run(bench.multicast.look)
    assert bench.multicast.problem == "no interface has it"
    assert caplog.text.count("cannot be found by name") == 1
    bench.found[:] = [chosen]
    assert bench.owner.run(bench.multicast.look) is not None
    assert bench.multicast.problem == ""


def test_an_interface_that_comes_back_as_it_was_is_used_again(bench: Bench) -> None:
    def none(_: str | None) -> list[Interface]:
        raise ConfigError("no interface has it")

    bench.owner.run(bench.multicast.look)
    bench.found[:] = [none]
    bench.owner.run(bench.multicast.look)
    bench.found[:] = [chosen]
    assert bench.owner.run(bench.multicast.look) is not None
    assert bench.multicast.problem == ""


def test_without_a_group_other_interfaces_are_told_all_the_same() -> None:
    owner = loops.acquire()
    found = [chosen("127.0.0.1")]
    try:
        multicast = MulticastSockets(
            owner, Site(group=""), bytes(16), lambda _: None, lambda _: [], lambda _: None, lambda _: found[0]
        )
        assert owner.run(multicast.look) is None
        found[0] = [*found[0], Interface("eth0", 2, "203.0.113.7", False)]
        assert owner.run(multicast.look) == []
        assert multicast.everywhere.addresses == ("203.0.113.7",)
        assert owner.run(multicast.look) is None
    finally:
        loops.release(owner)


def test_without_a_group_nothing_is_opened() -> None:
    owner = loops.acquire()
    try:
        multicast = MulticastSockets(
            owner, Site(group=""), bytes(16), lambda _: None, lambda _: [], lambda _: None
        )
        assert owner.run(multicast.look) is None
        assert (multicast.problem, multicast.statistics()["interfaces"]) == ("", [])
    finally:
        loops.release(owner)


def test_heartbeats_wait_for_less_when_more_come_than_the_system_keeps() -> None:
    rates = (0.0, 50.0, 256.0, 300.0, 1000.0, 5000.0, 50_000.0)
    times = [patience(rate) for rate in rates]
    assert times[:3] == [HEARTBEATS_WAIT] * 3
    assert times == sorted(times, reverse=True)
    assert all(rate * seconds <= WAITING for rate, seconds in zip(rates[:5], times, strict=False))
    assert times[-2:] == [SOON] * 2


def test_a_relay_whose_name_was_not_known_is_told_once_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, known = socket.getaddrinfo, threading.Event()

    def look_up(host: str, *more: Any) -> Any:
        if not known.is_set():
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return found("127.0.0.1", *more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as relay:
        relay.bind(("127.0.0.1", 0))
        site = replace(bench.site, relays=(("far.example", relay.getsockname()[1]),))
        multicast = MulticastSockets(
            bench.owner, site, bytes(16), lambda _: None, lambda _: [], lambda _: None
        )
        known.set()

        def told() -> bool:
            bench.owner.run(multicast.look)
            bench.owner.run(lambda: multicast.say([Outgoing(0, b"hello")]))
            return bool(select.select([relay], [], [], 0.05)[0])

        try:
            wait_until(told)
            assert relay.recv(100) == b"hello"
        finally:
            bench.owner.run(multicast.close)


def test_the_name_of_a_relay_is_looked_up_where_nobody_waits_for_it_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, answered, made = socket.getaddrinfo, threading.Event(), threading.Event()

    def look_up(host: str, *more: Any) -> Any:
        if socket.AI_NUMERICHOST in more:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answered.wait(2 * TIMEOUT)
        return found("127.0.0.1", *more)

    def make() -> None:
        site = replace(bench.site, relays=(("slow.example", 1),))
        MulticastSockets(bench.owner, site, bytes(16), lambda _: None, lambda _: [], lambda _: None)
        made.set()

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    making = threading.Thread(target=make)
    making.start()
    try:
        assert made.wait(TIMEOUT)
    finally:
        answered.set()
        making.join()
