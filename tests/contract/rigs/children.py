"""Publishers in processes of their own, forked by the forge of the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pzc import Agent, Protocol

from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Hand, forge_of_the_run
from tests.contract.rigs.workers import RANDOM_TCP


class Publisher(Agent):
    """``[topic, n]`` makes it publish 0 to n-1, and reply with the numbers."""

    def on_request(self, sender: str, topic: str, content: Any, msgid: bytes | str) -> Any:
        topic, count = content
        return [self.publish(topic, number) for number in range(count)]

    def endpoints(self) -> tuple[str, str]:
        """Where it is."""
        return self.rep_endpoint, self.pub_endpoint


@contextmanager
def publishing(rep: str, pub: str, key: str) -> Iterator[Publisher]:
    """Such an agent in this process."""
    with Publisher(rep, pub, name="child", protocol=Protocol(key)) as agent:
        yield agent


class Child:
    """A `Publisher` in a process of its own.

    Args:
        rep: where it answers.
        pub: where it publishes.
        key: that it signs with.

    Attributes:
        rep: where it answers.
        pub: where it publishes.
    """

    def __init__(self, rep: str = RANDOM_TCP, pub: str = RANDOM_TCP, key: str = KEY) -> None:
        self._hand = Hand(forge_of_the_run(), rep, pub, key, make=publishing)
        self.rep, self.pub = self._hand.ask("endpoints")

    def freeze(self) -> None:
        """Return when it stands still."""
        self._hand.freeze()

    def thaw(self) -> None:
        self._hand.thaw()

    def kill(self) -> None:
        """Return when it has gone."""
        self._hand.kill()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
