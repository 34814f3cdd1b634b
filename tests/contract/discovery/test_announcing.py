from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from pzc import Agent, ConfigError, Server, discover

from tests.contract.rigs.naming import serve, watching
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Workers

GROUP = "239.255.80.90"


def topics() -> list[str]:
    return [entry.topic for entry in discover("**", 0.0, kind="topic")]


def test_a_topic_that_cannot_be_a_name_is_published_and_not_announced() -> None:
    with Agent(name="meter") as meter:
        assert meter.publish("two words", 1) == 1
        meter.advertise("two words")
        meter.advertise("one")
        assert topics() == ["one"]


def test_no_more_topics_than_the_bound_are_announced() -> None:
    with Agent(name="meter") as meter:
        for number in range(1001):
            meter.advertise(f"topic{number:04}")
        assert topics() == [f"topic{number:04}" for number in range(1000)]


def test_a_topic_is_announced_with_its_first_notification() -> None:
    with watching() as watch, Agent(name="meter") as meter:
        for topic in ("one", "two"):
            meter.publish(topic, 1)
            watch.wait_for(f"/meter/{topic}")


class Lamp:
    level = 1


def test_a_server_and_its_topics_carry_its_metadata() -> None:
    room = {"room": "B12", "made": "2024, Zürich"}
    with Server(Lamp(), name="lamp", metadata=room) as lamp:
        lamp.advertise("reading")
        assert {entry.kind: entry.metadata for entry in discover("**", 0.0)} == dict.fromkeys(
            ("service", "topic"), room
        )


@pytest.mark.parametrize(
    "metadata",
    [
        {"room": 12}, {"": "B12"}, {"room": "a\x1b[2J"}, {"room": "x" * 65}, {"x" * 65: ""},
        {str(number): "" for number in range(17)}, {str(number): "x" * 60 for number in range(7)},
    ],
)  # fmt: skip
def test_metadata_that_others_would_not_take_are_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="metadata are"):
        Agent(name="psu", metadata=metadata)


def test_the_last_word_of_advertise_counts() -> None:
    with watching() as watch, Agent(name="meter") as meter:
        meter.advertise("reading", type=int)
        watch.wait_for("/meter/reading")
        meter.advertise("reading", type=float, scope="host")
        (entry,) = discover("**", 0.0, kind="topic")
        assert (entry.type, entry.scope) == ("float", "host")


def test_a_type_is_announced_by_its_full_name() -> None:
    with Agent(name="meter") as meter:
        for topic, kind in (("plain", None), ("said", "picture"), ("builtin", int), ("own", Lamp)):
            meter.advertise(topic, type=kind)
        found = {entry.topic: entry.type for entry in discover("**", 0.0, kind="topic")}
    assert found == {"plain": "", "said": "picture", "builtin": "int", "own": f"{__name__}.Lamp"}


def test_a_server_is_announced_once_its_object_is_made() -> None:
    with watching() as watch:
        proxy = Server.serve_in_thread(Lamp, name="lamp")
        watch.wait_for("/lamp")
        (entry,) = discover("/lamp", 0.0)
        assert (entry.kind, entry.type) == ("service", "Lamp")
        proxy._proxy_stop_server()
        watch.wait_for_end("/lamp")
        proxy._proxy_stop_me()


def test_with_an_agent_go_its_topics() -> None:
    with watching() as watch:
        with Agent(name="meter") as meter:
            meter.advertise("reading")
            watch.wait_for("/meter/reading")
        watch.wait_for_end("/meter/reading")


@pytest.fixture
def overheard() -> Iterator[socket.socket]:
    """Every announcement on loopback."""
    loopback = socket.inet_aton("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearing:
        hearing.settimeout(TIMEOUT)
        hearing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hearing.bind((GROUP, int(os.environ["PZC_DISCOVERY_PORT"])))
        member = socket.inet_aton(GROUP) + loopback
        hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        hearing.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
        yield hearing


@pytest.mark.xfail(reason="who was not there does not know that an announcement is an old one")
def test_a_repeated_announcement_makes_no_agent_known(overheard: socket.socket, workers: Workers) -> None:
    gone = serve(workers, "gone", PZC_KEY=KEY)
    while b"gone" not in (said := overheard.recv(2048)):
        pass
    gone.stop()
    late = serve(workers, "late", PZC_KEY=KEY)
    overheard.sendto(said, overheard.getsockname())
    serve(workers, "last", PZC_KEY=KEY)
    names: list[str] = []
    while "/last" not in names:
        names = late.ask("names")
    assert "/gone" not in names
