from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from pzc import (
    Agent,
    Gap,
    Notification,
    Protocol,
    PzcError,
    block,
)

from tests.contract.rigs.children import Child
from tests.contract.rigs.pairs import LONG, OUTSIDE, WAYS, Publishing, pair, read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, in_place_of

every_way = pytest.mark.parametrize("way", WAYS)
over_a_wire = pytest.mark.parametrize("way", OUTSIDE)


@over_a_wire
@pytest.mark.usefixtures("quick")
def test_a_publisher_that_was_killed_is_told_as_lost_once(way: str) -> None:
    with Agent(protocol=Protocol(KEY)) as reader, Child() as child:
        subscription = reader.subscribe(child.rep, "t", policy=LONG, transport=way)
        lost: queue.SimpleQueue[str] = queue.SimpleQueue()
        subscription.on_lost = lost.put
        child.kill()
        assert "unreachable" in lost.get(timeout=TIMEOUT)
        assert lost.empty()
        assert not subscription.closed


@over_a_wire
@pytest.mark.usefixtures("quick")
def test_a_restarted_publisher_is_met_again_with_one_restart_gap(way: str) -> None:
    with Agent(protocol=Protocol(KEY)) as reader, Child() as child:
        subscription = reader.subscribe(child.rep, "t", policy=LONG, transport=way)
        gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
        subscription.on_gap = gaps.put
        assert reader.request(child.rep, ["t", 3]) == [1, 2, 3]
        assert read(subscription, 3) == [0, 1, 2]
        child.kill()
        with Child(child.rep, child.pub):
            assert gaps.get(timeout=TIMEOUT).restarted
            assert reader.request(child.rep, ["t", 2]) == [1, 2]
            assert [subscription.recv(TIMEOUT).sequence for _ in range(2)] == [1, 2]
            assert gaps.empty()
            assert (subscription.received, subscription.dropped) == (5, 0)


@over_a_wire
def test_an_agent_that_stops_while_its_publisher_stands_still_leaves_no_link(way: str) -> None:
    with Child() as child:
        with Agent(protocol=Protocol(KEY)) as reader:
            reader.request(child.rep, ["t", 0])
            child.freeze()

            def subscribe() -> None:
                with contextlib.suppress(PzcError):
                    reader.subscribe(child.rep, "t", policy=LONG, transport=way)

            thread = threading.Thread(target=subscribe)
            thread.start()
            wait_until(lambda: "pzc-notify" in [each.name for each in threading.enumerate()])
        child.thaw()
        thread.join(TIMEOUT)


def test_a_publisher_that_is_made_anew_in_the_same_process_is_met_again() -> None:
    with Agent(protocol=Protocol(KEY)) as reader:
        first = Agent(name="first", protocol=Protocol(KEY))
        subscription = reader.subscribe(first.rep_endpoint, "t", policy=LONG)
        gaps: queue.SimpleQueue[Gap] = queue.SimpleQueue()
        subscription.on_gap = gaps.put
        endpoints = first.rep_endpoint, first.pub_endpoint
        first.stop()
        with in_place_of(first, Agent, *endpoints, protocol=Protocol(KEY)) as second:
            assert gaps.get(timeout=TIMEOUT).restarted
            content = object()
            second.publish("t", content)
            with subscription.recv_zero_copy(TIMEOUT) as notification:
                assert notification.content is content
                assert notification.publisher == second.agent_id


READER = """
import sys, threading
from pzc import Agent, Protocol, block

with Agent(protocol=Protocol(sys.argv[2])) as agent:
    subscription = agent.subscribe(sys.argv[1], "t", policy=block(timeout=60), transport=sys.argv[3])
    print("ready", flush=True)
    threading.Event().wait()
"""


@over_a_wire
@pytest.mark.usefixtures("quick")
def test_a_reader_that_was_killed_does_not_hold_up_the_publisher(way: str) -> None:
    with Agent(name="publisher", protocol=Protocol(KEY)) as publisher:
        process = subprocess.Popen(
            [sys.executable, "-c", READER, publisher.rep_endpoint, KEY, way],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            publishing = Publishing(publisher, "t", range(100))
            assert publishing.wait_for(32) == 32
            process.kill()
            publishing.finish()
            assert publishing.returned == 100
        finally:
            process.kill()
            process.wait(TIMEOUT)
            process.stdout.close()


@every_way
def test_a_subscription_may_be_closed_in_its_own_callback(way: str) -> None:
    with pair() as (publisher, reader):
        closed: queue.SimpleQueue[int] = queue.SimpleQueue()

        def callback(notification: Notification) -> None:
            if notification.content == 10:
                subscription.close()
                closed.put(notification.content)

        policy = block(timeout=TIMEOUT, slots=4)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", callback, policy=policy, transport=way)
        other = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        publishing = Publishing(publisher, "t", range(100))
        assert read(other, 100) == list(range(100))
        assert closed.get(timeout=TIMEOUT) == 10
        publishing.finish()
        assert closed.empty()


@every_way
def test_a_callback_that_raises_is_done_with_its_notification(way: str) -> None:
    import numpy as np

    with pair() as (publisher, reader):

        def callback(notification: Notification) -> None:
            raise RuntimeError(f"no {notification.content[0]}")

        policy = block(timeout=TIMEOUT, slots=2)
        subscription = reader.subscribe(publisher.rep_endpoint, "t", callback, policy=policy, transport=way)
        publishing = Publishing(publisher, "t", (np.full(50_000, number) for number in range(20)))
        publishing.finish()
        wait_until(lambda: subscription.callback_errors == 20)


@every_way
def test_a_callback_that_waits_does_not_stop_the_link(way: str) -> None:
    with pair() as (publisher, reader):
        opened, reached = threading.Event(), threading.Event()

        def callback(notification: Notification) -> None:
            if notification.content == "wait":
                reached.set()
                assert opened.wait(TIMEOUT)

        waiting = reader.subscribe(publisher.rep_endpoint, "t", callback, policy=LONG, transport=way)
        other = reader.subscribe(publisher.rep_endpoint, "u", policy=LONG, transport=way)
        for _ in range(20):  # it proves to be quick
            publisher.publish("t", "quick")
        wait_until(lambda: waiting.received == 20)
        publisher.publish("t", "wait")
        assert reached.wait(TIMEOUT)
        try:
            publisher.publish("u", 1)
            assert other.recv(TIMEOUT).content == 1
        finally:
            opened.set()


@every_way
def test_a_callback_may_subscribe_over_its_own_link(way: str) -> None:
    with pair() as (publisher, reader):
        made: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def callback(notification: Notification) -> None:
            if notification.content == "subscribe":
                made.put(
                    reader.subscribe(publisher.rep_endpoint, "u", policy=LONG, transport=way, timeout=TIMEOUT)
                )

        first = reader.subscribe(publisher.rep_endpoint, "t", callback, policy=LONG, transport=way)
        for _ in range(20):
            publisher.publish("t", "quick")
        wait_until(lambda: first.received == 20)
        publisher.publish("t", "subscribe")
        second = made.get(timeout=TIMEOUT)
        publisher.publish("u", 5)
        assert second.recv(TIMEOUT).content == 5


COUNTER = """
import sys
from pzc import Agent, Protocol, block

with Agent(protocol=Protocol(sys.argv[2])) as agent:
    subscription = agent.subscribe(sys.argv[1], "t", policy=block(timeout=60), transport=sys.argv[3])
    print("ready", flush=True)
    while subscription.recv(60).content != "end":
        pass
    print(subscription.received, subscription.dropped, subscription.gaps[0].count, flush=True)
"""


@over_a_wire
@pytest.mark.usefixtures("quick")
def test_a_reader_that_was_frozen_comes_back_and_counts_what_it_missed(way: str) -> None:
    with Agent(name="publisher", protocol=Protocol(KEY)) as publisher:
        process = subprocess.Popen(
            [sys.executable, "-c", COUNTER, publisher.rep_endpoint, KEY, way],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
            publishing = Publishing(publisher, "t", range(100))
            publishing.finish()  # its link was closed meanwhile
            process.send_signal(signal.SIGCONT)
            assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
            publisher.publish("t", "end")
            received, dropped, gap = map(int, process.stdout.readline().split())
            assert received + dropped == 101
            assert gap == dropped
        finally:
            process.kill()
            process.wait(TIMEOUT)
            process.stdout.close()
