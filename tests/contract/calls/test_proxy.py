from __future__ import annotations

import copy
import gc
import pickle
import socket
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pzc import (
    Agent,
    AgentClosed,
    ConfigError,
    Member,
    MemberRefused,
    PeerLost,
    Protocol,
    Proxy,
    RemoteProtocolError,
    SerializeError,
    Server,
    SignatureError,
    UnknownName,
    close,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, Instrument, proxied, run_in_fork, served, until
from tests.contract.rigs.signalling import Collected, Source


@pytest.fixture(params=["", KEY], ids=["unsigned", "signed"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Proxy]]:
    with served(Instrument(), key=request.param) as pair:
        yield pair


def test_attributes_properties_items_and_methods_work_as_if_local(both: tuple[Server, Proxy]) -> None:
    _, psu = both
    psu.voltage = 3.3
    psu.label = "psu2"
    psu.calibration[2] = 4
    del psu.calibration[1]
    assert (psu.voltage, psu.label, psu.calibration[2], psu.ramp(2), psu.ramp(2, b=5)) == (
        3.3,
        "psu2",
        4,
        4,
        10,
    )
    assert (len(psu.calibration), 2 in psu.calibration, list(psu.calibration)) == (1, True, [2])
    assert (psu.calibration.keys(), psu.calibration.values(), psu.calibration.items()) == ([2], [4], [(2, 4)])
    assert (psu.calibration.get(9), psu.calibration.get(9, 1), psu.calibration.copy()) == (None, 1, {2: 4})


@pytest.mark.parametrize("serializer", ["pickle", "pickle2", "json", "msgpack"])
def test_calls_work_with_every_serializer(serializer: str) -> None:
    protocol = Protocol(KEY, serializer)
    with (
        Server(Instrument(), protocol=Protocol(KEY)) as server,
        proxied(server.rep_endpoint, protocol=protocol) as psu,
    ):
        psu.voltage = 3.3
        assert (psu.voltage, psu.ramp(2, b=5), psu.slow().result(TIMEOUT)) == (3.3, 10, 42)
        with pytest.raises(ValueError, match="out of range"):
            psu.fail()


def test_errors_of_items_come_back(both: tuple[Server, Proxy]) -> None:
    with pytest.raises(KeyError, match="9"):
        both[1].calibration[9]


def test_a_member_that_is_not_there_is_an_attribute_error(both: tuple[Server, Proxy]) -> None:
    _, psu = both
    with pytest.raises(AttributeError, match="nope"):
        psu.nope
    assert not hasattr(psu, "nope")


@pytest.mark.parametrize("name", ["_voltage", "__wrapped__", "_repr_png_"])
def test_private_names_are_refused_without_asking_the_server(both: tuple[Server, Proxy], name: str) -> None:
    _, psu = both
    with pytest.raises(MemberRefused):
        getattr(psu, name)
    with pytest.raises(MemberRefused):
        setattr(psu, name, 1)


def test_dir_repr_and_help_tell_what_is_there(both: tuple[Server, Proxy]) -> None:
    server, psu = both
    assert dir(psu) == ["calibration", "fail", "label", "ramp", "slow", "voltage", "voltage_changed"]
    assert repr(psu) == f"<Proxy of Instrument at {server.rep_endpoint}>"
    assert repr(psu.ramp).startswith("<remote method ramp(a: int, b: int = 2) -> int of ")
    assert (psu.ramp.__doc__, psu.ramp.__name__) == ("Multiply.", "ramp")


def test_a_large_array_goes_there_and_back() -> None:
    class Echo:
        def echo(self, value: Any) -> Any:
            return value

    with served(Echo(), key=KEY) as (_, proxy):
        image = np.arange(1 << 20, dtype=np.uint16).reshape(1024, 1024)
        assert np.array_equal(proxy.echo(image), image)


def test_an_argument_that_cannot_be_sent_is_an_error_here(both: tuple[Server, Proxy]) -> None:
    _, psu = both
    for attempt in (lambda: psu.ramp(threading.Lock()), lambda: setattr(psu, "label", threading.Lock())):
        with pytest.raises(SerializeError):
            attempt()
    assert psu.label == "psu"


def test_one_proxy_serves_eight_threads_and_mixes_up_nothing() -> None:
    class Echo:
        def echo(self, thread: int, number: int) -> tuple[int, int]:
            return thread, number

    with served(Echo(), key=KEY) as (_, proxy), ThreadPoolExecutor(8) as pool:

        def run(thread: int) -> list[tuple[int, int]]:
            return [proxy.echo(thread, number) for number in range(200)]

        found = list(pool.map(run, range(8)))
    assert found == [[(thread, number) for number in range(200)] for thread in range(8)]


def test_a_slot_gets_as_many_arguments_as_it_takes_in_connection_order() -> None:
    source, seen = Source(), []
    with served(source) as (_, proxy):
        last = Collected()
        proxy.changed.connect(lambda *all_of_them: seen.append(all_of_them))
        proxy.changed.connect(lambda value, old: seen.append((value, old)))
        proxy.changed.connect(lambda: seen.append(()))
        proxy.changed.connect(last)
        proxy.changed.emit(1, 2, 3)
        last.wait_for(1)
    assert seen == [(1, 2, 3), (1, 2), ()]


def test_connecting_what_cannot_be_called_is_an_error_and_subscribes_to_nothing() -> None:
    source = Source()
    with served(source) as (server, proxy):
        with pytest.raises(TypeError, match="must be callable"):
            proxy.changed.connect(7)
        assert not server.wait_for_subscribers("changed", 1, 0.05)


async def _awaited_by_nobody() -> None:
    pass


def test_connecting_to_what_is_no_signal_is_an_error() -> None:
    with served(Instrument()) as (_, proxy):
        with pytest.raises(TypeError, match=r"ramp of .* is a method, no signal"):
            proxy.ramp.connect(print)


def test_connecting_what_nobody_would_await_is_an_error() -> None:
    source = Source()
    with served(source) as (server, proxy):
        with pytest.raises(TypeError, match="nobody would await"):
            proxy.changed.connect(_awaited_by_nobody)
        with pytest.raises(TypeError, match="nobody would await"):
            source.changed.connect(_awaited_by_nobody)
        assert not server.wait_for_subscribers("changed", 1, 0.05)


def test_disconnecting_what_was_never_connected_is_an_error() -> None:
    with served(Source()) as (_, proxy), pytest.raises(ValueError, match="not connected"):
        proxy.changed.disconnect(print)


def test_nobody_there_is_peer_lost_and_leaves_nothing() -> None:
    with Server(Instrument()) as server:
        endpoint = server.rep_endpoint
    with pytest.raises(PeerLost):
        Proxy(endpoint, timeout=0.1)


def test_an_unknown_name_is_unknown() -> None:
    with pytest.raises(UnknownName, match="psu"):
        Proxy("psu")


@pytest.mark.parametrize("target", ["tcp://127.0.0.1", "tcp://127.0.0.1:99999", ""])
def test_a_target_that_cannot_be_used_is_refused(target: str) -> None:
    with pytest.raises((ConfigError, UnknownName)):
        Proxy(target)


def test_a_wrong_key_is_told_at_once() -> None:
    with Server(Instrument(), protocol=Protocol("a long secret of one")) as server:
        with pytest.raises(SignatureError, match=f"signature refused by {server.rep_endpoint}: keys differ"):
            Proxy(server.rep_endpoint, protocol=Protocol("a long secret of two"), timeout=600.0)


def test_a_proxy_is_sent_as_what_it_stands_for() -> None:
    with served(Instrument()) as (_, psu):
        with copy.copy(psu) as twin, pickle.loads(pickle.dumps(psu)) as other:
            assert (twin.ramp(2), other.ramp(3)) == (4, 6)


def test_a_closed_proxy_says_so_and_closing_again_is_harmless(both: tuple[Server, Proxy]) -> None:
    _, psu = both
    ramp = psu.ramp
    close(psu)
    close(psu)
    with pytest.raises(AgentClosed, match="was closed"):
        ramp(1)


def test_a_proxy_lives_as_long_as_its_method_and_what_that_returned() -> None:
    with Server(Instrument()) as server:
        assert Proxy(server.rep_endpoint).ramp(2) == 4
        ramp = Proxy(server.rep_endpoint).ramp
        gc.collect()
        assert isinstance(ramp, Member)
        assert ramp(2) == 4
        assert Proxy(server.rep_endpoint).slow().result(TIMEOUT) == 42
        assert Proxy(server.rep_endpoint).ramp.future(3).result(TIMEOUT) == 6
        del ramp
        gc.collect()


@pytest.mark.needs("fork")
def test_a_proxy_used_after_fork_says_so_and_a_new_one_works_there(both: tuple[Server, Proxy]) -> None:
    server, psu = both
    psu.voltage_changed.connect(print)

    def child() -> None:
        with pytest.raises(AgentClosed, match="belongs to the parent"):
            psu.ramp(1)
        with pytest.raises(AgentClosed, match="belongs to the parent"):
            psu.voltage_changed.connect(repr)
        close(psu)
        with proxied(server.rep_endpoint, protocol=Protocol(KEY if server.protocol.signed else "")) as own:
            assert own.ramp(2) == 4

    assert run_in_fork(child) == 0
    assert psu.ramp(3) == 6


@pytest.mark.parametrize("transport", ["ipc", "inproc"])
def test_signals_and_calls_work_over_other_transports(tmp_path: Path, transport: str) -> None:
    place = f"ipc://{tmp_path}/" if transport == "ipc" else "inproc://"
    with served(Source(), rep_endpoint=f"{place}rep", pub_endpoint=f"{place}pub") as (_, proxy):
        seen = Collected()
        proxy.changed.connect(seen)
        proxy.emit(0, 3)
        assert seen.wait_for(3) == [0, 1, 2]


def test_a_server_may_use_a_proxy_of_another_server() -> None:
    class Relay:
        def __init__(self, endpoint: str) -> None:
            self._proxy = Proxy(endpoint)

        def ramp(self, value: int) -> int:
            return self._proxy.ramp(value)

        def release(self) -> None:
            close(self._proxy)

    with Server(Instrument()) as server, served(Relay(server.rep_endpoint)) as (_, relay):
        assert relay.ramp(2) == 4
        relay.release()


def test_an_agent_that_serves_nothing_says_so() -> None:
    with Agent() as plain, pytest.raises(RemoteProtocolError, match="serves no object"):
        Proxy(plain.rep_endpoint, timeout=TIMEOUT)


def is_let_go(server: Server) -> bool:
    """Whether nobody has a connection to it."""
    return server.statistics()["calls"]["connections"] == 0


@pytest.mark.skipif(
    not hasattr(socket, "SO_PEERCRED"), reason="a connection is counted over a Unix socket only"
)
def test_a_proxy_whose_methods_were_used_ends_with_its_last_reference(without_collector: None) -> None:
    with Server(Instrument()) as server:
        psu = Proxy(server.rep_endpoint, transport="unix")
        assert psu.ramp(2) == 4
        until(lambda: not is_let_go(server))
        gone = weakref.ref(psu)
        del psu
        assert gone() is None
        until(lambda: is_let_go(server))


def test_a_dropped_proxy_in_a_cycle_is_collected_and_lets_its_signals_go() -> None:
    source = Source()
    with Server(source) as server:
        proxy = Proxy(server.rep_endpoint)
        proxy.changed.connect(Collected())
        assert source.changed.connected.wait(TIMEOUT)
        gone = weakref.ref(proxy)
        knot: list[Any] = [proxy]
        knot.append(knot)
        del proxy, knot
        gc.collect()
        assert gone() is None
        assert source.changed.empty.wait(TIMEOUT)
        until(lambda: is_let_go(server))


def test_slots_that_end_with_a_proxy_which_nobody_holds_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with Server(Source()) as server:
        Proxy(server.rep_endpoint).changed.connect(Collected())
        gc.collect()
        until(lambda: any("end its slots of changed" in record.message for record in caplog.records))


def test_a_proxy_that_was_closed_tells_nothing_of_its_slots(caplog: pytest.LogCaptureFixture) -> None:
    with Server(Source()) as server:
        proxy = Proxy(server.rep_endpoint)
        proxy.changed.connect(Collected())
        close(proxy)
        del proxy
        gc.collect()
        until(lambda: is_let_go(server))
    assert not [record for record in caplog.records if "slots" in record.message]
