"""What many of these tests ask for: worker processes, agents, streams, subscriptions without a publisher."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pzc import Agent, Notification, Policy, Protocol, Subscription, drop
from pzc.agents.dispatch import Executor
from pzc.agents.sockets.stream import Stream

from tests.agents.piping import Link
from tests.agents.subscriptions import Blocked, Make
from tests.contract.rigs.peers import KEY


@pytest.fixture
def executor() -> Iterator[Executor]:
    made = Executor("pzc-test")
    yield made
    made.close()


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    made = Blocked()
    yield made
    made.opened.set()


@pytest.fixture
def make(executor: Executor) -> Iterator[Make]:
    """Makes subscriptions, and closes them."""
    made: list[Subscription] = []

    def subscription(
        callback: Callable[[Notification], object] | None = None,
        policy: Policy | None = None,
        key: str | None = None,
        thread: Executor = executor,
        on_close: Callable[[Subscription], None] = lambda _: None,
        topic: str = "t",
    ) -> Subscription:
        made.append(Subscription("p", topic, callback, policy or drop(), key, thread, on_close))
        return made[-1]

    yield subscription
    for each in made:
        each.close()


@pytest.fixture
def publisher() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as made:
        yield made


@pytest.fixture
def broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on take no links for `drop` and `latest` unless they are told to."""
    monkeypatch.setenv("PZC_TRANSPORT", "tcp")


@pytest.fixture
def pair(publisher: Agent, reader: Agent) -> tuple[Agent, Agent]:
    return publisher, reader


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    yield made
    made.close()


@pytest.fixture
def raw() -> Iterator[tuple[Stream, socket.socket]]:
    """A stream, and the bare socket of its peer."""
    one, two = socket.socketpair()
    stream = Stream(one)
    with two:
        yield stream, two
    stream.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    """Descriptors of three files."""
    fds = [os.open(tmp_path / name, os.O_CREAT | os.O_RDWR) for name in "abc"]
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
