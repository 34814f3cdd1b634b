"""The processes of one contender in a case of notifications: a writer, and readers that get what it sends."""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.children import ROUND_TIMEOUT, START_TIMEOUT, Child, ChildFailure, environment
from benchmarks.ends import Setting
from benchmarks.leftovers import Leftovers

MARK_INTERVAL = 0.05
"""Seconds between two payloads that only find out whether the readers are there."""


@dataclass(frozen=True)
class Plan:
    """What one contender does in a round.

    Attributes:
        kind: out of `notification_end.KINDS`; empty for the copy in memory.
        size: bytes of a payload.
        readers: processes that read.
        job: of the writer, with its arguments.
        reading: arguments of the readers' `Taking`.
        judge: what the value of the round is, out of `JUDGES`.
        own: of the library's ends.
        patience: seconds that a reader may take to start.
        warm: there is a round before the first one.
        python: interpreter of the processes.
    """

    kind: str
    size: int
    readers: int
    job: Mapping[str, Any]
    reading: Mapping[str, Any]
    judge: str
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    patience: float = START_TIMEOUT
    warm: bool = True
    python: str = sys.executable


class NotificationTeam:
    """A writer's process and its readers' processes.

    Args:
        plan: what they do.
        variables: of the environment of all of them.
        core: that all share; None leaves them where the system puts them.
    """

    def __init__(self, plan: Plan, variables: Mapping[str, str], core: int | None) -> None:
        self._plan = plan
        self._variables = variables
        self._core = core
        self._writer: Child | None = None
        self._readers: list[Child] = []
        self._token = secrets.token_hex(8)
        self._leftovers = Leftovers(self._token)

    def start(self, stack: ExitStack, key: str) -> None:
        """Start them, let them meet, and do a round that does not count: memory is warm from then on.

        Leaving the stack ends them and removes what they left.
        """
        plan = self._plan
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pzc-bench-"))
        setting = Setting(plan.size, plan.readers, self._token, folder, dict(plan.own))
        text = json.dumps(asdict(setting))
        variables = environment(key, self._variables)
        stack.callback(self._leftovers.sweep)

        def child(*arguments: str) -> Child:
            return stack.enter_context(
                Child(
                    "notification_end",
                    *arguments,
                    environment=variables,
                    core=self._core,
                    label=f"{arguments[0]} of {plan.kind}",
                    python=plan.python,
                )
            )

        self._writer = child("writer" if plan.kind else "copy", plan.kind, text)
        address = self._writer.receive(START_TIMEOUT)["address"]
        self._readers = [child("reader", plan.kind, text, address) for _ in range(plan.readers)]
        stack.callback(self._note)
        for reader in self._readers:
            reader.receive(plan.patience)
        self._meet()
        if plan.warm:
            self.round()

    def _note(self) -> None:
        for each in (self._writer, *self._readers):
            if each is not None:
                self._leftovers.note(each.pid)

    def round(self) -> float:
        """Let the writer do its job once and the readers take what comes."""
        writer, plan = self._there(), self._plan
        if not plan.kind:
            writer.send(**plan.job)
            return writer.receive(ROUND_TIMEOUT)["value"]
        self._tell_readers(**plan.reading)
        writer.send(**plan.job)
        sent = writer.receive(ROUND_TIMEOUT)["sent"]
        answers = self._marked() if plan.reading.get("lossy") else self._answers()
        self._note()
        return JUDGES[plan.judge](sent, answers, plan)

    def _there(self) -> Child:
        assert self._writer is not None
        return self._writer

    def _tell_readers(self, **reading: Any) -> None:
        for reader in self._readers:
            reader.send(**reading)
        for reader in self._readers:
            reader.receive(START_TIMEOUT)

    def _answers(self) -> list[dict[str, Any]]:
        return [reader.receive(ROUND_TIMEOUT) for reader in self._readers]

    def _meet(self) -> None:
        """Until every reader has got something, so that nothing of a round comes before its readers."""
        if self._readers:
            self._tell_readers(count=0, check=False)
            self._marked()

    def _marked(self) -> list[dict[str, Any]]:
        """Send marks until every reader has answered."""
        answers: list[dict[str, Any]] = []
        deadline = time.monotonic() + ROUND_TIMEOUT
        for reader in self._readers:
            while not reader.told(MARK_INTERVAL):
                if time.monotonic() > deadline:
                    raise ChildFailure(f"{reader.name} got nothing within {ROUND_TIMEOUT:g} s")
                self._there().send(job="mark")
                self._there().receive(ROUND_TIMEOUT)
            answers.append(reader.receive(ROUND_TIMEOUT))
        return answers


Answers = Sequence[Mapping[str, Any]]


def _latency(sent: list[int], answers: Answers, plan: Plan) -> float:
    """Median time in microseconds from a payload's sending to its being read, the first ones left out."""
    warm = len(sent) // 20 + 1
    taken = [came - sent[number - 1] for each in answers for number, came in each["came"] if number > warm]
    if not taken:
        raise ChildFailure(f"{plan.kind}: nothing came")
    return statistics.median(taken) / 1e3


def _rate(sent: list[int], answers: Answers, plan: Plan) -> float:
    """Payloads per second and reader, from the first one's sending until the last reader had the last one."""
    if not all(each["came"] for each in answers):
        raise ChildFailure(f"{plan.kind}: nothing came")
    seconds = max(each["came"][-1][1] for each in answers) - sent[0]
    return min(each["received"] for each in answers) / (seconds / 1e9)


def _used(sent: list[int], answers: Answers, plan: Plan) -> float:
    """Microseconds of processor time that a reader used per payload."""
    return max(each["used"] / each["received"] for each in answers) / 1e3


def _memory(sent: list[int], answers: Answers, plan: Plan) -> float:
    """What the writer grew by, in MiB."""
    return sent[0] / (1 << 20)


JUDGES = {"latency": _latency, "rate": _rate, "used": _used, "memory": _memory}
