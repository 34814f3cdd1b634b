"""One publisher with readers of all kinds at once: what they cost together, and one that stands still."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import AnyCase, Bar, Best, Participant
from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, ChildFailure, environment
from benchmarks.notification_cases import Effort

FROZEN = "latest"
LOOK_AGAIN = 0.02


@dataclass(frozen=True)
class Readers(Participant):
    """Who reads what one publisher publishes.

    Attributes:
        kinds: of the readers in processes of their own, out of `together_end.POLICIES`.
        near: one more, with ``block``, is in the publisher's process.
        frozen: the `FROZEN` one stands still while something is published.
    """

    kinds: tuple[str, ...]
    near: bool = False
    frozen: bool = False


class TogetherTeam:
    """A publisher's process, and a process for each kind of reader.

    Args:
        readers: who reads.
        count: notifications of 64 B in a round.
        cost: a round gives microseconds of the publishing thread's processor time per notification, else
            notifications per second.
        core: that all share; None leaves them where the system puts them.
    """

    def __init__(self, readers: Readers, count: int, cost: bool, core: int | None) -> None:
        self._who, self._count, self._cost, self._core = readers, count, cost, core
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

        self._publisher = child("reader and publisher" if self._who.near else "publisher")
        address = self._publisher.receive(START_TIMEOUT)["address"]
        self._readers = {kind: child(kind, address) for kind in self._who.kinds}
        for reader in self._readers.values():
            reader.receive(START_TIMEOUT)
        self._publish()
        self._wait()

    def round(self) -> float:
        """What publishing that many gave."""
        if not self._who.frozen:
            value = self._publish()
        else:
            os.kill(self._readers[FROZEN].pid, signal.SIGSTOP)
            try:
                value = self._publish()
            finally:
                os.kill(self._readers[FROZEN].pid, signal.SIGCONT)
        self._wait()
        return value

    def _publish(self) -> float:
        assert self._publisher is not None
        self._publisher.send(count=self._count)
        self._published += self._count
        told = self._publisher.receive(ROUND_TIMEOUT)
        return told["used"] / self._count * 1e6 if self._cost else self._count / told["seconds"]

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
    """A publisher with readers of several kinds.

    Attributes:
        readers: who reads, by name.
        cost: see `TogetherTeam`.
        size: bytes of a notification, of which an `Effort` says how many.
    """

    readers: Mapping[str, Readers]
    cost: bool = False
    size: int = 64

    @property
    def members(self) -> Mapping[str, Participant]:
        """As `readers`."""
        return self.readers

    def team(self, name: str, effort: Any, core: int | None) -> TogetherTeam:
        """See `AnyCase.team`."""
        assert isinstance(effort, Effort)
        return TogetherTeam(self.readers[name], effort.burst[self.size] // 5, self.cost, core)


ALL = ("latest", "mailbox", "broadcast")
TOGETHER = TogetherCase(
    "rate-64-together", "64 B, block, latest, mailbox and broadcast readers at once", "msg/s",
    {
        "running": Readers("pzc, all readers run", ALL, near=True),
        "frozen": Readers("pzc, the latest(1) reader stands still", ALL, near=True, frozen=True),
    },
    bars=(Bar("frozen", "running", 0.95, at_least=True), Bar("running")),
)  # fmt: skip
"""A reader that stands still costs the others at most 5 %."""


def _mixed(key: str, title: str, each: tuple[str, ...]) -> TogetherCase:
    """No cliff: kinds of readers at once cost little more than the dearest of them."""
    return TogetherCase(
        key, f"processor time of `publish`, 64 B, {title}", "us",
        {
            "all": Readers("pzc, all three", each),
            **{kind: Readers(f"pzc, {kind} alone", (kind,)) for kind in each},
        },
        cost=True, bars=(Bar("all", "dearest", 1.3), *(Bar("all", kind) for kind in each)),
        derived={"dearest": Best(each, highest=True)},
    )  # fmt: skip


MIXED = (
    _mixed("cost-64-mixed", "a block, a broadcast and a mailbox reader", ("block", "broadcast", "mailbox")),
    _mixed("cost-64-mixed-wide", "the same, the block of 1000 slots", ("wide block", "broadcast", "mailbox")),
)
