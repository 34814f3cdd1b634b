"""The words of links: to whom a link belongs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pzc import Agent, PeerLost, RemoteProtocolError

from tests.contract.rigs import words
from tests.contract.rigs.peers import TIMEOUT
from tests.contract.rigs.words import word

agent, stranger = words.agent, words.stranger


def test_an_unknown_link_is_told_to_be_over(agent: Agent, stranger: Agent) -> None:
    with pytest.raises(PeerLost, match="ended"):
        stranger.request(agent.rep_endpoint, word("unlink", "0" * 32), TIMEOUT)


@pytest.mark.parametrize(
    "content",
    [
        {"way": "tcp"},
        {"link": "x", "way": "tcp"},
        {"link": "A" * 32, "way": "tcp"},
        {"link": "a" * 32, "way": "tcp", "resume": -1},
        {"link": "a" * 32, "way": "tcp", "resume": "1"},
    ],
)
def test_a_malformed_request_opens_nothing(agent: Agent, stranger: Agent, content: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError):
        stranger.request(agent.rep_endpoint, {"pzc": "link", **content}, TIMEOUT)
    assert agent.statistics()["links"]["links"] == []


@pytest.mark.parametrize(
    "commands",
    [
        None,
        "t",
        [["t"]],
        [[0, "t", None, "drop", 1, None, None, None]],
        [[True, "t", None, "drop", 1, None, None, None]],
        [[1, "t"]],
        [[1, 1, None, "block", 1, 1.0, "raise", None]],
        [[1, "t", None, "block", True, 1.0, "raise", None]],
        [[1, "t", None, "block", 0, 1.0, "raise", None]],
        [[1, "t", None, "block", 1, "1", "raise", None]],
        [[1, "t", None, "block", 1, 1.0, "explode", None]],
        [[1, "t", None, "flood", 1, None, None, None]],
        [[1, "t", None, [], 1, None, None, None]],
        [[1, "t", [], "drop", 1, None, None, None]],
        [[1, "t", "k", "drop", 1, None, None, None]],
        [[1, "t", [1], "drop", 1, None, None, None]],
        [[1]] * 10_001,
    ],
)
def test_malformed_commands_change_nothing(agent: Agent, stranger: Agent, commands: Any) -> None:
    link = "a" * 32
    stranger.request(agent.rep_endpoint, word("link", link, way="tcp"), TIMEOUT)
    told = word("interests", link, number=1, commands=commands)
    with pytest.raises(RemoteProtocolError):
        stranger.request(agent.rep_endpoint, told, TIMEOUT)
    (found,) = agent.statistics()["links"]["links"]
    assert found["topics"] == {}
