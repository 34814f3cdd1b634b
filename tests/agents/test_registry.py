"""The registry: what it is told, by whom, and what it answers; over real sockets."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pzc import (
    Agent,
    CycleRefused,
    Key,
    Keyring,
    LocalProtocolError,
    Protocol,
    Proxy,
    Refused,
    RemoteProtocolError,
    Role,
    RoleRefused,
)
from pzc import close as close_proxy
from pzc.agents.registry import LOOK, Registry
from pzc.discovery.directory import SILENCE
from pzc.discovery.registry_state import RegistryState, Views
from pzc.protocol.message import Identity

from tests.agents.registrants import KEY, said

OTHER = os.urandom(16)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(protocol=Protocol(KEY)) as registry:
        yield registry


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(protocol=Protocol(KEY)) as agent:
        yield agent


def _tell(process: bytes, key: Any, name: str = "/psu", sequence: int = 1) -> dict[str, Any]:
    local, others = (said(process, sequence, name, key, local) for local in (True, False))
    return {
        "pzc": "relay", "process": process.hex(), "host": "rack", "cursor": ["", 0], "wait": 0,
        "beats": {"local": local[:1], "others": others[:1]},
        "whole": {"local": local[1:], "others": others[1:]},
    }  # fmt: skip


def _key(secret: str = KEY) -> Key:
    return Key(secret)


def _ask(**more: Any) -> dict[str, Any]:
    return {"pzc": "relay", "process": OTHER.hex(), "host": "rack", "cursor": ["", 0], "wait": 0, **more}


def test_it_hands_out_the_very_bytes_that_it_was_told(registry: Registry, agent: Agent) -> None:
    told = _tell(os.urandom(16), _key())
    agent.request(registry.rep_endpoint, told)
    answer = agent.request(registry.rep_endpoint, _ask())
    assert answer["datagrams"] == told["beats"]["local"] + told["whole"]["local"]


def test_a_process_of_another_host_gets_the_other_addresses(registry: Registry, agent: Agent) -> None:
    told = _tell(os.urandom(16), _key())
    agent.request(registry.rep_endpoint, told)
    answer = agent.request(registry.rep_endpoint, _ask(host="another"))
    assert answer["datagrams"] == told["beats"]["others"] + told["whole"]["others"]


def test_a_sign_of_life_of_an_unknown_process_is_answered_with_a_wish_for_the_whole(
    registry: Registry, agent: Agent
) -> None:
    told = _tell(os.urandom(16), _key())
    whole = told.pop("whole")
    assert agent.request(registry.rep_endpoint, told)["known"] is False
    assert agent.request(registry.rep_endpoint, {**told, "whole": whole})["known"] is True


def test_a_cursor_of_another_incarnation_counts_as_none(registry: Registry, agent: Agent) -> None:
    agent.request(registry.rep_endpoint, _tell(os.urandom(16), _key()))
    answer = agent.request(registry.rep_endpoint, _ask(cursor=["another", 1000], edges=0))
    assert len(answer["datagrams"]) == 2
    assert "edges" in answer


def test_a_question_that_may_wait_is_answered_when_there_is_news(registry: Registry, agent: Agent) -> None:
    first = agent.request(registry.rep_endpoint, _ask())
    waiting = agent.exchange_later(
        agent.peer(registry.rep_endpoint), _ask(cursor=first["cursor"], edges=first["edges"][0], wait=5), 20
    )
    process = os.urandom(16)
    agent.request(registry.rep_endpoint, _tell(process, _key()))
    assert waiting.result(20).content["datagrams"]


def test_a_question_is_answered_without_news_when_its_time_is_over(registry: Registry, agent: Agent) -> None:
    first = agent.request(registry.rep_endpoint, _ask())
    answer = agent.request(
        registry.rep_endpoint, _ask(cursor=first["cursor"], edges=first["edges"][0], wait=0.1)
    )
    assert (answer["datagrams"], answer["cursor"]) == ([], first["cursor"])


class Looked(RegistryState):
    """Counts how often all processes are looked at for the first that may be gone."""

    looks = 0

    @property
    def next_deadline(self) -> float | None:
        type(self).looks += 1
        return super().next_deadline


def test_a_sign_of_life_costs_the_same_however_many_processes_there_are(
    registry: Registry, agent: Agent
) -> None:
    registry.state = Looked()
    for number in range(1, 6):
        told = _tell(OTHER, _key(), sequence=number)
        agent.request(registry.rep_endpoint, told)
    assert Looked.looks <= 2


class Remembering(RegistryState):
    """Remembers who told it something, and is looked at all the time."""

    @property
    def next_deadline(self) -> float | None:
        return time.monotonic()

    def whole(
        self, process: bytes, owner: Identity, host: str, beats: Views, said: Views, now: float
    ) -> None:
        self.owner = owner
        super().whole(process, owner, host, beats, said, now)


def test_a_registry_that_stood_still_takes_nobody_for_dead(registry: Registry, agent: Agent) -> None:
    registry.state = state = Remembering()
    process = os.urandom(16)
    agent.request(registry.rep_endpoint, _tell(process, _key()))

    def stand_still() -> None:
        state.hear(process, state.owner, Views(), time.monotonic() - SILENCE + 1.5 * LOOK)
        threading.Event().wait(2 * LOOK)

    registry.loop.run(stand_still)
    answer = agent.request(registry.rep_endpoint, _ask())
    assert (len(answer["datagrams"]), answer["gone"]) == (1, [])


def test_whoever_waits_is_told_of_a_new_connection(registry: Registry, agent: Agent) -> None:
    first = agent.request(registry.rep_endpoint, _ask())
    waiting = agent.exchange_later(
        agent.peer(registry.rep_endpoint), _ask(cursor=first["cursor"], edges=first["edges"][0], wait=5), 20
    )
    registry.topics.connect("/a", "/b")
    assert waiting.result(20).content["edges"] == [first["edges"][0] + 1, [["/a", "/b"]]]


def test_a_stop_answers_those_who_wait(agent: Agent) -> None:
    registry = Registry(protocol=Protocol(KEY))
    first = agent.request(registry.rep_endpoint, _ask())
    waiting = agent.exchange_later(
        agent.peer(registry.rep_endpoint), _ask(cursor=first["cursor"], edges=first["edges"][0], wait=5), 20
    )
    # Behind the question on one and the same socket.
    agent.exchange_later(agent.peer(registry.rep_endpoint), "ping", 20).result(20)
    registry.stop()
    assert waiting.result(20).content["pzc"] == "relay"


def test_a_goodbye_is_told_to_others(registry: Registry, agent: Agent) -> None:
    process = os.urandom(16)
    agent.request(registry.rep_endpoint, _tell(process, _key()))
    cursor = agent.request(registry.rep_endpoint, _ask())["cursor"]
    agent.request(registry.rep_endpoint, {"pzc": "relay", "process": process.hex(), "bye": True})
    assert agent.request(registry.rep_endpoint, _ask(cursor=cursor))["gone"] == [process.hex()]


def test_another_agent_cannot_speak_for_a_process(registry: Registry, agent: Agent) -> None:
    told = _tell(os.urandom(16), _key())
    agent.request(registry.rep_endpoint, told)
    with Agent(protocol=Protocol(KEY)) as thief, pytest.raises(Refused, match="another agent"):
        thief.request(registry.rep_endpoint, told)


def test_what_another_key_signed_is_refused(registry: Registry, agent: Agent) -> None:
    with pytest.raises(RemoteProtocolError, match="foreign_key"):
        agent.request(registry.rep_endpoint, _tell(os.urandom(16), _key("another key, of another lab")))
    assert registry.statistics()["registry"]["refused"] == {"foreign_key": 1}
    assert len(registry.state) == 0


def test_what_nobody_signed_is_refused_when_there_is_a_key(registry: Registry, agent: Agent) -> None:
    with pytest.raises(RemoteProtocolError, match="unsigned"):
        agent.request(registry.rep_endpoint, _tell(os.urandom(16), None))


def test_nobody_tells_of_another_process(registry: Registry, agent: Agent) -> None:
    told = _tell(os.urandom(16), _key())
    with pytest.raises(RemoteProtocolError, match="of itself"):
        agent.request(registry.rep_endpoint, {**told, "process": OTHER.hex()})


@pytest.mark.parametrize(
    "odd",
    [
        {"process": "zz"},
        {"process": "00"},
        {"process": 7},
        {"cursor": 7},
        {"cursor": ["", "x", 1]},
        {"wait": "soon"},
        {"wait": 10**400},
        {"beats": 7},
        {"beats": {"local": ["?"], "others": []}},
        {"whole": {"local": [7], "others": []}},
        {"whole": {"local": []}},
        {"process": "", "whole": {"local": [], "others": []}},
    ],
)
def test_an_odd_question_is_refused_and_leaves_no_trace(
    registry: Registry, agent: Agent, odd: dict[str, Any]
) -> None:
    with pytest.raises(RemoteProtocolError, match=r"cannot be read|16 bytes"):
        agent.request(registry.rep_endpoint, _ask(**odd))
    assert len(registry.state) == 0
    assert agent.request(registry.rep_endpoint, _ask())["known"] is True


def test_what_is_known_of_connections_may_be_told_oddly(registry: Registry, agent: Agent) -> None:
    answer = agent.request(registry.rep_endpoint, _ask())
    again = agent.request(registry.rep_endpoint, _ask(cursor=answer["cursor"], edges=np.arange(3)))
    assert again["edges"] == answer["edges"]


def test_a_sign_of_life_is_one_datagram(registry: Registry, agent: Agent) -> None:
    told = _tell(OTHER, _key())
    local = [each for number in range(2) for each in said(OTHER, number, "/psu", _key(), True)[:1]]
    with pytest.raises(RemoteProtocolError, match="one sign of life"):
        agent.request(registry.rep_endpoint, {**told, "beats": {"local": local, "others": []}})


def test_an_observer_may_ask_but_not_tell() -> None:
    operator, observer = (
        Key("operator's long secret", "op"),
        Key("observer's long secret", "ob", Role.OBSERVER),
    )
    keys = [operator, observer]
    with (
        Registry(protocol=Protocol(keyring=Keyring(keys, operator))) as registry,
        Agent(protocol=Protocol(keyring=Keyring(keys, observer))) as agent,
    ):
        registry.topics.connect("/a", "/b")
        answer = agent.request(registry.rep_endpoint, _ask())
        assert (answer["datagrams"], answer["edges"]) == ([], [1, [["/a", "/b"]]])
        with pytest.raises(RoleRefused):
            agent.request(registry.rep_endpoint, _tell(os.urandom(16), observer))
        with pytest.raises(RoleRefused):
            agent.request(registry.rep_endpoint, {"pzc": "relay", "process": OTHER.hex(), "bye": True})
        told = agent.request(registry.rep_endpoint, {"pzc": "statistics"})["registry"]
        assert (told["processes"], told["connections"]) == (0, 1)


def test_a_process_with_thousands_of_entries_is_told_whole(registry: Registry, agent: Agent) -> None:
    told = _tell(os.urandom(16), _key())
    told["whole"]["local"] *= 500
    agent.request(registry.rep_endpoint, told)
    assert len(agent.request(registry.rep_endpoint, _ask())["datagrams"]) == 501


def test_topics_are_connected_through_a_proxy(registry: Registry) -> None:
    proxy = Proxy(registry.rep_endpoint, protocol=Protocol(KEY))
    try:
        proxy.connect("/camera/frames", "/viewer/frames")
        assert proxy.connections() == [("/camera/frames", "/viewer/frames")]
        with pytest.raises(LocalProtocolError, match="no name of a topic"):
            proxy.connect("/camera/frames", 7)
        with pytest.raises(CycleRefused):
            proxy.connect("/viewer/frames", "/camera/frames")
        proxy.disconnect("/camera/frames", "/viewer/frames")
        assert proxy.status["connections"] == 0
    finally:
        close_proxy(proxy)
