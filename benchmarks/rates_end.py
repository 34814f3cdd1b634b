"""One process of `rates`: ``python -m benchmarks.rates_end``; a publisher, a reader, or both.

It does what its lines say: ``open`` tells the agent's address, ``subscribe`` begins a case, ``flood``
publishes as fast as it goes, ``count`` tells how far the subscription is, ``close`` ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from pzc import Agent, Notification, Subscription, block, drop, latest, mailbox

from benchmarks.children import Parent
from benchmarks.ends import SMALL

POLICIES = {"drop": drop, "latest": latest, "block": block, "mailbox": mailbox}


class End:
    """What the lines are done by."""

    def __init__(self, stack: ExitStack) -> None:
        self._agent = stack.enter_context(Agent())
        self._subscription: Subscription | None = None
        self._came = 0.0

    def open(self) -> dict[str, Any]:
        """Where it can be read."""
        return {"address": self._agent.rep_endpoint}

    def subscribe(self, address: str, topic: str, policy: str, options: dict[str, Any]) -> dict[str, Any]:
        """Read a topic; the carrier is that of ``options``."""
        how: Any = self._agent.subscribe
        self._subscription = how(address, topic, self._take, policy=POLICIES[policy](), **options)
        return {}

    def _take(self, notification: Notification) -> None:
        del notification
        self._came = time.monotonic()

    def flood(self, topic: str, size: int, seconds: float) -> dict[str, Any]:
        """Publish contents of one size, one after the other."""
        content: Any = bytes(size) if size <= SMALL else np.zeros(size, np.uint8)
        publish, published, longest = self._agent.publish, 0, 0.0
        if not self._agent.wait_for_subscribers(topic):
            raise TimeoutError(f"nobody reads {topic}")
        used, now = time.process_time(), time.monotonic()
        began = now
        while now - began < seconds:
            before = now
            publish(topic, content)
            published += 1
            now = time.monotonic()
            longest = max(longest, now - before)
        return {
            "published": published, "began": began, "took": now - began, "longest": longest,
            "used": time.process_time() - used,
        }  # fmt: skip

    def count(self) -> dict[str, Any]:
        """How far the subscription is."""
        subscription = self._subscription
        assert subscription is not None
        return {
            "received": subscription.received, "dropped": subscription.dropped, "came": self._came,
            "used": time.process_time(), "transport": subscription.transport,
        }  # fmt: skip

    def close(self) -> dict[str, Any]:
        """End the subscription."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        return {}


def main() -> None:
    parent = Parent()
    try:
        with ExitStack() as stack:
            end = End(stack)
            actions: dict[str, Callable[..., dict[str, Any]]] = {
                "open": end.open, "subscribe": end.subscribe, "flood": end.flood, "count": end.count,
                "close": end.close,
            }  # fmt: skip
            for line in parent.commands():
                parent.tell(**actions[line.pop("do")](**line))
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
