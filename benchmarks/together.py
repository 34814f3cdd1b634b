"""One publisher with readers of all kinds at once, and what it costs it that one of them stands still."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import AnyCase, Bar, Participant
from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, ChildFailure, environment
from benchmarks.notification_cases import Effort

KINDS = ("latest", "mailbox", "broadcast")
"""Readers in processes of their own; the one with ``block`` is in the publisher's."""

FROZEN = "latest"
LOOK_AGAIN = 0.02


class TogetherTeam:
    """A publisher's process, and a process for each kind of reader.

    Args:
        count: notifications of 64 B in a round.
        frozen: the `FROZEN` reader stands still while they are published.
        core: that all share; None leaves them where the system puts them.
    """

    def __init__(self, count: int, frozen: bool, core: int | None) -> None:
        self._count, self._frozen, self._core = count, frozen, core
        self._publisher: Child | None = None
        self._readers: dict[str, Child] = {}
        self._published = 0

    def start(self, stack: ExitStack, key: str) -> None:
        """Start them; leaving the stack ends them."""
        variables = environment(key, {"PZC_DISCOVERY_IP": "off"})

        def child(*arguments: str) -> Child:
            return stack.enter_context(
                Child("together_end", *arguments, environment=variables, core=self._core)
            )

        self._publisher = child("publisher")
        address = self._publisher.receive(START_TIMEOUT)["address"]
        self._readers = {kind: child(kind, address) for kind in KINDS}
        for reader in self._readers.values():
            reader.receive(START_TIMEOUT)
        self._publish()
        self._wait()

    def round(self) -> float:
        """Notifications per second that are published."""
        if not self._frozen:
            rate = self._publish()
        else:
            os.kill(self._readers[FROZEN].pid, signal.SIGSTOP)
            try:
                rate = self._publish()
            finally:
                os.kill(self._readers[FROZEN].pid, signal.SIGCONT)
        self._wait()
        return rate

    def _publish(self) -> float:
        assert self._publisher is not None
        self._publisher.send(count=self._count)
        self._published += self._count
        return self._count / self._publisher.receive(ROUND_TIMEOUT)["seconds"]

    def _wait(self) -> None:
        """Until every reader has received or counted everything: nothing goes on into the next turn."""
        deadline = time.monotonic() + ROUND_TIMEOUT
        for kind, reader in self._readers.items():
            while (accounted := self._accounted(reader)) != self._published:
                if time.monotonic() > deadline or accounted > self._published:
                    raise ChildFailure(f"{kind}: {accounted} of {self._published} received or dropped")
                time.sleep(LOOK_AGAIN)

    @staticmethod
    def _accounted(reader: Child) -> int:
        reader.send(look=True)
        return reader.receive(ROUND_TIMEOUT)["accounted"]


@dataclass(frozen=True)
class TogetherCase(AnyCase):
    """The rate of a publisher with four kinds of readers.

    Attributes:
        size: bytes of a notification, of which an `Effort` says how many.
    """

    size: int = 64

    @property
    def members(self) -> Mapping[str, Participant]:
        """All readers run, or one stands still."""
        return {
            "running": Participant("pzc, all readers run"),
            "frozen": Participant("pzc, the latest(1) reader stands still"),
        }

    def team(self, name: str, effort: Any, core: int | None) -> TogetherTeam:
        """See `AnyCase.team`."""
        assert isinstance(effort, Effort)
        return TogetherTeam(effort.burst[self.size] // 5, name == "frozen", core)


TOGETHER = TogetherCase(
    "rate-64-together", "64 B, block, latest, mailbox and broadcast readers at once", "msg/s",
    bars=(Bar("frozen", "running", 0.95, at_least=True), Bar("running")),
)  # fmt: skip
"""A reader that stands still costs the others at most 5 %."""
