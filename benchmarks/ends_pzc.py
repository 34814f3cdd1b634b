"""Ours: every notification is signed, numbered, and dropped or waited for as its policy says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pzc import Agent, Notification, block, drop, latest

from benchmarks.ends import ROUND_LIMIT, TOPIC, Array, CallbackReader, Setting, Take, Writer, late
from benchmarks.jobs import WrongResult

POLICIES = {"block": block, "drop": drop, "latest": latest}
COUNT_TIMEOUT = 5.0


class PzcWriter(Writer):
    """An agent that publishes; ``buffers`` of its own topic when told."""

    def __init__(self, setting: Setting) -> None:
        self.agent = Agent()
        self.address = self.agent.rep_endpoint
        if "buffers" in setting.own:
            advertise: Any = getattr(self.agent, "advertise")  # noqa: B009
            advertise(TOPIC, buffers=setting.own["buffers"])
        self._publish = self.agent.publish

    def send(self, payload: Any) -> None:
        """Publish it."""
        self._publish(TOPIC, payload)

    def loan(self, count: int) -> AbstractContextManager[Array]:
        """A block of the agent's ring."""
        loan: Any = getattr(self.agent, "loan")  # noqa: B009
        return loan(TOPIC, (count,), "float64")

    def close(self) -> None:
        """Stop the agent."""
        self.agent.stop()


def subscribe(agent: Agent, address: str, topic: str, callback: Any, own: dict[str, Any]) -> Any:
    """A subscription as ``own`` describes it: policy, its arguments, transport."""
    policy = POLICIES[own.get("policy", "block")](**own.get("bounds", {}))
    transport = {"transport": own["transport"]} if "transport" in own else {}
    how: Any = agent.subscribe
    return how(address, topic, callback, policy=policy, **transport)


class PzcReader(CallbackReader):
    """An agent that subscribes; ``take`` is its own: ``callback``, ``recv`` or ``recv_zero_copy``."""

    def __init__(self, setting: Setting, address: str) -> None:
        super().__init__()
        self._agent = Agent()
        self._mode = setting.own.get("take", "callback")
        callback = self._notified if self._mode == "callback" else None
        self._last = 0
        self._subscription = subscribe(self._agent, address, TOPIC, callback, setting.own)

    def _notified(self, notification: Notification) -> None:
        self._last = notification.sequence
        self.arrived(notification.content)

    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """See `Reader.read`."""
        if self._mode == "callback":
            super().read(take, ready)
        else:
            ready()
            self._pull(take)

    def _pull(self, take: Take) -> None:
        deadline = time.monotonic() + ROUND_LIMIT
        done = False
        while not done:
            left = deadline - time.monotonic()
            if left <= 0:
                raise late()
            if self._mode == "recv":
                notification = self._subscription.recv(left)
                self._last, done = notification.sequence, take(notification.content)
                del notification
                continue
            with self._subscription.recv_zero_copy(left) as notification:
                self._last, done = notification.sequence, take(notification.content)

    def check(self) -> None:
        """Received and dropped must make up all that was published up to the last one that came."""
        deadline = time.monotonic() + COUNT_TIMEOUT
        while (counted := self._subscription.received + self._subscription.dropped) != self._last:
            if time.monotonic() > deadline:  # until then, another one may have come between the two looks
                raise WrongResult(f"received and dropped are {counted}, published were {self._last}")
            time.sleep(0.01)

    def close(self) -> None:
        """Stop the agent."""
        self._agent.stop()
