"""What agents cost that do nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases import AnyCase, Bar, Participant
from benchmarks.children import ROUND_TIMEOUT, Child, environment
from benchmarks.notification_cases import Effort

EACH = 10
"""Agents of one process."""

SETTLE = 5.0
"""Seconds until processes that found one another have nothing more to say."""


class IdleTeam:
    """Processes with idle agents.

    Args:
        processes: how many.
        own: of their environment.
        subscribed: every agent reads something of the agent before it, which publishes nothing.
        seconds: of a round.
        core: that all share; None leaves them where the system puts them.
    """

    def __init__(
        self, processes: int, own: Mapping[str, str], subscribed: bool, seconds: float, core: int | None
    ) -> None:
        self._processes, self._own, self._subscribed = processes, own, subscribed
        self._seconds, self._core = seconds, core
        self._children: list[Child] = []

    def start(self, stack: ExitStack, key: str) -> None:
        """Start them one by one, each behind the one before; leaving the stack ends them."""
        variables, address = environment(key, self._own), ""
        for _ in range(self._processes):
            arguments = (str(EACH), address if self._subscribed else "")
            child = Child("idle_end", *arguments, environment=variables, core=self._core)
            self._children.append(stack.enter_context(child))
            address = child.receive(ROUND_TIMEOUT)["address"]
        time.sleep(SETTLE)

    def round(self) -> float:
        """Processor time of all of them together, in percent of one core."""
        before, began = self._used(), time.monotonic()
        time.sleep(self._seconds)
        return (self._used() - before) / (time.monotonic() - began) * 100

    def _used(self) -> float:
        for child in self._children:
            child.send(used=True)
        return sum(child.receive(ROUND_TIMEOUT)["used"] for child in self._children)


@dataclass(frozen=True)
class Idle(Participant):
    """Agents that do nothing.

    Attributes:
        subscribed: to one another.
    """

    subscribed: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class IdleCase(AnyCase):
    """What many idle agents cost.

    Attributes:
        processes: that share them.
    """

    processes: int = 20

    @property
    def members(self) -> Mapping[str, Idle]:
        """With and without subscriptions, with and without discovery."""
        off = {"PZC_DISCOVERY_IP": "off"}
        return {
            "ours": Idle("pzc, subscribed to one another", subscribed=True),
            "alone": Idle("pzc, alone"),
            "off": Idle("pzc, without discovery", environment=off),
        }

    def team(self, name: str, effort: Any, core: int | None) -> IdleTeam:
        """See `AnyCase.team`."""
        assert isinstance(effort, Effort)
        who = self.members[name]
        return IdleTeam(self.processes, who.environment, who.subscribed, effort.idle, core)


IDLE = IdleCase(
    "idle", "200 idle agents in 20 processes, of one core", "%",
    bars=(Bar("ours", limit=2.0), Bar("alone", limit=2.0), Bar("off")),
)  # fmt: skip
