"""What is wrong with an argument is said at the call that was made, in one sentence."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pzc
import pzc.aio
from pzc import Agent, ConfigError, MemberRefused, Proxy, PzcError, Server

from tests.contract.rigs.supply import KEY, Supply

SERVED = "Supply is a class: serve an object of it, Server(Supply(...), ...)"


@pytest.mark.parametrize("served", [Supply, {"psu": Supply}], ids=["alone", "of several"])
def test_a_class_in_the_place_of_an_object_is_refused(served: object) -> None:
    with pytest.raises(ConfigError) as told:
        Server(served)
    assert str(told.value) == SERVED


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"urgent": 5}, "urgent takes a list of members, such as ['ramp'], not 5"),
        ({"expose": 5}, "expose takes a list of members, such as ['ramp'], not 5"),
        ({"concurrency": "2"}, "concurrency='2' is not possible"),
        ({"allow_instantiate": Supply}, "allow_instantiate takes a list of classes, such as [Supply], not <class Supply>"),
        ({"protocol": KEY}, "protocol=<str> cannot be used: expected pzc.Protocol(...)"),
        ({"expose": [5]}, "expose names 5: 5 is no path: expected a text such as 'ch1.voltage'"),
        ({"urgent": [5]}, "urgent names 5: 5 is no path: expected a text such as 'ch1.voltage'"),
        ({"on_cancel": {"ramp": 5}}, "on_cancel names 5: 5 is no path: expected a text such as 'ch1.voltage'"),
        ({"audit": 3}, "audit=3 cannot be used: expected the path of a file"),
        ({"namespace": 3}, "3 cannot be a namespace: expected a text"),
        ({"partition": 3}, "3 cannot be a partition: expected a text"),
        ({"remap": 5}, "remap=5 cannot be used: expected {'old': 'new'} or ['old:=new']"),
        ({"remap": "a:=b"}, "remap='a:=b' cannot be used: expected {'old': 'new'} or ['old:=new']"),
        ({"remap": [5]}, "5 cannot be a remapping: expected a text"),
        ({"metadata": "B12"}, "metadata are texts by name, such as {'room': 'B12'}, not 'B12'"),
    ],
)  # fmt: skip
def test_a_server_says_which_argument_is_of_a_wrong_kind(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        Server(Supply(), **options)
    assert str(error.value) == told


def test_a_member_that_is_exposed_and_not_there_is_told_with_the_nearest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "pzc"), Server(Supply(), expose=["voltag", "ch1.voltage"]):
        pass
    said = [record.getMessage() for record in caplog.records if "expose" in record.getMessage()]
    assert said == ["expose names 'voltag': Supply has no 'voltag'; did you mean voltage?"]


CALLS: dict[str, Callable[[Agent], object]] = {
    "request": lambda agent: agent.request("psu", "ping", timeout="x"),  # type: ignore[arg-type]
    "join": lambda agent: agent.join("x"),  # type: ignore[arg-type]
    "send": lambda agent: agent.send(agent.rep_endpoint, 1, "x"),  # type: ignore[arg-type]
    "wait_for_subscribers": lambda agent: agent.wait_for_subscribers("a", 1, "x"),  # type: ignore[arg-type]
    "discover": lambda agent: pzc.discover("*", "x"),  # type: ignore[arg-type]
    "recv": lambda agent: agent.subscribe(agent.rep_endpoint, "a").recv("x"),  # type: ignore[arg-type]
    "recv_zero_copy": lambda agent: agent.subscribe(agent.rep_endpoint, "a").recv_zero_copy("x").__enter__(),  # type: ignore[arg-type]
}  # fmt: skip


REFUSED: dict[str, Callable[[], object]] = {
    "a signing key is a text or bytes, not of type int": lambda: pzc.Protocol(5),  # type: ignore[arg-type]
    "keyring=<str> cannot be used: expected pzc.Keyring.load(path)": lambda: pzc.Protocol(keyring="a.keyring"),  # type: ignore[arg-type]
    "role='admin' cannot be used: expected Role.OBSERVER, OPERATOR or ADMIN": lambda: pzc.Key(KEY, "me", "admin"),  # type: ignore[arg-type]
    "<str> is no key: expected pzc.Key(...)": lambda: pzc.Keyring([KEY]),  # type: ignore[list-item]
    "protocol=<str> cannot be used: expected pzc.Protocol(...)": lambda: pzc.discover(protocol=KEY),  # type: ignore[arg-type]
    "latest needs a whole number of messages, not None": lambda: pzc.latest(None),  # type: ignore[arg-type]
    "transport='udp' cannot be used: expected one of auto, unix, tcp": lambda: pzc.aio.Proxy("psu", transport="udp"),
    "timeout=0 cannot be used: expected a positive number of seconds, 9.22337e+09 at most": lambda: pzc.aio.Proxy("psu", timeout=0),
    "<Supply> is no class: serve_in_thread makes the object itself, as in serve_in_thread(Supply, args); "
    "Server(...) serves one that is there": lambda: Server.serve_in_thread(Supply()),  # type: ignore[arg-type]
    "<Supply> is no class: serve_in_process makes the object itself, as in serve_in_process(Supply, args); "
    "Server(...) serves one that is there": lambda: Server.serve_in_process(Supply()),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("told", REFUSED)
def test_what_is_of_a_wrong_kind_is_refused_where_it_is_given(told: str) -> None:
    with pytest.raises(ConfigError) as error:
        REFUSED[told]()
    assert str(error.value) == told


def test_one_notification_is_not_taken_for_many() -> None:
    with Agent() as agent:
        subscription = agent.subscribe(agent.rep_endpoint, "a")
        agent.publish("a", 1)
        with pytest.raises(ConfigError, match=r"one has notification\.acknowledge\(\)$"):
            pzc.acknowledge(subscription.recv(10))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [Agent, lambda name: Server(Supply(), name)], ids=["agent", "server"])
def test_a_name_in_the_place_of_an_endpoint_is_told_where_it_belongs(make: Callable[[str], object]) -> None:
    with pytest.raises(ConfigError, match="; what it is called is given as name='psu'"):
        make("psu")


def test_a_port_that_is_none_is_not_proposed_again() -> None:
    with pytest.raises(ConfigError) as told:
        Proxy("tcp://127.0.0.1:99999")
    assert "perhaps" not in str(told.value)


@pytest.mark.parametrize("call", CALLS)
def test_a_timeout_that_is_no_number_is_refused(call: str) -> None:
    with Agent() as agent, pytest.raises(ConfigError) as told:
        CALLS[call](agent)
    assert str(told.value) == "timeout='x' cannot be used: expected seconds"


TARGETS: dict[str, Callable[[Agent, Any], object]] = {
    "request": lambda agent, target: agent.request(target, "ping"),
    "resolve": lambda agent, target: agent.resolve(target),
}


@pytest.mark.parametrize("call", TARGETS)
def test_a_target_that_is_no_text_is_refused(call: str) -> None:
    with Agent() as agent, pytest.raises(ConfigError, match=r"5 is no server: expected a name such as 'psu'"):
        TARGETS[call](agent, 5)


def test_a_proxy_in_the_place_of_a_target_is_refused() -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint) as psu, Agent() as agent:
        with pytest.raises(ConfigError, match="<Proxy> is no server"):
            agent.request(psu, "ping")  # type: ignore[arg-type]


TOPICS: dict[str, Callable[[Agent, Any], object]] = {
    "advertise": lambda agent, topic: agent.advertise(topic),
    "withdraw": lambda agent, topic: agent.withdraw(topic),
    "on_readers": lambda agent, topic: agent.on_readers(topic, print),
    "wait_for_subscribers": lambda agent, topic: agent.wait_for_subscribers(topic, 1, 0.0),
}


@pytest.mark.parametrize("call", TOPICS)
def test_a_topic_that_is_no_text_is_refused(call: str) -> None:
    with Agent() as agent, pytest.raises(PzcError, match="nothing can be published as topic 5"):
        TOPICS[call](agent, 5)


def test_a_number_of_subscribers_that_is_none_is_refused() -> None:
    with (
        Agent() as agent,
        pytest.raises(ConfigError, match="n='two' cannot be used: expected a whole number"),
    ):
        agent.wait_for_subscribers("a", "two")  # type: ignore[arg-type]


def test_a_pattern_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="5 cannot be a pattern: expected a text"):
        pzc.discover(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:5555", "tcp://localhost:5555"), ("tcp:/10.0.0.7:5555", "tcp://10.0.0.7:5555"),
        ("5555", "tcp://127.0.0.1:5555"),
    ],
)  # fmt: skip
def test_an_endpoint_that_was_meant_is_named(written: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"perhaps {meant}"):
        Server(Supply(), written)
    with pytest.raises(PzcError, match=f"such as {meant}"):
        Proxy(written, timeout=0.1)


def test_an_endpoint_to_bind_is_no_place_to_connect_to() -> None:
    with pytest.raises(PzcError, match=r"tcp://\*:5555 .*the address of its machine"):
        Proxy("tcp://*:5555", timeout=0.1)


CANNOT: dict[str, Callable[[Any], object]] = {
    "what is served is a Supply, which cannot be called": lambda psu: psu(),
    "what is served is a Supply, which has no items": lambda psu: psu[0],
    "what is served is a Supply, which has no length": len,
    "what is served is a Supply, which cannot be iterated over": list,
    "what is served is a Supply, in which nothing can be looked for": lambda psu: 1 in psu,
    "'ch1' is a Channel, which cannot be called": lambda psu: psu.ch1(),
    "'ramp' is a method, which has no items": lambda psu: psu.ramp["x"],
    "'changed' is a signal, which cannot be called; it has connect, disconnect, emit, subscribe": lambda psu: psu.changed(),
    "'ramp' is a method, which has no 'futur'; did you mean future?": lambda psu: psu.ramp.futur(1),
}  # fmt: skip


@pytest.mark.parametrize("told", CANNOT)
def test_what_cannot_be_done_with_a_thing_is_told_in_words(told: str) -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint) as psu:
        with pytest.raises((PzcError, TypeError)) as error:  # of a length Python wants the latter
            CANNOT[told](psu)
    assert str(error.value) == told


def test_a_signal_that_is_called_with_a_slot_names_connect() -> None:
    told = r"^'changed' is a signal, which cannot be called; to have a slot called: changed\.connect\(slot\)$"
    with Server(Supply()) as server, Proxy(server.rep_endpoint) as psu:
        with pytest.raises(MemberRefused, match=told):
            psu.changed(print)

        async def main() -> None:
            async with pzc.aio.Proxy(server.rep_endpoint) as awaited:
                await awaited.changed(print)

        with pytest.raises(MemberRefused, match=told):
            asyncio.run(main())


def test_a_copy_that_is_not_connected_yet_is_equal_to_what_it_was_copied_from() -> None:
    with Server(Supply()) as server, Proxy(server.rep_endpoint) as psu:
        for thing in (psu, psu.ch1, psu.ramp):
            for twin in (copy.copy(thing), pickle.loads(pickle.dumps(thing))):
                assert twin == thing
                assert thing == twin
                assert hash(twin) == hash(thing)
        assert copy.copy(psu) != psu.ch1
        assert copy.copy(psu.ch1) != psu.ramp
        assert psu.ch1 != copy.copy(psu)


def test_a_mapping_without_items_is_false_as_here() -> None:
    class Holder:
        def __init__(self) -> None:
            self.limits: dict[str, float] = {}
            self.queue = [1]

    with Server(Holder()) as server, Proxy(server.rep_endpoint) as proxy:
        assert (bool(proxy.limits), bool(proxy.queue), bool(proxy)) == (False, True, True)


FUNCTIONS: dict[str, Callable[[Any], object]] = {"close": pzc.close, "lock": pzc.lock, "path": pzc.path}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_proxy_of_the_other_face_is_told_apart(function: str) -> None:
    with pytest.raises(ConfigError, match=r"use pzc\.aio\.close, lock or batch$"):
        FUNCTIONS[function](pzc.aio.Proxy("psu"))


READS: dict[str, Callable[[Any], object]] = {
    "recv": lambda subscription: subscription.recv(10),
    "for": next,
    "async for": lambda subscription: asyncio.run(anext(subscription)),
}


@pytest.mark.parametrize("read", READS)
def test_nothing_is_waited_for_that_a_callback_gets(read: str) -> None:
    with Agent() as agent:
        subscription = agent.subscribe(agent.rep_endpoint, "a", print)
        with pytest.raises(ConfigError, match="subscribe without a callback to read them"):
            READS[read](subscription)


def test_a_stream_says_what_it_is() -> None:
    class Scanner:
        def scan(self) -> Iterator[int]:
            yield 1

    with Server(Scanner()) as server, Proxy(server.rep_endpoint) as scanner:
        items = scanner.scan()
        assert repr(items) == f"<stream of items from {server.rep_endpoint}: iterate over it>"
        assert list(items) == [1]
        assert repr(items) == f"<stream of items from {server.rep_endpoint} (ended): iterate over it>"
