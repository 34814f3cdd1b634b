"""Publishers and readers of links for the tests; forced transports work inside one process, too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pzc import Agent, CallTimeout, Notification, Protocol, Subscription, block

from tests.contract.rigs.peers import KEY, TIMEOUT
from tests.contract.rigs.waiting import eventually

WAYS = ("inproc", "unix", "tcp")
OUTSIDE = ("unix", "tcp")


@contextmanager
def pair(key: str = KEY) -> Iterator[tuple[Agent, Agent]]:
    """A publisher and a reader."""
    with (
        Agent(name="publisher", protocol=Protocol(key)) as publisher,
        Agent(protocol=Protocol(key)) as reader,
    ):
        yield publisher, reader


def publish_until_full(publisher: Agent, topic: str, most: int = 1000) -> int:
    """How many publications return before one finds the window full; the readers' timeout must be short."""
    for count in range(most):
        try:
            publisher.publish(topic, count)
        except CallTimeout:
            return count
    return most


class Publishing(threading.Thread):
    """Publishes in a thread and counts the publications that returned."""

    def __init__(self, publisher: Agent, topic: str, contents: Any) -> None:
        super().__init__(daemon=True)
        self._publisher, self._topic, self._contents = publisher, topic, contents
        self._changed = threading.Condition()
        self.returned = 0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for content in self._contents:
                self._publisher.publish(self._topic, content)
                with self._changed:
                    self.returned += 1
                    self._changed.notify_all()
        except BaseException as exc:
            self.error = exc

    def wait_for(self, count: int) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self.returned >= count, TIMEOUT)
            return self.returned

    def finish(self) -> None:
        self.join(TIMEOUT)
        assert not self.is_alive()
        assert self.error is None, self.error


def read(subscription: Subscription, count: int) -> list[Any]:
    """Contents of the next notifications, each a copy."""
    return [subscription.recv(TIMEOUT).content for _ in range(count)]


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a state of which nobody tells."""
    eventually(condition)


SHORT = block(timeout=0.3)
LONG = block(timeout=TIMEOUT)

__all__ = [
    "LONG",
    "OUTSIDE",
    "SHORT",
    "WAYS",
    "Notification",
    "Publishing",
    "eventually",
    "pair",
    "publish_until_full",
    "read",
    "wait_until",
]
