"""What many of these tests ask for: worker processes, agents, streams, subscriptions without a publisher."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from pzc import Notification, Policy, Subscription, drop
from pzc.transport.executor import Executor

from tests.agents.scarcity import Scarcity
from tests.agents.subscriptions import Blocked, Make


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> Scarcity:
    """Every thread can be started, until one is named."""
    start, names = threading.Thread.start, Scarcity()

    def sometimes(self: threading.Thread) -> None:
        if self.name.startswith(tuple(names)):
            names.refused.set()
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    return names


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
