from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from pzc import (
    Agent,
    CallTimeout,
    LocalProtocolError,
    PeerLost,
    Protocol,
    Proxy,
    PzcError,
    Refused,
    RemoteProtocolError,
    SerializeError,
    Server,
)

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied

WARM = 6
"""Calls after which one of the same process is direct."""

HUGE = 10**400
UNTELLABLE = 10**5000
"""A number that Python refuses to turn into text."""

NAN, INF = float("nan"), float("inf")
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
        way = "unix" if self.transport == "unix" else "tcp"
        return self.agent.exchange(self.server.rep_endpoint, content, TIMEOUT, transport=way).content

    def raises(self, error: type[BaseException], call: Callable[[], object]) -> None:
        """Each time the same error, however the call travels by and by; and the next call works."""
        for _ in range(WARM):
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


@pytest.fixture(params=["inproc", "unix", "tcp"])
def bad(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Bad]:
    transport = request.param
    with ExitStack() as stack:
        server = stack.enter_context(Server(Bench(), protocol=Protocol(KEY)))
        protocol = Protocol(KEY)
        proxy = stack.enter_context(
            proxied(server.rep_endpoint, transport=transport, timeout=TIMEOUT, protocol=protocol)
        )
        agent = stack.enter_context(Agent(protocol=Protocol(KEY)))
        for _ in range(WARM):
            proxy.step()
        yield Bad(server, proxy, protocol, agent, transport, caplog)


def test_a_result_that_cannot_be_pickled_is_a_serialize_error(bad: Bad) -> None:
    bad.raises(SerializeError, lambda: bad.proxy.thread_lock())
    bad.raises(SerializeError, lambda: list(bad.proxy.items()))


def test_an_argument_that_cannot_be_pickled_is_a_serialize_error(bad: Bad) -> None:
    for argument in (threading.Lock(), lambda: None, [threading.Lock()]):
        bad.raises(SerializeError, lambda given=argument: bad.proxy.step(given))
        bad.raises(SerializeError, lambda given=argument: bad.proxy.step.future(given).result(TIMEOUT))
        bad.raises(SerializeError, lambda given=argument: bad.proxy.step.oneway(given))


@pytest.mark.parametrize("kind", ["text", "list"])
@pytest.mark.parametrize("bad", ["unix", "tcp"], indirect=True)
def test_a_result_above_the_limit_is_told_as_such(bad: Bad, kind: str) -> None:
    bad.server.protocol.codec.max_content = LIMIT - 1
    bad.raises(LocalProtocolError, lambda: bad.proxy.large(kind))


@pytest.mark.parametrize("bad", ["unix", "tcp"], indirect=True)
def test_an_argument_above_the_limit_is_told_as_such(bad: Bad) -> None:
    bad.protocol.codec.max_content = LIMIT - 1
    bad.raises(LocalProtocolError, lambda: bad.proxy.step("x" * LIMIT))


@pytest.mark.parametrize("bad", ["unix", "tcp"], indirect=True)
def test_an_argument_above_the_limit_of_the_server_is_refused_there(bad: Bad) -> None:
    bad.server.protocol.codec.max_content = LIMIT - 1
    bad.raises(RemoteProtocolError, lambda: bad.proxy.step("x" * LIMIT))


ODD = [
    None,
    "",
    "x",
    "x" * 10_000,
    7,
    -1,
    True,
    1.5,
    NAN,
    INF,
    -INF,
    HUGE,
    -HUGE,
    UNTELLABLE,
    b"x",
    [],
    {},
    {"x"},
]
STEP = ["exec", {"name": "step", "method": "__call__"}]
MESSAGES = [
    *(("exec", odd) for odd in ODD),
    *(("exec", {"name": "step", "method": "__call__", "lock": odd}) for odd in ODD if odd),
    *(("next", {"id": odd, "credit": 1}) for odd in ODD),
    *(("next", {"id": "x", "credit": odd}) for odd in ODD),
    *(("batch", {"calls": odd}) for odd in ODD),
    *(("batch", {"calls": [odd]}) for odd in ODD),
    *(("batch", {"calls": [["exec", odd]]}) for odd in ODD),
    *(("batch", {"calls": [[odd, {}]]}) for odd in ODD),
    ("batch", {"calls": [["batch", {"calls": []}]]}),
    ("batch", {"calls": [STEP, ["batch", {"calls": [STEP]}]]}),
    *(("instantiate", {"class": odd}) for odd in ODD),
    *((action, {}) for action in ("nonsense", "", "__init__", "return", "raise", "x" * 100_000)),
]
WORDS = [
    *({"pzc": word, "id": odd} for word in ("future", "cancel", "drop") for odd in ODD),
    *({"pzc": word} for word in ("future", "cancel", "drop", "lock", "unlock", "alive", "nonsense", "")),
    *({"pzc": "lock", "token": odd} for odd in ODD),
    *({"pzc": "unlock", "token": odd} for odd in ODD),
    *(
        {"pzc": "lock", "token": "t", key: odd}
        for key in ("ttl", "wait", "reason", "takeover")
        for odd in ODD
    ),
    *({"pzc": odd} for odd in ODD),
    {"pzc": "placed", "mark": UNTELLABLE, "topic": UNTELLABLE},
    {"pzc": "hello", "challenge": UNTELLABLE, "answer": UNTELLABLE},
]


def test_malformed_messages_are_told_and_disturb_nobody(bad: Bad) -> None:
    for action, options in MESSAGES:
        try:
            answer = bad.raw(("PSMessage", action, options))
        except (CallTimeout, PeerLost):
            raise
        except PzcError:
            pass
        else:
            assert answer[1] in ("raise", "batch"), (action, options)
        bad.works()


def test_malformed_control_words_are_told_and_disturb_nobody(bad: Bad) -> None:
    for content in WORDS:
        try:
            bad.raw(content)
        except (CallTimeout, PeerLost):
            raise
        except PzcError:
            pass
        if content["pzc"] == "lock":
            with suppress(RemoteProtocolError):
                bad.raw({"pzc": "unlock", "token": content.get("token")})
        bad.works()


def test_malformed_control_words_to_a_locked_server_are_told_and_disturb_nobody(bad: Bad) -> None:
    with Agent(protocol=Protocol(KEY)) as other:
        endpoint = bad.server.rep_endpoint
        other.request(endpoint, {"pzc": "lock", "token": "another"}, TIMEOUT)
        for odd in ODD:
            if odd not in (7, True, INF, HUGE, UNTELLABLE):  # who would wait for it
                with pytest.raises(Refused):
                    bad.raw({"pzc": "lock", "token": "t", "wait": odd})
        assert other.request(endpoint, {"pzc": "unlock", "token": "another"}, TIMEOUT)["held"]
    bad.works()
