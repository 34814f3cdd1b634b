from __future__ import annotations

import pytest

from pzc import Agent, Policy, Protocol, block, drop

from tests.contract.rigs.pairs import LONG, pair, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Workers


@pytest.mark.parametrize(
    ("policy", "way"), [(drop(100), "tcp"), (block(slots=100), "inproc"), (block(slots=100), "unix")]
)
def test_what_this_process_publishes_is_left_out_and_counted(policy: Policy, way: str) -> None:
    with pair() as (publisher, reader):
        heard = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way)
        deaf = reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=way, ignore_local=True)
        for number in range(10):
            publisher.publish("t", number)
        assert [heard.recv(TIMEOUT).content for _ in range(10)] == list(range(10))
        wait_until(lambda: deaf.ignored == 10)
        assert (deaf.received, deaf.dropped, deaf.pending) == (0, 0, 0)


def test_what_another_process_publishes_is_not_left_out(workers: Workers) -> None:
    with Agent(protocol=Protocol(KEY)) as reader:
        publisher, endpoint = workers.publisher()
        subscription = reader.subscribe(endpoint, "t", policy=LONG, ignore_local=True)
        publisher.ask("publish", "t", [100])
        assert subscription.recv(TIMEOUT).sequence == 1
        assert subscription.ignored == 0


def test_a_pattern_leaves_out_the_agents_of_this_process() -> None:
    with Agent(name="camera1") as camera, Agent() as reader:
        subscription = reader.subscribe("camera*", "t", ignore_local=True)
        camera.wait_for_subscribers("t")
        camera.publish("t", 1)
        wait_until(lambda: subscription.ignored == 1)
        assert subscription.received == 0
