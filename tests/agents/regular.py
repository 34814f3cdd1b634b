"""A client of a served object in the hands of a test, for the tests of the short cut over tcp."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Protocol, Server
from pzc.agents.messages import read_refusal
from pzc.agents.serving import regulars
from pzc.protocol.frames import PZC01, Kind
from pzc.protocol.ids import Stamp

from tests.contract.rigs.calling import KEY, TIMEOUT, Frames, RawPeer

ME, OTHER = "ab" * 16, "cd" * 16
COUNT = ("PSMessage", "exec", {"name": "count", "method": "__call__"})


class Bench:
    """Counts its calls; some of which wait until they are let go."""

    def __init__(self) -> None:
        self.calls = 0
        self.slow = False
        self.entered, self.opened = threading.Event(), threading.Event()
        self.ran_in: list[threading.Thread] = []

    def count(self) -> int:
        self.ran_in.append(threading.current_thread())
        self.calls += 1
        if self.slow:
            self.wait()
        return self.calls

    def wait(self) -> None:
        self.ran_in.append(threading.current_thread())
        self.entered.set()
        assert self.opened.wait(TIMEOUT)

    def echo(self, value: Any) -> Any:
        return value

    def bad(self, much: bool) -> Any:
        return Exits() if much else None


class Exits(Exception):
    """Ends whoever pickles it."""

    def __reduce__(self) -> Any:
        raise SystemExit


class Client:
    """An agent that is known by its id, in the hands of a test."""

    def __init__(self, server: Server, agent_id: str = ME, key: str = KEY) -> None:
        self.server, self.agent_id = server, agent_id
        self.protocol = Protocol(key)
        self.peer = RawPeer(server.rep_endpoint)

    def frames(self, content: object = COUNT, receiver: str = "", late_ms: int = 0) -> Frames:
        stamp = self.protocol.new_stamp()
        made = self.protocol.codec.encode(
            self.agent_id, "", content, stamp=Stamp(stamp.ms - late_ms, stamp.counter, stamp.epoch), sequence=1,
            receiver=receiver or self.server.agent_id, dialect=PZC01, suite="aes256-gmac",
        )  # fmt: skip
        return [bytes(frame) for frame in made]

    def send(self, frames: Frames) -> Any:
        """Content of the reply."""
        return self.read(self.peer.ask(frames))

    def read(self, reply: Frames) -> Any:
        envelope = self.protocol.open(reply, Kind.REPLY, receiver=self.agent_id, judge_time=False)
        return self.protocol.content(envelope)

    def ask(self, content: object = COUNT) -> Any:
        return self.send(self.frames(content))

    def close(self) -> None:
        self.peer.close()


def table(server: Server) -> regulars.Regulars:
    return server._answering.responder._regulars


def refused(answer: object) -> str:
    error = read_refusal(answer)
    assert error is not None, answer
    return type(error).__name__


def make_quick(client: Client, served: list[bool]) -> None:
    """Call until a short cut executes it: the reply may be here before the turn of its call has ended."""
    served.clear()
    for _ in range(1000):
        assert client.ask()[1] == "return"
        if served and served[-1]:
            return
    raise AssertionError("no short cut ever served it")


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.opened.set()


@pytest.fixture
def server(bench: Bench) -> Iterator[Server]:
    with Server(bench, protocol=Protocol(KEY)) as made:
        yield made
        bench.opened.set()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    made = Client(server)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch, timings: Callable[..., None]) -> list[bool]:
    """Whether each request that was admitted to a short cut was executed by it."""
    seen: list[bool] = []
    real = regulars.Regular.serve

    def noting(self: regulars.Regular, *given: Any) -> bool:
        seen.append(real(self, *given))
        return seen[-1]

    monkeypatch.setattr(regulars.Regular, "serve", noting)
    timings(quick_call=math.inf)
    return seen
