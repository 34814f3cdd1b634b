"""Publishers that come back as others, and readers that follow them, for the tests of open subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pzc import Agent, Policy, Protocol

from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.reading import Reading
from tests.contract.rigs.workers import RANDOM_TCP, Worker


class Follower(Worker):
    """A worker whose subscriptions to topic ``t`` may want types and frames."""

    def follow(
        self, name: str, endpoint: str, policy: Policy, transport: str = "auto", **how: Any
    ) -> None:  # fmt: skip
        """Subscribe, and collect."""
        reading = self.readings[name] = Reading()
        subscription = self.agent.subscribe(
            endpoint, "t", reading.collect, policy=policy, transport=transport, timeout=TIMEOUT, **how
        )
        reading.subscription = subscription
        subscription.on_gap, subscription.on_lost = reading.gap, reading.lost.append

    def publish_numbers(self, first: int, last: int) -> None:
        """Publish them as topic ``t``."""
        for number in range(first, last + 1):
            self.agent.publish("t", number)

    def plane(self, name: str) -> str:
        """The transport of a subscription's link; ``broadcast`` without one."""
        subscription = self.readings[name].subscription
        [told] = [s for s in self.agent.statistics()["subscriptions"] if s["topic"] == "t"]
        assert subscription is not None
        return "broadcast" if told["link"] is None else told["link"]["transport"]

    def refusal(self, name: str) -> str:
        """Class of what ended a subscription."""
        subscription = self.readings[name].subscription
        assert subscription is not None
        return type(subscription.refusal).__name__ if subscription.closed else "not ended"


@contextmanager
def following(
    rep: str = RANDOM_TCP, single_port: bool = False, type: str = "", lane: bool = True
) -> Iterator[Follower]:
    """Such a worker in this process; its topic ``t`` has a type. Without a lane it has no Unix socket."""
    with Agent(rep, name="follower", protocol=Protocol(KEY), single_port=single_port) as agent:
        if type:
            agent.advertise("t", type=type)
        if not lane:
            agent.loop.run(agent._answering.unix.stop_listening)
        yield Follower(agent)
