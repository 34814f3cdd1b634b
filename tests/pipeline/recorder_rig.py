"""Recorders and publishers in processes of their own, that are killed and come back."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pzc import Agent, Protocol
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.schema import segments
from pzc.testing import Timings

from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Forge, Hand, Workers
from tests.contract.rigs.workers import RANDOM_TCP

PATIENCE = 60.0
"""Seconds that anything may take on a busy machine."""

Numbers = dict[tuple[str, int, str], list[int]]


class Publisher:
    """Publishes two topics for as long as it lives, once it was told to; every method is a word."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._going = threading.Event()
        self._still = threading.Event()
        self._still.set()

    def endpoints(self) -> tuple[str, str]:
        return self.agent.rep_endpoint, self.agent.pub_endpoint

    def begin(self, pause: float) -> None:
        self._going.set()
        self._still.clear()
        threading.Thread(target=self._run, args=(pause,), daemon=True).start()

    def _run(self, pause: float) -> None:
        rest = threading.Event()
        number = 0
        while self._going.is_set():
            for topic in ("even", "odd"):
                self.agent.publish(topic, number)
            number += 1
            rest.wait(pause)
        self._still.set()

    def publish(self, topic: str, contents: list[Any]) -> int:
        """The topic's last number."""
        last = 0
        for content in contents:
            last = self.agent.publish(topic, content)
        return last

    def end(self) -> dict[str, int]:
        """Publish no more; the last number of each topic."""
        self._going.clear()
        self._still.wait(PATIENCE)
        topics = self.agent.statistics()["topics"]
        return {topic: about["published"] for topic, about in topics.items()}

    def state(self) -> tuple[str, int, int, int]:
        """Agent id, epoch, and what its mailbox has had acknowledged, and has lost."""
        boxes = self.agent.statistics()["mailboxes"]
        counts = [sum(each[name] for each in boxes) for name in ("delivered", "evicted")]
        return self.agent.agent_id, self.agent.epoch, counts[0], counts[1]

    def waiting(self) -> int:
        return sum(each["waiting"] for each in self.agent.statistics()["mailboxes"])


@contextmanager
def publishing(rep: str = RANDOM_TCP, pub: str = RANDOM_TCP) -> Iterator[Publisher]:
    with Agent(rep, pub, name="scope", protocol=Protocol(KEY)) as agent:
        yield Publisher(agent)


class Recording:
    """What a recorder does when it is told; every method is a word."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def statistics(self) -> dict[str, Any]:
        return self.recorder.statistics()


@contextmanager
def recording(directory: str, endpoint: str, options: dict[str, Any]) -> Iterator[Recording]:
    with (
        Timings(mail_patience=0.5),  # what a killed publisher does not answer is asked again soon
        Recorder(directory, [endpoint], name="r", protocol=Protocol(KEY), **options) as recorder,
    ):
        yield Recording(recorder)


class Lab(Workers):
    """One publisher and one recorder; both are killed at the end."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._forge_made = Forge()
        super().__init__(self._forge_made)
        self.callback(self._forge_made.close)
        self.directory = directory
        self._options = options
        self._places: tuple[str, ...] = ()
        self.start_publisher()
        self._places = self.source.ask("endpoints")
        self.start_recorder()

    def start_publisher(self) -> Hand:
        self.source = Hand(self._forge_made, *self._places, make=publishing)
        self.callback(self.source.kill)
        return self.source

    def start_recorder(self) -> Hand:
        self.writer = Hand(
            self._forge_made, str(self.directory), self._places[0], self._options, make=recording
        )
        self.callback(self.writer.kill)
        return self.writer


def recorded(directory: Path) -> Numbers:
    """The distinct numbers of each publisher, epoch and topic in a journal."""
    found: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for _, path in segments(directory):
        table = pq.read_table(path, columns=["publisher", "epoch", "topic", "sequence"])
        for publisher, epoch, topic, sequence in zip(*(each.to_pylist() for each in table), strict=True):
            found[publisher, epoch, topic].add(sequence)
    return {key: sorted(numbers) for key, numbers in found.items()}
