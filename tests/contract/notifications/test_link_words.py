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
        {"way": "tcp", "topics": []},
        {"link": "x", "way": "tcp", "topics": []},
        {"link": "A" * 32, "way": "tcp", "topics": []},
        {"link": "a" * 32, "way": "tcp"},
        {"link": "a" * 32, "way": "tcp", "topics": "t"},
        {"link": "a" * 32, "way": "tcp", "topics": [["t"]]},
        {"link": "a" * 32, "way": "tcp", "topics": [[1, None, "block", 1, 1.0, "raise", None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", None, "block", True, 1.0, "raise", None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", None, "block", 0, 1.0, "raise", None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", None, "block", 1, "1", "raise", None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", None, "block", 1, 1.0, "explode", None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", None, "flood", 1, None, None, None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", None, [], 1, None, None, None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", [], "drop", 1, None, None, None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", "k", "drop", 1, None, None, None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", [1], "drop", 1, None, None, None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [["t", ["k"] * 1001, "drop", 1, None, None, None]]},
        {"link": "a" * 32, "way": "tcp", "topics": [], "resume": -1},
        {"link": "a" * 32, "way": "tcp", "topics": [], "resume": "1"},
    ],
)
def test_a_malformed_request_opens_nothing(agent: Agent, stranger: Agent, content: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError):
        stranger.request(agent.rep_endpoint, {"pzc": "link", **content}, TIMEOUT)
    assert agent.statistics()["links"]["links"] == []
