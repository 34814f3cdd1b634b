"""Ways into the package: nobody takes another for dead, the clock is set, mailboxes are forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pzc import Agent, Protocol
from pzc.testing import ShiftedClock, Timings

from tests.contract.rigs.peers import KEY
from tests.contract.rigs.workers import RANDOM_TCP, Worker


class Inside(Worker):
    """A worker with more words."""

    def be_patient(self) -> None:
        """From the next link on, take nobody for dead who is silent for less than an hour."""
        Timings(silence=3600.0).__enter__()

    def step_clock(self, seconds: float) -> None:
        """As if somebody set the clock of this machine."""
        ShiftedClock(seconds).__enter__()


@contextmanager
def inside(rep: str = RANDOM_TCP, pub: str = RANDOM_TCP) -> Iterator[Inside]:
    """Such a worker in this process."""
    with Agent(rep, pub, name="inside", protocol=Protocol(KEY)) as agent:
        yield Inside(agent)


def forget_silent_readers(publisher: Agent) -> None:
    """Let the mailboxes of a publisher believe that nobody polled for a day."""
    mailboxes = publisher._posting._boxes
    with publisher._outlets.lock:
        for day in (1, 2):
            mailboxes.tick(time.monotonic() + day * 86_400.0)
    publisher._posting._look()
