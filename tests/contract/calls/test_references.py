"""What is no value stays at its server, and is used from there as if it were local."""

from __future__ import annotations

import copy
import gc
import pickle
import pydoc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import pzc

from tests.contract.rigs.racks import Channel, Rack, racked
from tests.contract.rigs.signalling import Collected

KEY = "a key that both sides know"
TIMEOUT = 10.0
MANNERS = [("", "pickle"), (KEY, "pickle"), (KEY, "json"), ("", "msgpack")]


@pytest.fixture
def rack() -> Rack:
    return Rack()


@pytest.fixture(params=["tcp", "unix"])
def proxy(rack: Rack, request: pytest.FixtureRequest) -> Iterator[Any]:
    with racked(rack, key=KEY, transport=request.param) as made:
        yield made


@pytest.mark.parametrize(("key", "serializer"), MANNERS)
def test_a_channel_is_used_where_it_is_in_every_manner(rack: Rack, key: str, serializer: str) -> None:
    with racked(rack, key=key, serializer=serializer) as proxy:
        proxy.ch1.voltage = 3.5
        assert (rack.ch1.voltage, proxy.ch1.voltage, proxy.channels[0].voltage) == (3.5, 3.5, 3.5)
        assert proxy.by_name["two"].off(slowly=True) == 2
        assert proxy.choose(proxy.ch2)
        assert [each.number for each in proxy.channels] == [1, 2]


def test_items_and_slices_are_references(proxy: Any) -> None:
    assert len(proxy.channels) == 2
    assert proxy.channels[-1].number == 2
    assert [each.number for each in proxy.channels[0:1]] == [1]
    assert proxy.by_name.keys() == ["one", "two"]
    with pytest.raises(IndexError):
        proxy.channels[7]


class Points:
    """Can be iterated, and has no length."""

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2, 3))


class Trace:
    """Has points, and gives an iterator."""

    def __init__(self) -> None:
        self.points = Points()

    def doubled(self) -> Iterator[int]:
        """Of each point."""
        return map((2).__mul__, self.points)


def test_what_can_be_iterated_and_has_no_length_is_listed() -> None:
    with racked(Trace(), key=KEY) as trace:
        assert (list(trace.points), [*trace.points, 4]) == ([1, 2, 3], [1, 2, 3, 4])
        assert list(trace.doubled()) == [2, 4, 6]


def test_what_has_no_length_says_so_as_python_does(proxy: Any) -> None:
    with pytest.raises(TypeError, match="ch1"):
        len(proxy.ch1)


def test_values_and_items_of_a_mapping_are_lists_of_what_stays_at_the_server(proxy: Any) -> None:
    assert [each.number for each in proxy.by_name.values()] == [1, 2]
    assert {key: each.number for key, each in proxy.by_name.items()} == {"one": 1, "two": 2}


def test_what_can_be_called_and_has_attributes_is_both(rack: Rack, proxy: Any) -> None:
    level = proxy.ch1.level
    level(1.5)
    assert (level(), level.unit, level.get(), rack.ch1.level.value) == (1.5, "V", 1.5, 1.5)
    level.set(2.5)
    level.unit = "mV"
    assert (rack.ch1.level.value, rack.ch1.level.unit) == (2.5, "mV")
    assert level.options(timeout=5)() == 2.5
    assert level.future().result(TIMEOUT) == 2.5


def test_what_a_method_returns_stays_as_long_as_somebody_holds_it(rack: Rack, proxy: Any) -> None:
    made = proxy.make(7)
    made.voltage = 2.0
    assert (made.number, made.voltage, made.off()) == (7, 2.0, 7)
    assert proxy.which(made, [made], one={"a": made}) == [7, [7], {"a": 7}]
    member = made.off
    del made
    gc.collect()
    assert member() == 7


def test_what_nobody_holds_any_more_is_let_go(proxy: Any, rack: Rack) -> None:
    gone = threading.Event()

    class Kept(Channel):
        """Says when it is gone."""

    def make(number: int) -> Channel:
        channel = Kept(number)
        weakref.finalize(channel, gone.set)
        return channel

    rack.make = make  # type: ignore[method-assign]
    held = proxy.make(1)
    assert held.number == 1
    gc.collect()
    assert not gone.wait(0.1)
    del held
    gc.collect()
    assert gone.wait(TIMEOUT)


def test_several_at_once_are_unpacked_and_iterated(proxy: Any) -> None:
    first, second = proxy.pair()
    assert (first.number, second.number) == (1, 2)
    assert [channel.number for channel in proxy.each()] == [1, 2]


def test_a_reference_goes_back_as_the_very_object(rack: Rack, proxy: Any) -> None:
    assert proxy.choose(proxy.ch1)
    assert proxy.choose(proxy.channels[1])
    assert rack.given == [rack.ch1, rack.ch2]
    assert proxy.chosen.number == 2
    rack.given.clear()
    assert proxy.chosen is None
    assert proxy.which(proxy.ch1, [proxy.ch2, 3], a=(proxy.ch1,)) == [1, [2, 3], [1]]


def test_a_copy_and_a_pickle_lead_to_the_same(rack: Rack) -> None:
    with racked(rack) as proxy:
        for twin in (copy.copy(proxy.ch1), pickle.loads(pickle.dumps(proxy.channels[0]))):
            twin.voltage = 6.0
            assert rack.ch1.voltage == 6.0
            assert twin in (proxy.ch1, proxy.channels[0])
            rack.ch1.voltage = 0.0


def test_a_context_manager_is_entered_and_left(rack: Rack, proxy: Any) -> None:
    with proxy.session() as session:
        assert session.open is True
    assert session.open is False
    with pytest.raises(ValueError, match="here"), proxy.session():
        raise ValueError("here")
    assert rack.left[0] == "nothing"
    assert "here" in rack.left[1]


def test_a_signal_below_is_connected_and_subscribed_to(rack: Rack, proxy: Any) -> None:
    seen = Collected()
    proxy.ch1.changed.connect(seen)
    with proxy.ch2.changed.subscribe() as subscription:
        rack.ch1.voltage = 1.0
        rack.ch2.voltage = 2.0
        assert seen.wait_for(1) == [1.0]
        assert subscription.recv(TIMEOUT).content[0] == 2.0
    proxy.ch1.changed.disconnect(seen)


@pytest.mark.parametrize("name", ["volage", "new"])
def test_what_is_not_there_can_neither_be_read_nor_set(rack: Rack, proxy: Any, name: str) -> None:
    for attempt in (lambda: getattr(proxy.ch1, name), lambda: setattr(proxy.ch1, name, 3)):
        with pytest.raises(pzc.MemberRefused, match=r"voltage"):
            attempt()
    assert not hasattr(rack.ch1, name)


def test_no_value_takes_the_place_of_what_is_held(rack: Rack, proxy: Any) -> None:
    held = rack.ch2, rack.ch1.level
    with pytest.raises(pzc.MemberRefused, match="'ch2' is a Channel, which no value can take the place of"):
        proxy.ch2 = 3
    with pytest.raises(pzc.MemberRefused, match=r"to give it a value, call it: level\(3\)"):
        proxy.ch1.level = 3
    assert (rack.ch2, rack.ch1.level) == held


def test_something_else_that_is_held_may_take_its_place(rack: Rack, proxy: Any) -> None:
    proxy.ch1 = proxy.ch2
    assert rack.ch1 is rack.ch2


def test_nothing_is_set_or_deleted_here(proxy: Any) -> None:
    for attempt in (
        lambda: setattr(proxy.ch1.off, "speed", 3),
        lambda: setattr(proxy.ch1, "_speed", 3),
        lambda: delattr(proxy.ch1, "voltage"),
        lambda: proxy.ch1.off.speed,
    ):
        with pytest.raises(pzc.MemberRefused):
            attempt()


def test_references_to_one_path_are_equal(rack: Rack, proxy: Any) -> None:
    with racked(rack) as other:
        assert proxy.ch1 == proxy.ch1
        assert len({proxy.ch1, proxy.channels[0], proxy.channels[0]}) == 2
        assert proxy.ch1 != proxy.ch2
        assert proxy.ch1 != other.ch1
        assert proxy.ch1 != "ch1"


def test_a_reference_says_what_it_is(proxy: Any) -> None:
    endpoint = repr(proxy).rpartition(" ")[2]
    assert repr(proxy.ch1) == f"<ch1 of rack: Channel at {endpoint}"
    assert [pzc.path(each) for each in (proxy, proxy.ch1, proxy.channels[0].level, proxy.ch1.off)] == [
        "rack", "rack.ch1", "rack.channels[0].level", "rack.ch1.off",
    ]  # fmt: skip
    assert {"off", "voltage", "level"} <= set(dir(proxy.ch1))
    text = pydoc.plain(pydoc.render_doc(proxy.ch1))
    assert "One output of a rack." in text
    assert "Output in volts." in text
    assert "Switch it off." in pydoc.plain(pydoc.render_doc(proxy.ch1.off))


def test_members_that_came_later_are_seen_after_a_refresh(rack: Rack, proxy: Any) -> None:
    channel = proxy.ch1
    assert "extra" not in dir(channel)
    rack.ch1.extra = Channel(9)  # type: ignore[attr-defined]
    assert channel.extra.number == 9
    pzc.refresh(channel)
    assert "extra" in dir(channel)


@pytest.mark.parametrize("wrong", [None, 5, "rack", pzc.aio.Proxy("rack")])
def test_what_is_no_proxy_is_refused_where_it_is_given(wrong: Any) -> None:
    for function in (
        pzc.path,
        pzc.refresh,
        pzc.close,
        pzc.lock,
        pzc.batch,
        pzc.stubs,
        pzc.running,
        pzc.cancel,
    ):
        with pytest.raises(pzc.ConfigError, match=r"prox|Prox"):
            function(wrong)


def test_a_batch_works_on_what_is_inside(rack: Rack, proxy: Any) -> None:
    with pzc.batch(proxy) as calls:
        calls.ch1.voltage = 2.0
        calls.ch1.voltage
        calls.ch2.off()
        calls.which(proxy.ch2)
    assert calls.results == [None, 2.0, 2, [2]]


def test_a_restarted_server_is_seen_by_references() -> None:
    server = pzc.Server(Rack())
    endpoint = server.rep_endpoint
    with pzc.Proxy(endpoint, timeout=TIMEOUT) as untyped:
        proxy: Any = untyped
        channel = proxy.ch1
        channel.voltage = 1.0
        made = proxy.make(3)
        server.stop()
        with pzc.Server(Rack(), endpoint):
            assert channel.voltage == 0.0
            with pytest.raises(pzc.PzcError):
                made.number


def test_the_stub_of_a_real_server_has_what_is_inside(proxy: Any) -> None:
    text = pzc.stubs(proxy)
    assert "class Channel(" in text
    assert "def ch1(self) -> Channel" in text
    assert "class Parameter(" in text
