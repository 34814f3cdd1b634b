"""What is left of a subscription of the topic graph that was closed."""

from __future__ import annotations

from pzc import Agent
from pzc.agents.notifications.gathering import Gathering


def test_a_closed_subscription_follows_nothing() -> None:
    with Agent(name="viewer") as viewer:
        subscription = viewer.subscribe_graph("screen/input")
        subscription.close()
        viewer.connect_topics("camera/frames", "screen/input")
        try:
            assert isinstance(subscription, Gathering)
            assert subscription.sources == []
            assert viewer._subscribing.gatherings == {}
        finally:
            viewer.disconnect_topics("camera/frames", "screen/input")
