"""A server that is called badly over each transport."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pzc import (
    Agent,
    CallTimeout,
    PeerLost,
    Protocol,
    Proxy,
    Server,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied

HUGE = 10**400
UNTELLABLE = 10**5000
"""A number that Python refuses to turn into text."""
LIMIT = 1 << 17


class Bench:
    """What is called badly."""

    def __init__(self) -> None:
        self._private = 1
        self.value = 1

    def step(self, by: int = 1) -> int:
        return by

    def _hidden(self) -> None:
        raise AssertionError("it was called")

    def thread_lock(self) -> Any:
        return threading.Lock()

    def large(self, kind: str) -> Any:
        return "x" * LIMIT if kind == "text" else [bytes(LIMIT)]

    def items(self) -> Iterator[Any]:
        yield 1
        yield threading.Lock()


class Bad:
    """A server, and callers of it over one transport."""

    def __init__(
        self, server: Server, proxy: Proxy, protocol: Protocol, agent: Agent, transport: str,
        log: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        self.server, self.proxy, self.agent, self.transport = server, proxy, agent, transport
        self.protocol = protocol
        self._log = log

    def raw(self, content: object) -> Any:
        return self.agent.exchange(
            self.server.rep_endpoint, content, TIMEOUT, transport=self.transport
        ).content

    def raises(self, error: type[BaseException], call: Callable[[], object]) -> None:
        """Each time the same error; and the next call works."""
        for _ in range(2):
            with pytest.raises(error) as caught:
                call()
            assert not isinstance(caught.value, CallTimeout | PeerLost)
            self.works()

    def works(self) -> None:
        """The server lives, and has no trouble to tell of."""
        assert self.proxy.step(7) == 7
        told = [record for record in self._log.records if record.levelno >= logging.ERROR]
        assert not told, [record.getMessage() for record in told]
        self._log.clear()  # what was logged keeps its exceptions, and these the memory of their messages


@pytest.fixture(params=["unix", "tcp"])
def bad(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Bad]:
    transport = request.param
    with ExitStack() as stack:
        server = stack.enter_context(Server(Bench(), protocol=Protocol(KEY)))
        protocol = Protocol(KEY)
        proxy = stack.enter_context(
            proxied(server.rep_endpoint, transport=transport, timeout=TIMEOUT, protocol=protocol)
        )
        agent = stack.enter_context(Agent(protocol=Protocol(KEY)))
        yield Bad(server, proxy, protocol, agent, transport, caplog)
