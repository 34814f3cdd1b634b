"""Original Pizcos, as clients and as servers: lines S2 to S5."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import pzc.aio
from pzc import Protocol, Proxy, Refused, RemoteError, RemoteProtocolError, Server, Signal, close

from tests.contract.rigs import pizco

TIMEOUT = pizco.TIMEOUT
WILDCARDS = ("tcp://0.0.0.0:0", "tcp://*:0")


class Instrument:
    """Everything that an original's proxy can use."""

    def __init__(self) -> None:
        self.voltage_changed = Signal()
        self.calibration = {1: 2, "x": 3.5}
        self.gains = [1, 2, 3]
        self._voltage = 0.0

    @property
    def voltage(self) -> float:
        return self._voltage

    @voltage.setter
    def voltage(self, value: float) -> None:
        before, self._voltage = self._voltage, value
        self.voltage_changed.emit(value, before, None)

    def fail(self) -> None:
        raise ValueError("out of range")

    def leave(self) -> None:
        raise KeyError("gone")

    def measure(self) -> Future[float]:
        future: Future[float] = Future()
        future.set_result(self._voltage)
        return future


def addresses() -> list[str]:
    """Of this machine; that of an interface only where there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return ["127.0.0.1"]
        return ["127.0.0.1", probe.getsockname()[0]]


@pytest.fixture(params=WILDCARDS)
def everywhere(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(Instrument(), request.param, discovery=False, protocol=Protocol("")) as server:
        yield server


def reached(server: Server, host: str) -> pizco.Client:
    return pizco.Client(b"", f"tcp://{host}:{server.rep_endpoint.rpartition(':')[2]}")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_original_client_calls_a_server_on_a_wildcard_address(everywhere: Server, host: str) -> None:
    with reached(everywhere, host) as client:
        assert "calibration" in client.request("inspect", {})[0]
        client.request("setattr", {"name": "voltage", "value": 3.3})
        assert client.request("get", {"name": "voltage"}) == 3.3
        with pytest.raises(ValueError, match="out of range"):
            client.request("exec", {"name": "fail", "method": "__call__"})


def test_the_replies_of_a_server_on_a_wildcard_address_name_it_as_the_original_does(
    everywhere: Server,
) -> None:
    port = everywhere.rep_endpoint.rpartition(":")[2]
    with reached(everywhere, "127.0.0.1") as client:
        assert client.ask("info")["rep_endpoint"] == f"tcp://*:{port}"


def test_an_original_client_is_told_a_pub_endpoint_that_it_can_reach(everywhere: Server) -> None:
    for host in addresses():
        with reached(everywhere, host) as client:
            assert client.ask("info")["pub_endpoint"].startswith(f"tcp://{host}:")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_original_client_gets_the_signals_of_a_server_on_a_wildcard_address(
    everywhere: Server, host: str
) -> None:
    with reached(everywhere, host) as client:
        client.subscribe("voltage_changed")
        assert everywhere.wait_for_subscribers("voltage_changed", 1, TIMEOUT)
        client.request("setattr", {"name": "voltage", "value": 1.5})
        assert client.notified() == ("voltage_changed", (1.5, 0.0, None))


def test_original_clients_that_reached_a_server_by_different_names_each_get_its_signals_once(
    everywhere: Server,
) -> None:
    with reached(everywhere, "127.0.0.1") as one, reached(everywhere, "localhost") as two:
        for client in (one, two):
            client.subscribe("voltage_changed")
        assert everywhere.wait_for_subscribers("voltage_changed", 2, TIMEOUT)
        for voltage in (1.0, 2.0):
            one.request("setattr", {"name": "voltage", "value": voltage})
        for client in (one, two):
            assert [client.notified()[1][0] for _ in range(2)] == [1.0, 2.0]


def test_an_original_client_gets_the_result_of_a_future_from_a_wildcard_address(everywhere: Server) -> None:
    with reached(everywhere, "127.0.0.1") as client:
        client.subscribe("__future__")
        assert everywhere.wait_for_subscribers("__future__", 1, TIMEOUT)
        assert client.request("exec", {"name": "measure", "method": "__call__"}) == "future_register"
        topic, content = client.notified()
        assert (topic, content["result"], content["exception"]) == ("__future__", 0.0, None)


def test_filters_that_name_no_host_or_another_port_do_not_stop_a_server_on_a_wildcard_address(
    everywhere: Server,
) -> None:
    port = everywhere.rep_endpoint.rpartition(":")[2]
    with reached(everywhere, "127.0.0.1") as client:
        for sender in (f"tcp://\x1b[31m:{port}", "tcp://127.0.0.1:1", f"tcp://{'x' * 1500}:{port}", "x"):
            client.listen(f"PZC00+{sender}+voltage_changed".encode())
        client.subscribe("voltage_changed")
        assert everywhere.wait_for_subscribers("voltage_changed", 1, TIMEOUT)
        client.request("setattr", {"name": "voltage", "value": 1.5})
        assert client.notified() == ("voltage_changed", (1.5, 0.0, None))


def ours(server: pizco.Server) -> Proxy:
    return Proxy(server.endpoint, timeout=TIMEOUT, protocol=Protocol("", "pickle2"))


MAPPING: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("keys", lambda psu: list(psu.calibration.keys()), [1, "x"]),
    ("values", lambda psu: list(psu.calibration.values()), [2, 3.5]),
    ("items", lambda psu: list(psu.calibration.items()), [(1, 2), ("x", 3.5)]),
    ("get", lambda psu: psu.calibration.get("x"), 3.5),
    ("get of a key that is not there", lambda psu: psu.calibration.get("y", 7), 7),
    ("copy", lambda psu: psu.calibration.copy(), {1: 2, "x": 3.5}),
    ("len", lambda psu: len(psu.calibration), 2),
    ("in", lambda psu: ("x" in psu.calibration, "y" in psu.calibration), (True, False)),
    ("iteration", lambda psu: list(psu.calibration), [1, "x"]),
    ("an item", lambda psu: psu.calibration[1], 2),
    ("iteration of a list", lambda psu: list(psu.gains), [1, 2, 3]),
    ("in a list", lambda psu: (3 in psu.gains, len(psu.gains)), (True, 3)),
]


@pytest.mark.parametrize(
    ("use", "expected"), [case[1:] for case in MAPPING], ids=[case[0] for case in MAPPING]
)
def test_a_mapping_of_an_original_server_is_used_in_its_own_words(
    use: Callable[[Any], Any], expected: object
) -> None:
    with pizco.Server(Instrument()) as server:
        psu = ours(server)
        try:
            assert use(psu) == expected
            assert psu.voltage == 0.0
        finally:
            close(psu)
        assert server.alive
        assert server.foreign() == []


def test_the_awaitable_face_uses_a_mapping_of_an_original_server_in_its_own_words() -> None:
    async def use(endpoint: str) -> tuple[Any, ...]:
        async with pzc.aio.Proxy(endpoint, timeout=TIMEOUT, protocol=Protocol("", "pickle2")) as psu:
            return await psu.calibration.keys(), await psu.gains.length(), await psu.calibration.get("y", 7)

    with pizco.Server(Instrument()) as server:
        assert asyncio.run(use(server.endpoint)) == ([1, "x"], 3, 7)
        assert server.alive
        assert server.foreign() == []


def test_an_item_of_an_original_servers_mapping_can_be_set() -> None:
    with pizco.Server(instrument := Instrument()) as server:
        psu = ours(server)
        psu.calibration["y"] = 1.25
        close(psu)
        assert instrument.calibration["y"] == 1.25
        assert server.foreign() == []


@pytest.mark.parametrize(
    "use",
    [lambda psu: psu.calibration.__delitem__(1), lambda psu: psu.voltage_changed.emit(1.0)],
    ids=["deletion", "emission"],
)
def test_what_an_original_proxy_cannot_say_is_refused_before_it_is_sent(use: Callable[[Any], Any]) -> None:
    with pizco.Server(Instrument()) as server:
        psu = ours(server)
        with pytest.raises(Refused, match="an original Pizco cannot"):
            use(psu)
        close(psu)
        assert server.foreign() == []


def test_an_original_client_uses_a_mapping_of_our_server() -> None:
    with Server(instrument := Instrument(), discovery=False, protocol=Protocol("")) as server:
        with pizco.Client(b"", server.rep_endpoint) as client:
            item = {"name": "calibration", "method": "__getitem__"}
            assert "calibration" in client.request("inspect", {})[0]
            assert client.request("get", {"name": "calibration"}) == "remote"
            assert client.request("exec", {**item, "args": ("x",)}) == 3.5
            client.request("exec", {**item, "method": "__setitem__", "args": ("y", 4)})
            with pytest.raises(KeyError, match="nothing"):
                client.request("exec", {**item, "args": ("nothing",)})
            whole = client.request("get", {"name": "calibration", "force_as_object": True})
    assert whole == instrument.calibration == {1: 2, "x": 3.5, "y": 4}


def test_a_bare_exception_of_pizco_01_is_raised_as_itself() -> None:
    with pizco.Server(Instrument(), bare=True) as server:
        psu = ours(server)
        with pytest.raises(ValueError, match="out of range"):
            psu.fail()
        with pytest.raises(KeyError, match="gone"):
            psu.leave.future().result(TIMEOUT)
        with pytest.raises(AttributeError, match="no attribute 'nope'"):
            psu.nope
        close(psu)


class Exits:
    def leave(self) -> None:
        raise Leaving(3)


class Leaving(Exception):
    """Read as what ends a program."""

    def __reduce__(self) -> tuple[type[SystemExit], tuple[int]]:
        return SystemExit, (3,)


def test_a_bare_exception_that_would_end_the_program_is_told_as_a_remote_error() -> None:
    with pizco.Server(Exits(), bare=True) as server:
        psu = ours(server)
        with pytest.raises((RemoteError, RemoteProtocolError)):
            psu.leave()
        close(psu)


def test_a_bare_exception_that_is_none_runs_no_code(tmp_path: Any) -> None:
    made = tmp_path / "made"

    class Bomb(Exception):
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(made), "w")

    class Armed:
        def fail(self) -> None:
            raise Bomb

    with pizco.Server(Armed(), bare=True) as server:
        psu = ours(server)
        with pytest.raises(Exception, match=r"open|_io"):
            psu.fail()
        close(psu)
    assert not made.exists()


@pytest.mark.parametrize(
    "told",
    [
        "ab",
        7,
        ("voltage",),
        ("one", "two"),
        ({1, 2}, set()),
        ({"a": 1}, []),
        ([["nested"]], []),
        ((), (), ()),
    ],
    ids=repr,
)
def test_an_answer_to_inspect_that_is_none_is_refused_by_name(told: object) -> None:
    with pizco.Server(Instrument(), inspected=told) as server:
        with pytest.raises(RemoteProtocolError, match=f"{server.endpoint} .*inspect"):
            ours(server)


def test_only_names_of_members_are_taken_from_an_answer_to_inspect() -> None:
    told = ({"calibration", "\x1b[31m", "_private", "", "two words"}, set[str]())
    with pizco.Server(Instrument(), inspected=told) as server:
        psu = ours(server)
        assert dir(psu) == ["calibration"]
        assert psu.calibration[1] == 2
        close(psu)


def test_a_list_answered_to_inspect_is_as_good_as_a_set() -> None:
    with pizco.Server(Instrument(), inspected=[["calibration"], []]) as server:
        psu = ours(server)
        assert psu.calibration[1] == 2
        close(psu)
