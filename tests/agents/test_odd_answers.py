"""What a peer answers oddly is refused by name, in time, and leaves nothing behind."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pzc import Agent, Proxy, RemoteProtocolError, Server, close, drop, lock, stubs
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


@contextmanager
def proxy_of(server: Server) -> Iterator[Any]:
    proxy = Proxy(server.rep_endpoint, timeout=TIMEOUT)
    try:
        yield proxy
    finally:
        close(proxy)


@pytest.fixture
def proxy(odd: Odd) -> Iterator[Any]:
    with proxy_of(odd) as proxy:
        yield proxy


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


FLAGS: list[Any] = [
    ("PSMessage", "exec", {"name": "add", "method": ARRAY}),
    ("PSMessage", "exec", {"name": "add", "oneway": ARRAY}),
    *(
        {"pzc": word, "token": "token", flag: ARRAY}
        for word, flag in (("unlock", "given_up"), ("lock", "takeover"))
    ),
    *({"pzc": "cancel", flag: ARRAY} for flag in ("everybody", "mine", "key")),
]


@pytest.mark.parametrize("asked", FLAGS, ids=str)
def test_an_array_in_the_place_of_a_flag_or_a_name_leaves_no_traceback(
    odd: Odd, agent: Agent, asked: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        agent.request(odd.rep_endpoint, asked, TIMEOUT)
    assert not [record for record in caplog.records if record.exc_info]


ODDLY: list[dict[str, Any]] = [
    {name: odd}
    for name in ("kind", "type", "doc", "signature", "callable", "items")
    for odd in (ARRAY, {}, [5])
]


def telling(about: object, told: dict[str, Any]) -> Callable[[Call, str, dict[str, Any], object], Any]:
    """Acts like a server that tells so of members, and of what it returns."""

    def act(_call: Call, action: str, options: dict[str, Any], _member: object) -> Any:
        if action == "describe":
            return (
                "PSMessage",
                "return",
                {"type": "Odd", "members": {"member": about}, "types": {"a.B": told}},
            )
        return "PSMessage", "reference", {"path": ["member"], "handles": ARRAY, **told}

    return act


@pytest.mark.parametrize("told", ODDLY)
def test_what_is_told_oddly_of_a_member_is_left_out(told: dict[str, Any]) -> None:
    with Server(object()) as server:
        server._answering.dispatcher._act = telling(told, {"members": {"inside": told}, **told})
        with proxy_of(server) as proxy:
            assert "member" in dir(proxy)
            assert proxy.__doc__
            assert proxy._repr_html_()
            assert "class Odd" in stubs(proxy)
            assert repr(proxy.member).endswith(f"at {server.rep_endpoint}>")


def test_what_is_told_of_an_object_steers_no_terminal() -> None:
    class Steering:
        """Clears \x1b[2J the screen,

        and the next line.
        """

    with Server(Steering()) as server, proxy_of(server) as proxy:
        assert proxy.__doc__ == "Clears \\x1b[2J the screen,\n\nand the next line."


STEERING = "\x1b[2J"


@pytest.mark.parametrize("action", ["exec", "get", STEERING])
def test_the_names_of_what_is_asked_for_steer_no_terminal(
    agent: Agent, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def fail(self, text: str) -> None:
            raise RuntimeError(text)

    with Server(Failing()) as server, caplog.at_level(logging.INFO):
        agent.request(server.rep_endpoint, ("PSMessage", action, {"name": STEERING}), TIMEOUT)
        agent.request(
            server.rep_endpoint, ("PSMessage", "exec", {"name": "fail", "args": [STEERING]}), TIMEOUT
        )
    assert caplog.records
    assert STEERING not in "".join(f"{record.getMessage()}{record.exc_text}" for record in caplog.records)
