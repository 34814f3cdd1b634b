"""Knocking: a connection to a Unix listener in the hands of a test."""

from __future__ import annotations

import threading
import time
from typing import Any

from pzc import Agent, Protocol
from pzc.protocol.frames import PZC01, Buffer, Kind
from pzc.transport import greeting

from tests.contract.rigs.calling import KEY, TIMEOUT

NEVER = threading.Event()
ME = "f" * 32


class Knocker:
    """A connection to a fast lane in the hands of a test, which speaks as agent ``ME``."""

    def __init__(self, agent: Agent, key: str = KEY) -> None:
        self._protocol = Protocol(key)
        self._to = agent.agent_id
        self.stream, self.nonce = greeting.connect(agent.agent_id, agent.rep_endpoint)

    def frames(self, content: object, nonce: str | None = None) -> list[Buffer]:
        receiver = f"{self._to}/{self.nonce if nonce is None else nonce}"
        return self._protocol.encode(ME, "", content, receiver=receiver, dialect=PZC01)

    def send(self, frames: list[Buffer]) -> None:
        self.stream.send(frames, time.monotonic() + TIMEOUT)

    def receive(self) -> Any:
        frames = self.stream.receive(time.monotonic() + TIMEOUT, NEVER)
        envelope = self._protocol.open(
            frames, Kind.REPLY, receiver=f"{ME}/{self.nonce}", judge_time=False
        )  # fmt: skip
        return self._protocol.content(envelope)

    def ask(self, content: object) -> Any:
        self.send(self.frames(content))
        return self.receive()
