"""Topics that flow into other topics, in one process and between several."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pzc import Agent, CycleRefused, Policy, Subscription, block, latest
from pzc.agents.notifying.gathering import Gathering

from tests.contract.rigs.peers import KEY
from tests.contract.rigs.peers import TIMEOUT as PATIENCE

PUBLISHER = """
import sys
from pzc import Agent
with Agent(name=sys.argv[1]) as agent:
    print(agent.rep_endpoint, flush=True)
    for line in sys.stdin:
        agent.publish("frames", line.strip())
"""

REGISTRY = """
import sys
from pzc.agents.naming.registry import Registry
registry = Registry(sys.argv[1], state=sys.argv[2])
print(registry.rep_endpoint, flush=True)
registry.serve_forever()
"""


def _until(condition: Callable[[], object]) -> None:
    """What is waited for here tells nobody when it comes."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "never"
        pause.wait(0.01)


def _sources(subscription: Subscription) -> set[str]:
    assert isinstance(subscription, Gathering)
    return {source.removeprefix("@@/") for source in subscription.sources}


class Child:
    """A process that prints one line once it is ready."""

    def __init__(self, code: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    started: list[Child] = []

    def start(code: str, *arguments: str) -> Child:
        started.append(Child(code, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.kill()


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


def test_a_connection_made_later_is_followed(camera: Agent, viewer: Agent) -> None:
    with viewer.subscribe_graph("screen/input") as subscription:
        viewer.connect_topics("camera/frames", "screen/input")
        _until(lambda: "camera frames" in _sources(subscription))
        camera.publish("frames", "later")
        assert subscription.recv(PATIENCE).content == "later"


def test_a_publisher_that_comes_later_is_followed(viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    with viewer.subscribe_graph("screen/input") as subscription, Agent(name="camera") as camera:
        _until(lambda: "camera frames" in _sources(subscription))
        camera.publish("frames", "later")
        assert subscription.recv(PATIENCE).content == "later"


@pytest.mark.parametrize("policy", [None, block()], ids=["drop", "block"])
def test_what_is_pending_of_a_path_that_ends_is_dropped_and_counted(
    camera: Agent, viewer: Agent, policy: Policy | None
) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    viewer.connect_topics("viewer/own", "screen/input")
    with viewer.subscribe_graph("screen/input", policy=policy) as subscription:
        _until(lambda: {"camera frames", "viewer own"} <= _sources(subscription))
        for number in range(3):
            camera.publish("frames", number)
        viewer.publish("own", "kept")
        _until(lambda: subscription.pending == 4)
        viewer.disconnect_topics("camera/frames", "screen/input")
        _until(lambda: subscription.pending == 1)
        assert subscription.recv(PATIENCE).content == "kept"
        assert (subscription.received, subscription.dropped) == (1, 3)


def test_after_a_path_has_ended_nothing_comes_over_it(camera: Agent, viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    with viewer.subscribe_graph("screen/input") as subscription:
        viewer.disconnect_topics("camera/frames", "screen/input")
        _until(lambda: "camera frames" not in _sources(subscription))
        camera.publish("frames", "too late")
        viewer.connect_topics("viewer/own", "screen/input")
        _until(lambda: "viewer own" in _sources(subscription))
        viewer.publish("own", "next")
        assert subscription.recv(PATIENCE).content == "next"


def test_one_policy_holds_for_all_publishers_together(camera: Agent, viewer: Agent) -> None:
    viewer.connect_topics("camera/frames", "screen/input")
    viewer.connect_topics("viewer/own", "screen/input")
    with viewer.subscribe_graph("screen/input", policy=latest(1)) as subscription:
        _until(lambda: {"camera frames", "viewer own"} <= _sources(subscription))
        camera.publish("frames", 1)
        _until(lambda: subscription.pending == 1)
        viewer.publish("own", 2)
        _until(lambda: subscription.dropped == 1)
        assert subscription.recv(PATIENCE).content == 2


def test_a_closed_subscription_follows_nothing(camera: Agent, viewer: Agent) -> None:
    subscription = viewer.subscribe_graph("screen/input")
    subscription.close()
    viewer.connect_topics("camera/frames", "screen/input")
    assert _sources(subscription) == set()
    assert viewer._subscribing.gatherings == {}


def test_publishers_of_two_processes_and_a_registry_that_is_killed(
    start: Callable[..., Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = str(tmp_path / "registry.json")
    monkeypatch.setenv("PZC_KEY", KEY)
    registry = start(REGISTRY, "tcp://127.0.0.1:0", state)
    monkeypatch.setenv("PZC_REGISTRY", registry.endpoint)
    monkeypatch.setenv("PZC_DISCOVERY_IP", "off")
    left, right = start(PUBLISHER, "left"), start(PUBLISHER, "right")
    with Agent(name="viewer") as viewer:
        viewer.connect_topics("left/frames", "screen/input")
        viewer.connect_topics("right/frames", "screen/input")
        with viewer.subscribe_graph("screen/input", policy=block()) as subscription:
            _until(lambda: {"left frames", "right frames"} <= _sources(subscription))
            left.say("1")
            assert subscription.recv(PATIENCE).content == "1"
            registry.kill()
            registering = viewer.topology._registering
            _until(lambda: registering.state != "connected")
            right.say("2")
            assert subscription.recv(PATIENCE).content == "2"
            start(REGISTRY, registry.endpoint, state)
            _until(lambda: registering.state == "connected")
            viewer.disconnect_topics("left/frames", "screen/input")
            _until(lambda: "left frames" not in _sources(subscription))
            left.say("3")
            right.say("4")
            assert subscription.recv(PATIENCE).content == "4"
            assert subscription.dropped == 0
            with pytest.raises(CycleRefused):
                viewer.connect_topics("screen/input", "right/frames")


def test_established_flows_lose_nothing_when_the_registry_dies_and_newcomers_connect_after_its_restart(
    start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = str(tmp_path / "registry.json")
    monkeypatch.setenv("PZC_KEY", KEY)
    registry = start(REGISTRY, "tcp://127.0.0.1:0", state)
    monkeypatch.setenv("PZC_REGISTRY", registry.endpoint)
    monkeypatch.setenv("PZC_DISCOVERY_IP", "off")
    publisher = start(PUBLISHER, "left")
    with Agent() as reader, reader.subscribe("left", "frames", policy=block()) as stream:
        for number in range(300):
            publisher.say(str(number))
            if number == 100:
                registry.kill()
        assert [stream.recv(PATIENCE).content for _ in range(300)] == [str(number) for number in range(300)]
        assert stream.gaps == []
        start(REGISTRY, registry.endpoint, state)
        monkeypatch.setenv("PZC_KEY", KEY)
        late = start(
            "import os, sys\nfrom pzc import Agent\n"
            "with Agent() as agent, agent.subscribe('left', 'frames', timeout=10) as late:\n"
            "    print('subscribed', flush=True)\n"
            "    print(late.recv(30).content, flush=True)\n    sys.stdin.read()\n"
        )
        assert late.endpoint == "subscribed"
        publisher.say("for both")
        assert late._process.stdout is not None
        assert late._process.stdout.readline() == "for both\n"
        assert stream.recv(PATIENCE).content == "for both"
