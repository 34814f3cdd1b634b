"""``@agent.on`` and callbacks that are coroutine functions."""

from __future__ import annotations

import functools
import queue
from typing import Any

import pytest

from pzc import Notification, latest
from pzc.agents.signals import is_awaited

from tests.contract.rigs.pairs import LONG, WAYS, pair
from tests.contract.rigs.peers import TIMEOUT
from tests.contract.rigs.turns import turns

every_way = pytest.mark.parametrize("way", WAYS)


@every_way
def test_a_decorated_coroutine_is_awaited_in_order(way: str) -> None:
    found: queue.Queue[Any] = queue.Queue()
    with pair() as (publisher, reader):

        @reader.on(publisher.rep_endpoint, "t", policy=LONG, transport=way)
        async def take(notification: Notification) -> None:
            await turns()
            found.put(notification.content)

        for number in range(20):
            publisher.publish("t", number)
        assert [found.get(timeout=TIMEOUT) for _ in range(20)] == list(range(20))
        assert is_awaited(take)


def test_the_options_are_those_of_subscribe() -> None:
    with pair() as (publisher, reader):
        reader.on(publisher.rep_endpoint, "t", policy=latest(3), key="a", throttle=5)(print)
        (subscription,) = reader._subscribing.subscriptions()
        assert (subscription.policy, subscription.key, subscription.throttle) == (latest(3), "a", 5)


class Called:
    async def __call__(self, notification: Notification) -> None:
        """Await nothing."""


async def _coroutine(first: int, notification: Notification) -> None:
    """Await nothing."""


@pytest.mark.parametrize(
    ("callback", "awaited"),
    [
        (Called(), True),
        (functools.partial(_coroutine, 1), True),
        (print, False),
        (None, False),
        (Called, False),
    ],
)
def test_what_is_awaited(callback: object, awaited: bool) -> None:
    assert is_awaited(callback) is awaited
