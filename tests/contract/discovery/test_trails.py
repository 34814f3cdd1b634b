from __future__ import annotations

import pytest

from pzc import Agent, PeerLost, Proxy, Server

from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import TIMEOUT, Inbox


class Lamp:
    def __init__(self, level: int) -> None:
        self.level = level


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


def test_a_proxy_stays_with_its_server_when_another_one_takes_the_same_name() -> None:
    with Server(Lamp(1), name="lamp") as first, Proxy("lamp") as lamp, Server(Lamp(2), name="lamp"):
        eventually(lambda: first.statistics()["discovery"]["conflicts"].get("/lamp"))
        assert lamp.level == 1
