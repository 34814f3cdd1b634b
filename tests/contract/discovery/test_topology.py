"""Topics that flow into other topics, in one process and between several."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Agent, ConfigError, CycleRefused, UnknownName, block

from tests.contract.rigs.peers import TIMEOUT as PATIENCE


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
        got = subscription.recv(PATIENCE)
    assert (got.name, got.topic, got.content) == ("camera", "frames", "one")


def test_a_node_that_is_published_itself_gives_that_too(camera: Agent, viewer: Agent) -> None:
    with viewer.subscribe_graph("camera/frames") as subscription:
        camera.publish("frames", "own")
        assert subscription.recv(PATIENCE).content == "own"


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
        assert [subscription.recv(PATIENCE).content for _ in range(2)] == ["one", "two"]
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
