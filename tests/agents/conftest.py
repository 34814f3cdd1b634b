"""What many of these tests ask for: subscriptions without a publisher, and their threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pzc import Notification, Policy, Subscription, drop
from pzc.transport.executor import Executor

from tests.agents.subscriptions import Blocked, Make


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
