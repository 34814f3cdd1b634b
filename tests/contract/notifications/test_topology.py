"""Connected topics: whoever changes the graph knows when subscriptions have followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pzc import Agent

from tests.contract.rigs.naming import registry
from tests.contract.rigs.peers import TIMEOUT


@pytest.fixture(params=["without registry", "with registry"])
def agents(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Agent, Agent]]:
    """A publisher called camera, and another agent of this process."""
    with ExitStack() as stack:
        if request.param == "with registry":
            monkeypatch.setenv("PZC_REGISTRY", stack.enter_context(registry()))
        camera = stack.enter_context(Agent(name="camera"))
        viewer = stack.enter_context(Agent(name="viewer"))
        yield camera, viewer
        for source, target in viewer.topic_connections():
            viewer.disconnect_topics(source, target)


def test_a_publication_right_behind_a_change_of_the_graph_goes_where_it_leads(
    agents: tuple[Agent, Agent],
) -> None:
    camera, viewer = agents
    with viewer.subscribe_graph("screen/input") as first, viewer.subscribe_graph("screen/input") as second:
        for number in range(8):
            viewer.connect_topics("camera/frames", "screen/input")
            camera.publish("frames", number)
            assert [each.recv(TIMEOUT).content for each in (first, second)] == [number, number]
            viewer.disconnect_topics("camera/frames", "screen/input")
            camera.publish("frames", "to nobody")
            assert [each.pending for each in (first, second)] == [0, 0]


def test_a_change_of_the_graph_waits_for_no_publisher_that_is_not_there(agents: tuple[Agent, Agent]) -> None:
    _, viewer = agents
    with viewer.subscribe_graph("screen/input"):
        viewer.connect_topics("nobody/frames", "screen/input", timeout=TIMEOUT)
        assert ("/nobody/frames", "/screen/input") in viewer.topic_connections()
