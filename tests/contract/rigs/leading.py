"""Readers of links whose own thread receives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pzc import Agent, Subscription

from tests.contract.rigs.pairs import LONG, pair
from tests.contract.rigs.peers import TIMEOUT


class Witness:
    """Knows in which thread it was decoded, which is the one that received it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.thread = 0

    def __setstate__(self, state: dict[str, int]) -> None:
        self.number, self.thread = state["number"], threading.get_ident()

    def __deepcopy__(self, memo: object) -> Witness:
        return self  # else the copy would be made where it is read


@contextmanager
def reading() -> Iterator[tuple[Agent, Agent, Subscription]]:
    with pair() as (publisher, reader):
        yield publisher, reader, reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")


def lead(publisher: Agent, subscription: Subscription) -> int:
    """Publish and take until this thread receives by itself; how many that were."""
    for count in range(1, 500):
        publisher.publish("t", Witness(count))
        if subscription.recv(TIMEOUT).content.thread == threading.get_ident():
            return count
    raise AssertionError("this thread never received by itself")


class Waiting(threading.Thread):
    """Leads, and then waits for one more."""

    def __init__(self, publisher: Agent, subscription: Subscription) -> None:
        super().__init__(daemon=True)
        self._publisher, self._subscription = publisher, subscription
        self.leads = threading.Event()
        self.got: list[Any] = []
        self.start()

    def run(self) -> None:
        lead(self._publisher, self._subscription)
        self.leads.set()
        try:
            self.got.append(self._subscription.recv(TIMEOUT).content)
        except Exception as exc:
            self.got.append(exc)

    def finish(self) -> Any:
        self.join(TIMEOUT)
        return self.got[0]
