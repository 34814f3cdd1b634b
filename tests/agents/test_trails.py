from __future__ import annotations

import threading

import pytest

from pzc import Agent, PeerLost, Proxy, Server
from pzc.agents.calling.endings import Endings
from pzc.discovery.events import Conflict

from tests.agents.naming_rig import TIMEOUT, Watch, eventually
from tests.contract.rigs.peers import Inbox


class Lamp:
    def __init__(self, level: int) -> None:
        self.level = level


def test_a_proxy_stays_with_its_server_when_another_one_takes_the_same_name() -> None:
    with Watch() as watch, Server(Lamp(1), name="lamp"), Proxy("lamp") as lamp:
        with Server(Lamp(2), name="lamp"):
            watch.until(Conflict, "/lamp")
            trail = lamp._proxy_remote.trail
            assert trail is not None
            trail.look()
            assert (lamp.level, trail.moves) == (1, 0)


def test_a_proxy_goes_to_the_other_one_when_its_server_stops() -> None:
    with Server(Lamp(1), name="lamp") as first, Proxy("lamp") as lamp:
        with Server(Lamp(2), name="lamp"):
            assert lamp.level == 1
            first.stop()

            def level() -> int:
                try:
                    return lamp.level
                except PeerLost:
                    return 0

            eventually(lambda: level() == 2)


def test_a_proxy_that_was_closed_follows_nobody() -> None:
    with Server(Lamp(1), name="lamp"):
        proxy = Proxy("lamp")
        agent = proxy._proxy_remote.agent
        assert len(agent._naming._trails) == 1
        proxy._proxy_stop_me()
        assert not agent._naming._trails


def test_a_subscription_that_was_closed_follows_nobody() -> None:
    with Agent(name="meter"), Agent() as reader:
        subscription = reader.subscribe("meter", "reading", Inbox())
        assert len(reader._naming._trails) == 1
        subscription.close()
        assert not reader._naming._trails


def test_closing_by_a_pattern_closes_what_was_made_with_it() -> None:
    with Agent(name="cam1") as one, Agent() as reader:
        subscription = reader.subscribe("cam*", "image")
        other = reader.subscribe("cam1", "image")
        assert reader.unsubscribe("cam*", "image") == 1
        assert (subscription.closed, other.closed) == (True, False)
        assert one.wait_for_subscribers("image", 1, TIMEOUT)


def test_a_publisher_that_refuses_is_left_out_and_the_others_stay(caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox()
    with Agent(name="cam1") as one, Agent(name="cam2") as two, Agent() as reader:
        one.advertise("image", type="picture")
        two.advertise("image", type="text")
        subscription = reader.subscribe("cam*", "image", inbox, type="picture")
        assert subscription.sources == ["@@/cam1"]
        assert "left out" in caplog.text
        two.publish("image", 2)
        one.publish("image", 1)
        assert inbox.next().content == 1


def test_who_waits_at_an_endpoint_that_was_abandoned_waits_no_longer() -> None:
    closed = threading.Event()
    endings = Endings(closed)
    waiting = endings.of("tcp://a:1")
    other = endings.of("tcp://b:1")
    endings.abandon("tcp://a:1")
    assert waiting.is_set()
    assert not other.is_set()
    assert not endings.of("tcp://a:1").is_set()


def test_who_waits_when_the_agent_stops_waits_no_longer() -> None:
    closed = threading.Event()
    waiting = Endings(closed).of("tcp://a:1")
    closed.set()
    assert waiting.is_set()
    assert not waiting.abandoned
