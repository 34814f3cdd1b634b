from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from pzc import Agent
from pzc.agents.notifications.links.gathering import BurstDetector
from pzc.agents.notifications.links.link_subscriber import LENT, LinkSubscriber
from pzc.protocol import limits

from tests.agents.links_reader import UnixReader, wish
from tests.contract.rigs.peers import TIMEOUT


def publish(bursts: BurstDetector) -> bool:
    try:
        return bursts.begin(time.monotonic())
    finally:
        bursts.returned = time.monotonic()


def test_publications_in_quick_succession_become_a_burst(timings: Callable[..., None]) -> None:
    timings(burst_pause=TIMEOUT)  # on a slow machine as well
    bursts = BurstDetector()
    assert not bursts.begin(time.monotonic() + 2 * TIMEOUT)
    bursts.returned = time.monotonic()
    assert [publish(bursts) for _ in range(limits.current.burst_publications)] == [False] * (
        limits.current.burst_publications - 1
    ) + [True]
    assert bursts.on


def test_the_first_one_after_a_pause_belongs_to_no_burst(timings: Callable[..., None]) -> None:
    timings(burst_pause=TIMEOUT)
    bursts = BurstDetector()
    for _ in range(2 * limits.current.burst_publications):
        publish(bursts)
    assert not bursts.begin(time.monotonic() + 2 * TIMEOUT)
    assert not bursts.on


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, timings: Callable[..., None]) -> None:
    """Whatever is published belongs to a burst, and neither a timer nor a sign of life ends one."""
    monkeypatch.setattr(LinkSubscriber, "beat", lambda *_: None)
    timings(burst_pause=TIMEOUT)
    timings(burst_publications=0)
    timings(burst_gathering=10 * TIMEOUT)


def opened(agent: Agent, reader: UnixReader) -> LinkSubscriber:
    """A reader's link, after the thread that opens it has sent all that it had to."""
    subscriber = agent._publishing.subscribers.links[reader.link]
    assert isinstance(subscriber, LinkSubscriber)
    reader.ask(wish("t", bound=subscriber.wants[1].policy.bound))
    return subscriber


@pytest.mark.usefixtures("endless")
def test_what_lies_in_blocks_waits_for_some_of_its_burst_and_not_for_all() -> None:
    array = np.zeros(LENT // 4, np.uint8)
    with Agent() as agent, UnixReader(agent, wish("t")) as reader:
        subscriber = opened(agent, reader)
        for _ in range(4):
            agent.publish("t", array)
        assert reader.numbers(4) == [1, 2, 3, 4]
        assert subscriber.queue.lent == 0
        agent.publish("t", array)
        assert subscriber.waiting == 1
        assert subscriber.queue.lent > LENT // 4


@pytest.mark.usefixtures("endless")
def test_half_of_a_window_goes_while_the_other_half_is_being_published() -> None:
    with Agent() as agent, UnixReader(agent, wish("t", bound=8)) as reader:
        subscriber = opened(agent, reader)
        for number in range(5):
            agent.publish("t", number)
        assert reader.numbers(4) == [1, 2, 3, 4]
        assert subscriber.waiting == 1
