"""What is broadcast: by many threads, at any moment, in order."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
import zmq

from pzc import Agent, Subscription

from tests.contract.rigs.peers import TIMEOUT, balance, run_threads


def begun(publisher: Agent, reader: Agent, **options: Any) -> Subscription:
    """A subscription whose topic is prepared, with one notification."""
    subscription = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp", **options)
    assert publisher.publish("t", "first") == 1
    assert subscription.recv(TIMEOUT).content == "first"
    return subscription


class Talkative:
    """Publishes when it is collected, in the middle of whatever is being done."""

    said = threading.Semaphore(0)

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.me = self

    def __del__(self) -> None:
        self.agent.publish("t", "last words")
        Talkative.said.release()


def test_finalizers_that_publish_in_the_middle_lose_nothing(publisher: Agent, reader: Agent) -> None:
    subscription = begun(publisher, reader)
    before = gc.get_threshold()
    gc.set_threshold(7, 1, 1)
    try:
        for number in range(300):
            Talkative(publisher)
            publisher.publish("t", number)
    finally:
        gc.set_threshold(*before)
    said, deadline = 0, time.monotonic() + TIMEOUT
    while said < 300 and time.monotonic() < deadline:
        gc.collect()  # which does nothing while another thread collects
        while Talkative.said.acquire(timeout=0.05):
            said += 1
    total = publisher.statistics()["topics"]["t"]["published"]
    publisher.publish("t", "end")
    assert total == 601
    received = 1
    while subscription.recv(TIMEOUT).content != "end":
        received += 1
    assert received + subscription.dropped == total
    assert balance(subscription) == total + 1


def test_eight_threads_publish_on_several_topics(publisher: Agent, reader: Agent) -> None:
    several = [reader.subscribe(publisher.rep_endpoint, topic) for topic in ("t", "u")]

    def publish() -> None:
        for _ in range(50):
            publisher.publish("t", 0)
            publisher.publish("u", 0)

    run_threads(*[publish] * 8)
    for subscription in several:
        assert [subscription.recv(TIMEOUT).sequence for _ in range(400)] == list(range(1, 401))
        assert subscription.dropped == 0


@pytest.mark.parametrize("marks", [1, 10_000])
def test_filters_for_everything_are_taken_without_a_look_at_each_topic(publisher: Agent, marks: int) -> None:
    for number in range(20_000):
        publisher.publish(f"t{number}", 0)
    start = f"\1PZC01+{publisher.agent_id}+__placed__+"
    with zmq.Context() as context, context.socket(zmq.XSUB) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.connect(publisher.pub_endpoint)
        for number in range(20_000):
            socket.send(f"{start}first.{number % marks}+*".encode())
        socket.send(f"{start}second.1+last".encode())
        assert publisher.wait_for_subscribers("last", 2, TIMEOUT)
