"""What a peer answers oddly is refused by name, in time, and leaves nothing behind."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pzc import Agent, Proxy, RemoteProtocolError, Server, close, drop, lock
from pzc.agents.client.peers import read_hello
from pzc.agents.server.call import Call

from tests.contract.rigs.peers import TIMEOUT

ARRAY = np.arange(3)


class Odd(Server):
    """Tells odd things of itself, and answers control words as it is told to."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        super().__init__(object())

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self.told}

    def answers(self, word: str, answer: object) -> None:
        def reply(request: Call, content: Any) -> None:
            self._answering.replies.reply(request, answer)

        self._control.words[word] = reply


@pytest.fixture
def odd() -> Iterator[Odd]:
    with Odd() as server:
        yield server


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as agent:
        yield agent


@pytest.fixture
def proxy(odd: Odd) -> Iterator[Any]:
    proxy = Proxy(odd.rep_endpoint, timeout=TIMEOUT)
    yield proxy
    close(proxy)


@pytest.mark.parametrize("told", [{"epoch": math.inf}, {"epoch": 1 << 32}, {"epoch": -1}])
def test_a_peer_whose_start_cannot_be_is_refused(odd: Odd, agent: Agent, told: dict[str, Any]) -> None:
    odd.told = told
    with pytest.raises(RemoteProtocolError, match="answered the handshake incompletely"):
        agent.request(odd.rep_endpoint, "ping", TIMEOUT)


def test_a_peer_whose_time_cannot_be_is_refused() -> None:
    told = {"challenge": "c", "agent_id": "a", "epoch": 1, "name": "", "pub_endpoint": ""}
    with pytest.raises(RemoteProtocolError, match="answered the handshake incompletely"):
        read_hello("tcp://127.0.0.1:1", {"challenge": "c"}, {**told, "time_ms": 10**400}, 0, "a", "")


def test_a_peer_that_tells_no_id_is_refused(odd: Odd, agent: Agent) -> None:
    odd.told = {"agent_id": ARRAY}
    with pytest.raises(RemoteProtocolError, match="did not answer the handshake"):
        agent.request(odd.rep_endpoint, "ping", TIMEOUT)


@pytest.mark.parametrize("told", [5, [ARRAY]])
def test_what_a_peer_can_read_may_be_told_oddly(
    odd: Odd, agent: Agent, told: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PZC_TRANSPORT", "tcp")
    odd.told = {"serializers": told, "suites": told}
    assert agent.request(odd.rep_endpoint, "ping", TIMEOUT) == "pong"


def test_whoever_tells_of_no_unix_socket_is_asked_by_tcp(odd: Odd, agent: Agent) -> None:
    odd.told = {"lane": ARRAY}
    assert agent.request(odd.rep_endpoint, "ping", TIMEOUT) == "pong"


@pytest.mark.parametrize("answer", [5, ARRAY, {}, {"owner": 5}])
def test_who_is_not_told_whose_the_lock_is_does_not_have_it(odd: Odd, proxy: Any, answer: object) -> None:
    odd.answers("lock", answer)
    with pytest.raises(RemoteProtocolError, match="whose the lock is"):
        lock(proxy)


@pytest.mark.parametrize("answer", [5, ARRAY, {"held": ARRAY}])
def test_an_odd_answer_to_who_gives_a_lock_back_is_told_in_the_log(
    odd: Odd, proxy: Any, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    odd.answers("unlock", answer)
    with caplog.at_level(logging.WARNING), lock(proxy):
        pass
    assert "was lost before it was given back" in caplog.text


@pytest.mark.usefixtures("broadcast")
@pytest.mark.parametrize("placed", [False, ARRAY])
def test_a_subscription_that_is_never_confirmed_comes_over_a_link(
    odd: Odd, agent: Agent, placed: object
) -> None:
    odd.answers("placed", {"placed": placed})
    with agent.subscribe(odd.rep_endpoint, "t", policy=drop(1), timeout=2.0) as subscription:
        odd.publish("t", 1)
        assert subscription.recv(TIMEOUT).content == 1
