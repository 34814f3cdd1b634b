from __future__ import annotations

import re
import threading
import time

import pytest

from pzc import (
    Agent,
    ConfigError,
    Key,
    Keyring,
    Protocol,
    Proxy,
    Server,
    SignatureError,
    TypeMismatch,
    UnknownName,
    discover,
)

from tests.contract.rigs.naming import saying_by_a_clock_that_is_off, serve, watching
from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox
from tests.contract.rigs.processes import Workers


class Lamp:
    def __init__(self) -> None:
        self.level = 3


def test_an_agent_asks_another_one_of_its_process_by_its_name() -> None:
    with Agent(name="echo"), Agent() as asking:
        assert asking.request("echo", "hello") == "hello"


def test_a_name_is_waited_for_until_its_agent_is_there() -> None:
    with Agent() as asking:
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(asking.request("late", 1)))
        thread.start()
        eventually(lambda: asking.statistics()["discovery"])
        with Agent(name="late"):
            thread.join(TIMEOUT)
    assert answers == [1]


@pytest.mark.slow
def test_a_name_that_is_nowhere_is_unknown_after_three_seconds_and_what_was_heard_is_told() -> None:
    with Agent(name="camera"), Agent() as asking:
        begun = time.monotonic()
        with pytest.raises(
            UnknownName, match=r"(?s)named 'camara'.*answered to /camara.*Did you mean /camera\?"
        ):
            asking.request("camara", 1)
        assert time.monotonic() - begun >= 2.9


def test_the_timeout_of_a_call_bounds_the_wait_for_its_name() -> None:
    with Agent() as asking:
        begun = time.monotonic()
        with pytest.raises(UnknownName):
            asking.request("nobody", 1, timeout=0.1)
        assert time.monotonic() - begun < 2.5


def test_the_nearest_name_is_told_first_and_then_what_was_heard_once() -> None:
    with Agent(name="camera"), Agent() as asking:
        asking.resolve("camera")
        with pytest.raises(UnknownName) as caught:
            asking.request("rack/camara", 1, timeout=0.3)
    told = str(caught.value)
    assert re.match(
        r"no agent is named 'rack/camara'; nobody answered to \S+, \S+ within 0\.3 s\. Did you mean /camera\?",
        told,
    )
    assert told.count("Heard on") == 1
    assert told.endswith(" `pzc doctor` tells what is in the way")


def test_what_keeps_names_from_being_heard_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_DISCOVERY_IP", "off")
    with Agent() as asking, pytest.raises(UnknownName, match="multicast is switched off") as caught:
        asking.request("nobody", 1, timeout=0.1)
    assert "Heard" not in str(caught.value)
    assert "or set PZC_PEERS=nobody=tcp://HOST:PORT" in str(caught.value)
    with Agent() as asking, pytest.raises(UnknownName, match="such as tcp://127"):
        asking.request("127.0.0.1:5555", 1, timeout=0.1)
    monkeypatch.setenv("PZC_REGISTRY", "tcp://127.0.0.1:9")
    with Agent() as asking, pytest.raises(UnknownName, match=r"registry at tcp://127\.0\.0\.1:9 is not"):
        asking.request("nobody", 1, timeout=0.1)


def test_a_clock_that_is_too_far_off_is_told_where_its_names_are_missed() -> None:
    with Agent(protocol=Protocol(KEY)) as asking, saying_by_a_clock_that_is_off(-3600.0, KEY):
        with pytest.raises(UnknownName, match="by a clock that is 3600 s behind this machine's"):
            asking.request("psu", 1, timeout=1.0)


def test_without_discovery_only_static_peers_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with Agent(name="near") as near:
        monkeypatch.setenv("PZC_PEERS", f"static={near.rep_endpoint}")
        with Agent(discovery=False) as asking:
            assert asking.request("static", 1) == 1
            with pytest.raises(UnknownName, match="known names: static; discovery is switched off"):
                asking.request("near", 1)
            assert asking.statistics()["discovery"] is None


def test_an_agent_without_a_name_that_uses_endpoints_takes_no_part() -> None:
    with Agent() as one, Agent(name="hidden", discovery=False) as two:
        assert one.request(two.rep_endpoint, 1) == 1
        assert one.statistics()["discovery"] is None
        assert discover("hidden", 0.2) == []


def test_a_name_is_looked_for_in_the_own_namespace_first_and_then_from_the_root() -> None:
    with (
        Server(Lamp(), name="lamp", namespace="robot1") as near,
        Agent(name="lamp") as root,
        Agent(namespace="robot1") as inside,
        Agent(namespace="robot2") as outside,
    ):
        assert inside.resolve("lamp") == near.rep_endpoint
        assert outside.resolve("lamp") == root.rep_endpoint
        assert outside.resolve("robot1/lamp") == near.rep_endpoint


def test_two_partitions_do_not_hear_each_other() -> None:
    with Agent(name="twin", partition="left") as left, Agent(name="twin", partition="right") as right:
        with Agent(partition="left") as asking:
            assert asking.resolve("twin") == left.rep_endpoint
            assert asking.resolve("right/twin") == right.rep_endpoint
        assert [entry.agent for entry in discover("twin", 0.2, partition="left")] == [left.agent_id]


@pytest.mark.parametrize("name", ["two words", "a//b", "tab\t", "psu?", "at@home"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="a part holds printable characters"):
        Agent(name=name)


def test_an_address_that_no_interface_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_IP", "203.0.113.7")
    with pytest.raises(ConfigError, match=r"PZC_IP=203\.0\.113\.7: no interface"):
        Agent(name="psu")


def test_discover_tells_agents_services_and_topics() -> None:
    with Server(Lamp(), name="lamp") as lamp, Agent(name="plain"):
        lamp.advertise("light", type=int)
        found = {(entry.kind, entry.name, entry.type) for entry in discover("*", 0.2)}
    assert found == {("service", "/lamp", "Lamp"), ("agent", "/plain", ""), ("topic", "/lamp/light", "int")}


def test_a_topic_of_another_type_than_asked_for_is_refused_and_both_are_told() -> None:
    with Agent(name="meter") as meter, Agent() as reader:
        meter.advertise("reading", type=float)
        with pytest.raises(TypeMismatch, match="type float, and int is asked for"):
            reader.subscribe("meter", "reading", type=int)
        with (
            reader.subscribe("meter", "reading", type="float"),
            reader.subscribe("meter", "unsaid", type=int),
        ):
            assert len(reader.statistics()["subscriptions"]) == 2


def test_a_pattern_gathers_those_that_are_there_and_those_that_come() -> None:
    inbox = Inbox()
    with Agent(name="cam1") as one, Agent() as reader:
        subscription = reader.subscribe("cam*", "image", inbox)
        one.publish("image", 1)
        assert inbox.next().publisher == one.agent_id
        with Agent(name="cam2") as two:
            assert two.wait_for_subscribers("image", 1, TIMEOUT)
            two.publish("image", 2)
            assert inbox.next().publisher == two.agent_id
            eventually(lambda: len(subscription.sources) == 2)
        eventually(lambda: subscription.sources == ["@@/cam1"])
        one.publish("image", 3)
        assert inbox.next().content == 3
        assert subscription.received == 3
        subscription.close()
        eventually(lambda: not one.wait_for_subscribers("image", 1, 0))


def test_a_gathering_has_one_bound_for_all() -> None:
    from pzc import latest

    with Agent(name="cam1") as one, Agent(name="cam2") as two, Agent() as reader:
        with reader.subscribe("cam?", "image", policy=latest(1)) as subscription:
            one.publish("image", 1)
            two.publish("image", 2)
            eventually(lambda: subscription.dropped == 1)
            assert subscription.pending == 1


PATIENCE = 3 * TIMEOUT
"""Seconds within which a busy machine starts another process."""


def test_a_proxy_finds_a_server_of_another_process_by_its_name(workers: Workers) -> None:
    serve(workers, "psu")
    with Proxy("psu") as psu:
        assert psu.add(1, 2) == 3


def test_agents_with_another_key_are_counted_and_told_about(workers: Workers) -> None:
    serve(workers, "secret", PZC_KEY="one key of sixteen bytes")
    with Agent() as asking:
        with pytest.raises(UnknownName, match="signed with a key that this process does not have"):
            asking.request("secret", 1)
        assert sum(asking.statistics()["discovery"]["refused"].values()) >= 1


def test_a_process_that_is_heard_and_does_not_take_the_own_key_is_told_about(workers: Workers) -> None:
    serve(workers, "psu", PZC_KEY="that of the server")
    own, its = Key("an old key of a user"), Key("that of the server")

    def refusal() -> str:
        with Agent(protocol=Protocol(keyring=Keyring([own, its], active=own))) as asking:
            try:
                return str(asking.request("psu", 1))
            except SignatureError:  # its name was heard, because it has just begun
                return ""
            except UnknownName as error:
                return str(error)

    assert "1 of them does not tell its names: it may not have the key" in eventually(refusal)


def test_discover_hears_other_processes(workers: Workers) -> None:
    serve(workers, "psu", "voltage", namespace="lab")
    assert [entry.name for entry in discover("/lab/**", 1.0)] == ["/lab/psu", "/lab/psu/voltage"]


def test_a_topic_is_known_soon_after_its_first_notification() -> None:
    with Agent(name="meter") as meter, watching() as watch:
        meter.publish("reading", 1)
        watch.wait_for("/meter/reading")
        (entry,) = discover("/meter/reading", 0.0)
        assert (entry.topic, entry.agent) == ("reading", meter.agent_id)


def test_a_name_that_two_agents_hold_is_told_once_with_both(caplog: pytest.LogCaptureFixture) -> None:
    with Agent(name="psu") as one, Agent(name="psu") as two:
        conflicts = eventually(lambda: one.statistics()["discovery"]["conflicts"].get("/psu"))
        assert any(one.agent_id[:8] in owner for owner in conflicts)
        assert any(two.agent_id[:8] in owner for owner in conflicts)
        told = [record.levelname for record in caplog.records if "is held by 2 agents" in record.message]
        assert told == ["WARNING"]
        assert one.resolve("psu") == two.rep_endpoint


def test_a_name_that_three_agents_hold_is_told_with_all_of_them(caplog: pytest.LogCaptureFixture) -> None:
    with Agent(name="psu") as one, Agent(name="psu") as two, Agent(name="psu") as three:
        ids = {agent.agent_id[:8] for agent in (one, two, three)}
        owners = eventually(
            lambda: len(found := one.statistics()["discovery"]["conflicts"].get("/psu", ())) == 3 and found
        )
        assert all(any(each in owner for owner in owners) for each in ids)
        last = [record.message for record in caplog.records if "/psu is held by" in record.message][-1]
        assert "3 agents" in last
        assert all(each in last for each in ids)


def test_a_topic_of_the_process_is_not_told_to_others(workers: Workers) -> None:
    with Agent(name="meter") as meter:
        other = serve(workers, "other")
        meter.advertise("inside", scope="process")
        meter.advertise("outside")
        names = eventually(
            lambda: (found := other.ask("names", 0.05)) and "/meter/outside" in found and found
        )
        assert "/meter/inside" not in names
        assert "/meter/inside" in [entry.name for entry in discover("*", 0.1)]


def test_a_name_vanishes_when_its_agent_stops() -> None:
    with watching() as watch:
        with Agent(name="brief"):
            watch.wait_for("/brief")
        watch.wait_for_end("/brief")
