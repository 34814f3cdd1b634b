"""Topics that flow into other topics, in one process and between several."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from pzc import Agent, ConfigError, CycleRefused, Policy, Subscription, UnknownName, block, latest, mailbox

from tests.contract.acceptance import acceptance
from tests.contract.rigs.naming import serve
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.processes import Forge, Hand, Workers
from tests.contract.rigs.programs import Program


def sources(subscription: Subscription) -> set[str]:
    """What flows into a subscription of the graph."""
    return {source.removeprefix("@@/") for source in cast("Any", subscription).sources}


@pytest.fixture
def camera() -> Iterator[Agent]:
    with Agent(name="camera") as camera:
        yield camera


@pytest.fixture
def viewer() -> Iterator[Agent]:
    with Agent(name="viewer") as viewer:
        yield viewer
        for source, target in viewer.topic_connections():
            viewer.disconnect_topics(source, target)


def test_a_node_gives_what_is_published_on_another_that_leads_to_it(camera: Agent, viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    with viewer.subscribe_graph("screen/input") as subscription:
        camera.publish("frames", "one")
        got = subscription.recv(TIMEOUT)
    assert (got.name, got.topic, got.content) == ("camera", "frames", "one")


def test_a_node_that_is_published_itself_gives_that_too(camera: Agent, viewer: Agent) -> None:
    with viewer.subscribe_graph("camera/frames") as subscription:
        camera.publish("frames", "own")
        assert subscription.recv(TIMEOUT).content == "own"


def test_what_leads_to_a_node_through_others_is_given_once(camera: Agent, viewer: Agent) -> None:
    for source, target in (
        ("camera/frames", "left"),
        ("camera/frames", "right"),
        ("left", "end"),
        ("right", "end"),
    ):
        viewer.connect_topics(f"/{source}" if "/" in source else f"/x/{source}", f"/x/{target}")
    with viewer.subscribe_graph("/x/end", policy=block()) as subscription:
        camera.publish("frames", "one")
        camera.publish("frames", "two")
        assert [subscription.recv(TIMEOUT).content for _ in range(2)] == ["one", "two"]
        assert subscription.pending == 0


def test_a_circle_is_refused(viewer: Agent) -> None:
    viewer.connect_topics("/a/x", "/b/x")
    with pytest.raises(CycleRefused):
        viewer.connect_topics("/b/x", "/a/x")
    assert viewer.topic_connections() == [("/a/x", "/b/x")]


def test_to_disconnect_what_is_not_connected_is_an_error(viewer: Agent) -> None:
    with pytest.raises(UnknownName):
        viewer.disconnect_topics("/a/x", "/b/x")


def test_a_name_that_no_topic_can_have_is_refused(viewer: Agent) -> None:
    with pytest.raises(ConfigError):
        viewer.connect_topics("a b", "/c")


def test_a_connection_made_later_is_followed(camera: Agent, viewer: Agent) -> None:
    with viewer.subscribe_graph("screen/input") as subscription:
        viewer.connect_topics("camera/frames", "screen/input")
        camera.publish("frames", "later")
        assert subscription.recv(TIMEOUT).content == "later"


def test_a_publisher_that_comes_later_is_followed(viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    with viewer.subscribe_graph("screen/input") as subscription, Agent(name="camera") as camera:
        wait_until(lambda: "camera frames" in sources(subscription))
        camera.publish("frames", "later")
        assert subscription.recv(TIMEOUT).content == "later"


@pytest.mark.parametrize("policy", [None, block(), mailbox()], ids=["drop", "block", "mailbox"])
def test_what_is_pending_of_a_path_that_ends_is_dropped_and_counted(
    camera: Agent, viewer: Agent, policy: Policy | None
) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    viewer.connect_topics("viewer/own", "screen/input")
    with viewer.subscribe_graph("screen/input", policy=policy) as subscription:
        wait_until(lambda: {"camera frames", "viewer own"} <= sources(subscription))
        for number in range(3):
            camera.publish("frames", number)
        viewer.publish("own", "kept")
        wait_until(lambda: subscription.pending == 4)
        viewer.disconnect_topics("camera/frames", "screen/input")
        wait_until(lambda: subscription.pending == 1)
        assert subscription.recv(TIMEOUT).content == "kept"
        assert (subscription.received, subscription.dropped) == (1, 3)


def test_after_a_path_has_ended_nothing_comes_over_it(camera: Agent, viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    with viewer.subscribe_graph("screen/input") as subscription:
        viewer.disconnect_topics("camera/frames", "screen/input")
        camera.publish("frames", "too late")
        viewer.connect_topics("viewer/own", "screen/input")
        viewer.publish("own", "next")
        assert subscription.recv(TIMEOUT).content == "next"


def test_one_policy_holds_for_all_publishers_together(camera: Agent, viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    viewer.connect_topics("viewer/own", "screen/input")
    with viewer.subscribe_graph("screen/input", policy=latest(1)) as subscription:
        wait_until(lambda: {"camera frames", "viewer own"} <= sources(subscription))
        camera.publish("frames", 1)
        wait_until(lambda: subscription.pending == 1)
        viewer.publish("own", 2)
        wait_until(lambda: subscription.dropped == 1)
        assert subscription.recv(TIMEOUT).content == 2


def publishers(workers: Workers, *names: str) -> list[Hand]:
    return [serve(workers, name, "frames", PZC_DISCOVERY_IP="off") for name in names]


@pytest.fixture
def registry(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Program]]:
    """Starts one, of which all that begins then is told."""
    with ExitStack() as stack:

        def start(endpoint: str = "tcp://127.0.0.1:0") -> Program:
            made = Program(
                forge,
                ("registry", "--bind", endpoint, "--state", "state.json", "--json"),
                tmp_path,
                dict(os.environ),
            )
            stack.callback(made.close)
            monkeypatch.setenv("PZC_REGISTRY", json.loads(made.line())["rep_endpoint"])
            return made

        monkeypatch.setenv("PZC_KEY", KEY)
        monkeypatch.setenv("PZC_DISCOVERY_IP", "off")
        yield start


def state(agent: Agent) -> str:
    """Whether a registry answers, as an agent tells of it."""
    return agent.statistics()["discovery"]["registry"]["state"]


@pytest.mark.slow
@acceptance("E5")
def test_publishers_of_two_processes_and_a_registry_that_is_killed(
    workers: Workers, registry: Callable[..., Program]
) -> None:
    first = registry()
    left, right = publishers(workers, "left", "right")
    with Agent(name="viewer") as viewer:
        viewer.connect_topics("left/frames", "screen/input")
        viewer.connect_topics("right/frames", "screen/input")
        with viewer.subscribe_graph("screen/input", policy=block()) as subscription:
            wait_until(lambda: {"left frames", "right frames"} <= sources(subscription))
            left.ask("publish", "frames", 1)
            assert subscription.recv(TIMEOUT).content == 1
            first.close()
            wait_until(lambda: state(viewer) != "connected")
            right.ask("publish", "frames", 2)
            assert subscription.recv(TIMEOUT).content == 2
            registry(os.environ["PZC_REGISTRY"])
            wait_until(lambda: state(viewer) == "connected")
            viewer.disconnect_topics("left/frames", "screen/input")
            left.ask("publish", "frames", 3)
            right.ask("publish", "frames", 4)
            assert subscription.recv(TIMEOUT).content == 4
            assert subscription.dropped == 0
            with pytest.raises(CycleRefused):
                viewer.connect_topics("screen/input", "right/frames")


@acceptance("E5")
def test_flows_lose_nothing_when_the_registry_dies_and_newcomers_connect_after_its_restart(
    workers: Workers, registry: Callable[..., Program]
) -> None:
    first = registry()
    (publisher,) = publishers(workers, "left")
    with Agent() as reader, reader.subscribe("left", "frames", policy=block()) as stream:
        for number in range(300):
            publisher.ask("publish", "frames", number)
            assert stream.recv(TIMEOUT).content == number
            if number == 100:
                first.close()
        assert stream.gaps == []
        registry(os.environ["PZC_REGISTRY"])
        late = workers.start()
        begun = time.monotonic()
        late.ask("subscribe", "late", "left", "frames", block(), how="collect")
        assert time.monotonic() - begun < 5.0
        number = publisher.ask("publish", "frames", "for both")
        assert late.ask("wait_for", "late", "found") == [(number, "for both")]
        assert stream.recv(TIMEOUT).content == "for both"


def test_a_closed_subscription_of_the_graph_follows_nothing(camera: Agent, viewer: Agent) -> None:
    subscription = viewer.subscribe_graph("screen/input")
    subscription.close()
    viewer.connect_topics("camera/frames", "screen/input")
    assert sources(subscription) == set()
    assert not camera.wait_for_subscribers("frames", 1, 0.05)
