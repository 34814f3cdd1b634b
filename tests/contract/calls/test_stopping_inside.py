"""What is urgent, or follows a cancelled call, is so wherever in a served object it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from pzc import (
    Agent,
    ConfigError,
    MemberRefused,
    Protocol,
    Proxy,
    Server,
    batch,
    cancelled,
    lock,
    on_cancel,
    running,
    urgent,
)

from tests.contract.rigs.calling import until
from tests.contract.rigs.drivers import BOTH_CARRIERS
from tests.contract.rigs.supply import KEY, TIMEOUT


class Output:
    """Ramps until it is called off."""

    def __init__(self) -> None:
        self.running, self.switched_off = threading.Event(), threading.Event()

    @on_cancel("off")
    def ramp(self) -> None:
        self.running.set()
        while not cancelled() and not self.switched_off.wait(0.01):
            pass

    def off(self) -> None:
        self.switched_off.set()

    @urgent
    def stop(self) -> str:
        return "stopped"


class RampedDown(Output):
    """Goes down step by step, as long as nobody stops that."""

    def off(self) -> None:
        for _ in range(3):
            if cancelled():
                return
        self.switched_off.set()


class Awaited(Output):
    """The same in coroutines."""

    @on_cancel("off")
    async def ramp(self) -> None:  # type: ignore[override]
        self.running.set()
        await asyncio.sleep(2 * TIMEOUT)

    async def off(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        self.switched_off.set()


class Misspelt(Output):
    """Is to be switched off by a method that it does not have."""

    @on_cancel("of")
    def ramp(self) -> None:
        self.running.set()


class Psu:
    """Outputs by every way, and something that takes long."""

    def __init__(self) -> None:
        self.first = Output()
        self.outputs, self.by_name = [self.first], {"first": self.first}
        self.running, self.opened = threading.Event(), threading.Event()
        self.looked_at = threading.Event()

    @property
    def chosen(self) -> Output:
        """The one in use."""
        self.looked_at.set()
        return self.first

    def output(self) -> Output:
        """The first one."""
        return self.first

    def output_later(self) -> Output:
        """The same, once it is let go."""
        self.hold()
        return self.first

    def outputs_later(self) -> Iterator[Output]:
        """All of them, likewise."""
        self.hold()
        return (each for each in self.outputs)

    def hold(self) -> None:
        """Until it is let go."""
        self.running.set()
        self.opened.wait(TIMEOUT)


@pytest.fixture
def psu() -> Iterator[Psu]:
    made = Psu()
    yield made
    made.opened.set()


@pytest.fixture
def server(psu: Psu) -> Iterator[Server]:
    with Server({"psu": psu}, name="rack", protocol=Protocol(KEY)) as made:
        yield made
        psu.opened.set()


@pytest.fixture
def other(server: Server, psu: Psu) -> Iterator[Any]:
    """Somebody else's proxy of it."""
    with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as made:
        yield made
        psu.opened.set()


def held(psu: Psu, other: Any) -> None:
    other.psu.hold.future()
    assert psu.running.wait(TIMEOUT)


WAYS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda psu: psu.first,
    "item of a list": lambda psu: psu.outputs[0],
    "item of a dict": lambda psu: psu.by_name["first"],
}


@BOTH_CARRIERS
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_has_just_come_stops_an_output_beside_what_runs(
    server: Server, psu: Psu, other: Any, transport: str, way: str
) -> None:
    held(psu, other)
    with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport=transport) as fresh:
        assert WAYS[way](fresh.psu).stop() == "stopped"
    assert not psu.opened.is_set()


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_has_just_come_stops_an_output_whoever_holds_the_lock(
    server: Server, other: Any, way: str
) -> None:
    with lock(other), Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as fresh:
        assert WAYS[way](fresh.psu).stop() == "stopped"


@BOTH_CARRIERS
def test_one_of_several_objects_is_found_by_its_name_while_something_runs(
    server: Server, psu: Psu, other: Any, transport: str
) -> None:
    held(psu, other)
    with Proxy("psu", protocol=Protocol(KEY), timeout=TIMEOUT, transport=transport) as fresh:
        assert fresh.first.stop() == "stopped"
    assert not psu.opened.is_set()


@BOTH_CARRIERS
def test_what_a_method_returned_is_stopped_beside_what_runs(
    server: Server, psu: Psu, other: Any, transport: str
) -> None:
    with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport=transport) as mine:
        output = mine.psu.output()
        held(psu, other)
        assert output.stop() == "stopped"
        assert not psu.opened.is_set()
        psu.opened.set()


def test_what_is_behind_a_property_is_stopped_beside_what_runs_once_it_was_looked_at(
    server: Server, psu: Psu, other: Any
) -> None:
    with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as mine:
        chosen = mine.psu.chosen
        assert "stop" in dir(chosen)
        held(psu, other)
        assert chosen.stop() == "stopped"
        assert not psu.opened.is_set()
        psu.opened.set()


def test_an_urgent_call_in_a_batch_passes_the_lock(server: Server, other: Any) -> None:
    with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as mine, lock(other):
        with batch(mine) as calls:
            calls.psu.first.stop()
        assert calls.results == ["stopped"]


def test_a_property_is_not_looked_at_beside_what_runs(server: Server, psu: Psu, other: Any) -> None:
    held(psu, other)
    with Agent(protocol=Protocol(KEY)) as client:
        peer = client.peer(server.rep_endpoint)
        asked = [
            client.exchange_later(peer, ("PSMessage", "describe", options), TIMEOUT)
            for options in ({"on": ["psu"], "name": "chosen"}, {"on": ["psu", "chosen"]})
        ]
        assert client.request(server.rep_endpoint, "ping", TIMEOUT) == "pong"
        assert not psu.looked_at.is_set()
        psu.opened.set()
        assert [each.result(TIMEOUT).content[1] for each in asked] == ["return", "return"]


@pytest.mark.parametrize(
    "way", [lambda psu: psu.chosen, lambda psu: psu.output()], ids=["property", "result"]
)
def test_the_first_call_that_is_cancelled_is_followed_by_what_on_cancel_names(
    psu: Psu, other: Any, way: Callable[[Any], Any]
) -> None:
    output = way(other.psu)
    ramp = output.ramp.future()
    assert psu.first.running.wait(TIMEOUT)
    ramp.cancel()
    assert psu.first.switched_off.wait(TIMEOUT)


@pytest.mark.parametrize("kind", [RampedDown, Awaited])
def test_what_follows_a_cancelled_call_is_not_cancelled_itself(kind: type[Output]) -> None:
    output = kind()
    with Server(output, protocol=Protocol(KEY)) as server:
        with Proxy(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as remote:
            ramp = remote.ramp.future()
            assert output.running.wait(TIMEOUT)
            ramp.cancel()
            assert output.switched_off.wait(TIMEOUT)


def test_what_is_released_while_a_call_of_it_waits_is_there_for_that_call(
    server: Server, psu: Psu, other: Any
) -> None:
    with Agent(protocol=Protocol(KEY)) as client:
        peer = client.peer(server.rep_endpoint)

        def call(*on: Any, name: str) -> Any:
            options = {"on": on, "name": name, "method": "__call__", "timeout": TIMEOUT}
            return client.exchange_later(peer, ("PSMessage", "exec", options), TIMEOUT)

        (handle,) = call("psu", name="output").result(TIMEOUT).content[2]["handles"]
        held(psu, other)
        waiting = call({"handle": handle}, name="off")
        until(lambda: [call.member for call in running(other) if call.state == "waiting"])
        client.request(server.rep_endpoint, {"pzc": "release", "handles": [handle]}, TIMEOUT)
        psu.opened.set()
        assert waiting.result(TIMEOUT).content[1] == "return"
        until(lambda: not server.statistics()["handles"])


@pytest.mark.parametrize("name", ["output_later", "outputs_later"])
def test_nothing_is_kept_of_what_a_call_gave_after_its_caller_has_given_up(
    server: Server, psu: Psu, other: Any, name: str
) -> None:
    called = getattr(other.psu, name).future()
    assert psu.running.wait(TIMEOUT)
    assert called.cancel()
    until(lambda: [call.cancelled for call in running(other)] == [True])
    psu.opened.set()
    until(lambda: not running(other))
    told = server.statistics()
    assert (told["handles"], told["streams"]) == (0, 0)


def test_a_call_that_could_not_be_followed_by_what_is_to_stop_it_does_not_begin() -> None:
    with Server(Misspelt()) as server, Proxy(server.rep_endpoint) as output:
        with pytest.raises(
            MemberRefused, match=r"'of', to be called when 'ramp' was cancelled.*did you mean off"
        ):
            output.ramp()
        assert not server.served_object.running.is_set()


def test_what_cannot_be_marked_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot be marked: only methods are"):
        urgent(cast(Any, property(lambda self: self)))
