from __future__ import annotations

from pzc import Agent, Proxy, Server
from pzc.discovery.events import Conflict

from tests.agents.naming_rig import Watch
from tests.contract.rigs.peers import Inbox


class Lamp:
    def __init__(self, level: int) -> None:
        self.level = level


def test_a_proxy_stays_with_its_server_when_another_one_takes_the_same_name() -> None:
    with Watch() as watch, Server(Lamp(1), name="lamp"), Proxy("lamp") as lamp:
        with Server(Lamp(2), name="lamp"):
            watch.until(Conflict, "/lamp")
            trail = lamp._proxy_remote.follower
            assert trail is not None
            trail.look()
            assert (lamp.level, trail.moves) == (1, 0)


def test_a_proxy_that_was_closed_follows_nobody() -> None:
    with Server(Lamp(1), name="lamp"):
        proxy = Proxy("lamp")
        agent = proxy._proxy_remote.agent
        assert len(agent._naming._followers) == 1
        proxy._proxy_stop_me()
        assert not agent._naming._followers


def test_a_subscription_that_was_closed_follows_nobody() -> None:
    with Agent(name="meter"), Agent() as reader:
        subscription = reader.subscribe("meter", "reading", Inbox())
        assert len(reader._naming._followers) == 1
        subscription.close()
        assert not reader._naming._followers
