"""Workers for readers of all kinds at once: contents that count their unpickling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from pzc import Agent, Policy, Protocol, drop, latest, mailbox

from tests.contract.rigs.evidence import payload
from tests.contract.rigs.pairs import LONG
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.workers import RANDOM_TCP, Worker

LARGE = 200_000
MANY = 10_000
MIXED = [LARGE if number % 100 == 0 else number % 300 for number in range(MANY)]
"""Sizes of payloads, small ones and some that go through shared memory."""


class Made(np.ndarray[Any, Any]):
    """A payload; whoever unpickles one gets its array, and is counted for its number."""

    unpickled: ClassVar[Counter[int]] = Counter()
    number = 0

    def __reduce_ex__(self, protocol: object) -> Any:
        return _unpickle, (self.number, np.asarray(self))


def made(number: int, size: int) -> Made:
    """A payload that counts."""
    found = payload(number, size).view(Made)
    found.number = number
    return found


def _unpickle(number: int, array: Any) -> Any:
    Made.unpickled[number] += 1
    return array


class Together(Worker):
    """A worker whose contents count how often they are unpickled."""

    def publish_counted(self, sizes: list[int], first: int = 1) -> int:
        """As `publish` of topic ``t``, with contents that count."""
        last = 0
        for number, size in enumerate(sizes, first):
            last = self.agent.publish("t", made(number, size))
        return last

    def unpickled_numbers(self) -> dict[int, int]:
        """How often each was unpickled here."""
        return dict(Made.unpickled)


@contextmanager
def together(rep: str = RANDOM_TCP, pub: str = RANDOM_TCP) -> Iterator[Together]:
    """Such a worker in this process."""
    with Agent(rep, pub, name="together", protocol=Protocol(KEY)) as agent:
        yield Together(agent)


KINDS: dict[str, tuple[Policy, str, str]] = {
    "block": (LONG, "inproc", "inproc"),
    "latest": (latest(1), "unix", "unix"),
    "mailbox": (mailbox(), "tcp", "tcp"),
    "broadcast": (drop(), "tcp", "tcp"),
}
"""Policy, transport that is asked for, and the one that is got."""
