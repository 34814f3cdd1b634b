"""An observer reads, and calls what is marked as reading; nothing else by any path, serializer, batch or stream."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, Protocol, Proxy, PzcError, Role, RoleRefused, Server, batch, reading

from tests.contract.rigs.coming import coming
from tests.contract.rigs.drivers import qcodes_dac
from tests.contract.rigs.supply import TIMEOUT, Supply

ADMIN = Key("the secret of the administrators", "admin", Role.ADMIN)
OPERATOR = Key("the secret of the operators", "operator", Role.OPERATOR)
OBSERVER = Key("the secret of the observers", "observer", Role.OBSERVER)
RING = Keyring([ADMIN, OPERATOR, OBSERVER], ADMIN)


@contextlib.contextmanager
def watched(
    served: object, serializer: str = "pickle", transport: str = "tcp", **options: Any
) -> Iterator[Any]:
    """A proxy of whoever has the observer's key, and that alone."""
    with (
        Server(served, protocol=Protocol(keyring=RING), discovery=False, **options) as server,
        Proxy(
            server.rep_endpoint,
            protocol=Protocol(serializer=serializer, keyring=Keyring([OBSERVER])),
            timeout=TIMEOUT,
            transport=transport,
        ) as proxy,
    ):
        yield proxy


def in_a_batch(psu: Any) -> None:
    with batch(psu) as calls:
        calls.ch1.off()
    _ = calls.results[0]


WAYS: dict[str, Callable[[Any], object]] = {
    "call": lambda psu: psu.off(),
    "call of a channel": lambda psu: psu.ch1.off(),
    "call of an item": lambda psu: psu.channels[0].off(),
    "set": lambda psu: setattr(psu, "voltage", 2.0),
    "set of a channel": lambda psu: setattr(psu.ch1, "voltage", 2.0),
    "future": lambda psu: psu.ch1.off.future().result(TIMEOUT),
    "options": lambda psu: psu.ch1.off.options(timeout=5)(),
    "stream": lambda psu: list(psu.count()),
    "emission": lambda psu: psu.changed.emit(1),
    "batch": in_a_batch,
    "argument": lambda psu: psu.note(psu.ch1),
    "item": lambda psu: psu.names.__setitem__("second", [1]),
}


@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("serializer", ["pickle", "msgpack", "json"])
@pytest.mark.parametrize("way", WAYS)
def test_an_observer_calls_and_sets_nothing(way: str, serializer: str, transport: str) -> None:
    supply = Supply()
    with watched(supply, serializer, transport) as psu:
        assert psu.voltage == 1.0
        with pytest.raises(RoleRefused):
            WAYS[way](psu)
    assert (supply.calls, supply.voltage, supply.ch1.voltage, list(supply.names)) == ([], 1.0, 0.0, ["first"])


@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_an_observer_reads_attributes_by_every_path(serializer: str) -> None:
    supply = Supply()
    supply.ch2.voltage = 4.0
    with watched(supply, serializer) as psu:
        assert psu.ch2.voltage == psu.channels[1].voltage == 4.0
        assert [each.number for each in psu.channels] == [1, 2]
        assert psu.ch1.unit == "V"


def test_an_observer_calls_what_is_marked_as_reading_of_a_channel_as_well() -> None:
    reading = coming("reading")

    class Meter(Supply):
        @reading
        def trace(self) -> list[float]:
            """Measure nothing, only look."""
            return [1.0, 2.0]

    with watched(Meter(), reading=("note", "ch1.off")) as psu:
        assert psu.trace() == [1.0, 2.0]
        assert psu.note() == 1
        assert psu.ch1.off() == 1
        for refused in (psu.off, psu.ch2.off, psu.hold):
            with pytest.raises(RoleRefused):
                refused()


class Maker(Supply):
    """Gives others of its kind."""

    @reading
    def fresh(self) -> Supply:
        """Another one."""
        return Supply()


def test_what_is_said_of_a_member_holds_for_nothing_of_that_name_in_what_a_method_gave() -> None:
    with watched(Maker(), reading=("note",)) as psu:
        assert psu.note() == 1
        fresh = psu.fresh()
        with pytest.raises(RoleRefused):
            fresh.note()


def test_an_observer_does_not_set_a_parameter_of_qcodes_by_calling_it() -> None:
    with qcodes_dac() as dac, watched(dac) as proxy:
        assert proxy.ch1.unit == "V"
        for refused in (
            lambda: proxy.ch1(3.0),
            lambda: proxy.ch1.set(3.0),
            lambda: setattr(proxy.ch1, "unit", "mV"),
        ):
            with pytest.raises(RoleRefused):
                refused()
        assert (dac.ch1(), dac.ch1.unit) == (0, "V")


def words(name: str) -> list[Any]:
    """What a program may say by hand to run a member, as old and new clients write it."""
    return [
        ("PSMessage", "exec", {"name": name, "method": "__call__", "args": (), "kwargs": {}}),
        ("PSMessage", "exec", {"on": [], "name": name, "args": (), "kwargs": {}}),
        ("PSMessage", "exec", {"on": [name], "method": "__call__", "args": (), "kwargs": {}}),
        ("PSMessage", "exec", {"on": ["ch1"], "name": "off", "method": "__call__", "args": (), "kwargs": {}}),
        ("PSMessage", "exec", {"on": ["channels", [0]], "name": "off", "args": (), "kwargs": {}}),
        ("PSMessage", "setattr", {"on": ["ch1"], "name": "voltage", "value": 3.0}),
        ("PSMessage", "exec", {"name": "ch1", "method": "__setattr__", "args": ("unit", "mV"), "kwargs": {}}),
        ("PSMessage", "exec", {"on": ["__class__"], "name": "mro", "args": (), "kwargs": {}}),
        ("PSMessage", "exec", {"on": ["off", "__func__", "__globals__"], "method": "clear", "args": ()}),
        ("PSMessage", "get", {"on": ["off"], "name": "__globals__"}),
    ]


@pytest.mark.parametrize("role", [OBSERVER, OPERATOR], ids=["observer", "operator"])
def test_words_written_by_hand_pass_no_role_and_reach_nothing_private(role: Key) -> None:
    supply = Supply()
    with (
        Server(supply, protocol=Protocol(keyring=RING), discovery=False) as server,
        Agent(protocol=Protocol(keyring=Keyring([ADMIN, role], role)), discovery=False) as client,
    ):
        for said in words("off") if role is OBSERVER else words("off")[-3:]:
            with contextlib.suppress(PzcError, TypeError, AttributeError):
                answer = client.request(server.rep_endpoint, said, timeout=TIMEOUT)
                assert answer[1] == "raise" or "rror" in str(answer) or "efused" in str(answer), (
                    said,
                    answer,
                )
    assert (supply.calls, supply.ch1.voltage, supply.ch1.unit) == ([], 0.0, "V")
    assert Supply.off.__globals__["Supply"] is Supply


class Meter:
    """Something whose parts are replaced while it is served."""

    def __init__(self) -> None:
        self.head: Any = Head()
        self.stopped = 0

    def off(self) -> None:
        self.stopped += 1


class Head:
    """A part that an observer may call."""

    @reading
    def history(self) -> list[float]:
        return [1.0]


class Actor:
    """A part that has the same name for something else."""

    def __init__(self, meter: Meter) -> None:
        self.history = meter.off


def test_a_mark_that_is_gone_lets_an_observer_call_nothing() -> None:
    meter = Meter()
    with watched(meter) as proxy:
        assert proxy.head.history() == [1.0]
        meter.head = Actor(meter)
        with pytest.raises(RoleRefused):
            proxy.head.history()
        assert meter.stopped == 0
