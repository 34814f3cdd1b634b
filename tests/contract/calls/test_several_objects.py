"""Several objects of one server: each has a name of its own, its paths, and a lane of its own or a shared one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import ExitStack
from typing import Any

import pytest

import pzc
from pzc import Agent, ConfigError, MemberRefused, Protocol, Proxy, Server, discover, lock
from pzc.testing import Running, command

from tests.contract.rigs.naming import registry
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.supply import KEY, TIMEOUT, Supply


@pytest.fixture(params=["multicast", "registry"])
def rack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Supply]]:
    """Two objects of one server, found by one way only."""
    with ExitStack() as stack:
        if request.param == "registry":
            monkeypatch.setenv("PZC_DISCOVERY_IP", "off")
            monkeypatch.setenv("PZC_REGISTRY", stack.enter_context(registry()))
        objects = {"psu": Supply(), "dac": Supply()}
        stack.enter_context(Server(objects, name="rack", protocol=Protocol(KEY)))
        monkeypatch.setenv("PZC_KEY", KEY)
        yield objects
        for each in objects.values():
            each.opened.set()


def test_each_object_is_found_by_its_name(rack: dict[str, Supply]) -> None:
    with Proxy("psu") as psu, Proxy("dac") as dac:
        psu.voltage = 3.0
        dac.voltage = 4.0
        assert [each.voltage for each in rack.values()] == [3.0, 4.0]
        assert (psu.voltage, dac.voltage) == (3.0, 4.0)


def test_each_object_is_listed_with_its_class(rack: dict[str, Supply]) -> None:
    def told() -> dict[str, tuple[str, str]]:
        return {each.name: (each.kind, each.type) for each in discover(kind="agent", timeout=0.2)}

    service = ("service", "Supply")
    eventually(lambda: told() == {"/psu": service, "/dac": service, "/rack": ("service", "")})


def test_the_server_has_all_of_them_as_members(rack: dict[str, Supply]) -> None:
    with Proxy("rack") as both:
        assert {"psu", "dac"} <= set(dir(both))
        both.dac.ch1.voltage = 2.0
        assert rack["dac"].ch1.voltage == 2.0
        with pytest.raises(MemberRefused):
            both.psu = 3


def test_a_proxy_of_an_object_tells_its_name_and_path() -> None:
    with Server({"psu": Supply(), "dac": Supply()}, protocol=Protocol(KEY)), proxy_of("psu") as psu:
        assert repr(psu).startswith("<Proxy of psu: Supply at ")
        assert pzc.path(psu.ch1) == "psu.ch1"
        assert psu != proxy_of("dac")


def proxy_of(name: str) -> Any:
    return Proxy(name, protocol=Protocol(KEY), timeout=TIMEOUT)


def test_a_signal_of_one_object_is_that_of_no_other() -> None:
    objects = {"psu": Supply(), "dac": Supply()}
    seen: list[float] = []
    with Server(objects, protocol=Protocol(KEY)), proxy_of("psu") as psu:
        with psu.changed.subscribe() as changes:
            objects["dac"].changed.emit(1.0, 0.0)
            objects["psu"].changed.emit(2.0, 0.0)
            seen.append(changes.recv(TIMEOUT).content[0])
    assert seen == [2.0]


def test_commands_take_the_name_of_an_object(rack: dict[str, Supply]) -> None:
    rack["dac"].voltage = 7.0
    assert command("get", "dac.voltage").out == "7.0\n"


@pytest.mark.parametrize(("name", "member"), [("dac", "voltage"), ("rack", "psu")])
def test_info_tells_the_members_of_what_is_named(rack: dict[str, Supply], name: str, member: str) -> None:
    members = json.loads(command("info", name, "--json").out)["members"]
    assert [each for each in ("voltage", "psu") if each in members] == [member]


@pytest.mark.parametrize(("name", "cls"), [("dac", "Supply"), ("rack", "")])
def test_top_tells_that_each_name_serves(rack: dict[str, Supply], name: str, cls: str) -> None:
    told = json.loads(command("top", name, "--count", "1", "--json").out)
    assert (told["serves"], told["type"]) == (True, cls)


def test_a_signal_of_one_object_is_watched_by_its_name(rack: dict[str, Supply]) -> None:
    def change(running: Running) -> None:
        while not running.wait(0.01):
            rack["psu"].changed.emit(1.0, 0.0)
            rack["dac"].changed.emit(2.0, 0.0)

    outcome = command("watch", "dac/changed", "--count", "1", "--timeout", str(TIMEOUT), meanwhile=change)
    assert outcome.out.endswith(" (2.0, 0.0, None)\n")
    assert "did you mean changed" in command("watch", "dac/chnged", "--timeout", "1").err


@pytest.mark.parametrize("publisher", ["dac", "d*", "@@/dac"])
def test_a_signal_of_one_object_is_subscribed_to_by_its_name(rack: dict[str, Supply], publisher: str) -> None:
    with Agent() as agent, agent.subscribe(publisher, "changed") as changes:
        rack["psu"].changed.emit(1.0, 0.0)
        rack["dac"].changed.emit(2.0, 0.0)
        assert changes.recv(TIMEOUT).content[0] == 2.0
        if publisher == "dac":
            assert agent.unsubscribe(publisher, "changed") == 1


def test_a_pattern_that_several_names_of_a_server_fit_gives_each_notification_once(
    rack: dict[str, Supply],
) -> None:
    with Agent() as agent, agent.subscribe("*", "*") as everything:
        for value in (1.0, 2.0):
            rack["dac"].changed.emit(value, 0.0)
        assert [everything.recv(TIMEOUT).content[0] for _ in range(2)] == [1.0, 2.0]


def test_a_node_of_the_graph_gives_each_notification_of_one_of_several_objects_once(
    rack: dict[str, Supply],
) -> None:
    with Agent() as agent, ExitStack() as stack:
        with agent.subscribe("dac", "changed"):
            rack["dac"].changed.emit(0.0, 0.0)
            eventually(lambda: discover("**", kind="topic", timeout=0.1))
        changes = stack.enter_context(agent.subscribe_graph("rack/dac.changed"))
        for value in (1.0, 2.0):
            rack["dac"].changed.emit(value, 0.0)
        assert [changes.recv(TIMEOUT).content[0] for _ in range(2)] == [1.0, 2.0]


def test_the_server_that_was_started_last_has_a_name_that_two_servers_give_to_an_object() -> None:
    first, second = Supply(), Supply()
    with Server({"psu": first}, name="rack1", protocol=Protocol(KEY)):
        with proxy_of("psu") as before, Server({"psu": second}, name="rack2", protocol=Protocol(KEY)):
            with proxy_of("psu") as psu, proxy_of("rack1") as rack1, proxy_of("rack2") as rack2:
                psu.voltage = 2.0
                before.voltage = 1.0
                assert (first.voltage, second.voltage) == (1.0, 2.0)
                assert (rack1.psu.voltage, rack2.psu.voltage) == (1.0, 2.0)
        with proxy_of("psu") as psu:
            assert psu.voltage == 1.0


@pytest.mark.parametrize("lanes", ["one", "each"])
def test_objects_share_a_lane_or_have_one_each(lanes: str) -> None:
    objects = {"psu": Supply(), "dac": Supply()}
    with Server(objects, protocol=Protocol(KEY), lanes=lanes), proxy_of("psu") as psu, proxy_of("dac") as dac:
        held = psu.hold.future()
        assert objects["psu"].running.wait(TIMEOUT)
        noted = dac.note.future()
        if lanes == "each":
            assert noted.result(TIMEOUT) == 1
        objects["psu"].opened.set()
        held.result(TIMEOUT)
        assert noted.result(TIMEOUT) == 1


def test_objects_of_one_server_share_its_lock() -> None:
    with Server({"psu": Supply(), "dac": Supply()}, protocol=Protocol(KEY)):
        with proxy_of("psu") as psu, proxy_of("dac") as dac, lock(psu), pytest.raises(pzc.LockedBy):
            dac.note()


def test_the_names_go_with_the_server() -> None:
    with Server({"psu": Supply(), "dac": Supply()}, protocol=Protocol(KEY)):
        eventually(lambda: len(discover(protocol=Protocol(KEY), timeout=0.1)) == 2)
    eventually(lambda: not discover(protocol=Protocol(KEY), timeout=0.1))


@pytest.mark.parametrize("name", ["", "two words", "_private", 3])
def test_what_can_be_no_name_of_an_object_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="name"):
        Server({name: Supply()})


class Part:
    """Something of a driver that only its methods give."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def use(self) -> str:
        """Works with the driver."""
        return self._driver.note("use")


class Driver:
    """Is not made for threads, and notes what came in while something else was held there."""

    def __init__(self) -> None:
        self.running, self.opened, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.overlaps: list[str] = []

    def note(self, word: str) -> str:
        """Somebody came in."""
        if self.running.is_set() and not self.opened.is_set():
            self.overlaps.append(word)
        return word

    def hold(self) -> None:
        """Goes on until it is let go."""
        self.running.set()
        self.opened.wait(TIMEOUT)

    def write(self, data: bytes) -> str:
        """Takes much."""
        return self.note("write")

    def part(self) -> Part:
        """Stays here."""
        return Part(self)

    def numbers(self) -> Iterator[int]:
        """Some of many."""
        try:
            yield from range(1000)
        finally:
            self.note("close")
            self.closed.set()


@pytest.fixture
def drivers() -> Iterator[tuple[Driver, Any]]:
    """The second one of two drivers with a lane each, and a proxy of it."""
    driver, protocol = Driver(), Protocol(KEY)
    with Server({"first": Driver(), "second": driver}, protocol=protocol, lanes="each") as server:
        with Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT, transport="tcp") as both:
            yield driver, both.second
        driver.opened.set()


@pytest.mark.parametrize("how", ["a large call", "what a method gave"])
def test_a_call_of_an_object_with_a_lane_of_its_own_waits_for_the_one_that_runs(
    drivers: tuple[Driver, Any], how: str
) -> None:
    driver, second = drivers
    write, use = second.write, second.part().use
    held = second.hold.future()
    assert driver.running.wait(TIMEOUT)
    called = write.future(bytes(1 << 18)) if how == "a large call" else use.future()
    wait([called], 0.3)
    driver.opened.set()
    held.result(TIMEOUT)
    assert called.result(TIMEOUT) in ("write", "use")
    assert driver.overlaps == []


def test_a_stream_of_an_object_with_a_lane_of_its_own_is_closed_in_that(drivers: tuple[Driver, Any]) -> None:
    driver, second = drivers
    numbers = second.numbers()
    assert next(numbers) == 0
    held = second.hold.future()
    assert driver.running.wait(TIMEOUT)
    numbers.close()
    driver.closed.wait(0.3)
    driver.opened.set()
    held.result(TIMEOUT)
    assert driver.closed.wait(TIMEOUT)
    assert driver.overlaps == []
