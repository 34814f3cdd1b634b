"""The words of links: to whom a link belongs, and what is refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, PeerLost, Protocol, Refused, RemoteProtocolError, Role

from tests.agents.links_reader import PollReader, UnixReader, wish
from tests.contract.rigs import words
from tests.contract.rigs.peers import TIMEOUT
from tests.contract.rigs.words import word

agent, stranger = words.agent, words.stranger


@pytest.mark.parametrize(
    "content",
    [
        {"pzc": "grant", "received": 1, "upto": 1, "others": []},
        {"pzc": "unlink"},
        {"pzc": "link", "way": "tcp", "topics": []},
    ],
)
def test_a_link_obeys_nobody_but_the_agent_that_opened_it(
    agent: Agent, stranger: Agent, content: dict[str, Any]
) -> None:
    with UnixReader(agent, wish("t", bound=1)) as reader:
        agent.publish("t", 0)
        with pytest.raises(Refused, match="belongs to another"):
            stranger.request(agent.rep_endpoint, {**content, "link": reader.link}, TIMEOUT)
        (found,) = agent.statistics()["links"]["links"]
        assert found["unacknowledged"] + found["waiting"] == 1


def test_a_link_obeys_no_other_key_of_the_same_agent() -> None:
    keys = [
        Key("a long secret of one", "one", Role.OBSERVER),
        Key("a long secret of two", "two", Role.OBSERVER),
    ]

    def protocol(active: int) -> Protocol:
        return Protocol(keyring=Keyring(keys, keys[active]))

    with (
        Agent(protocol=protocol(0)) as agent,
        UnixReader(agent, wish("t"), protocol=protocol(0)) as reader,
        pytest.raises(Refused, match="another key"),
    ):
        UnixReader(agent, wish("t"), protocol=protocol(1), link=reader.link, me=reader.me)


@pytest.mark.parametrize(
    "told",
    [
        {"received": 2, "upto": 0, "others": []},
        {"received": 1, "upto": 2, "others": []},
        {"received": 1, "upto": 0, "others": [2]},
        {"received": 1, "upto": 0, "others": ["1"]},
        {"received": 1, "upto": 0, "others": {}},
        {"received": 1, "upto": 0, "others": [1] * 20_000},
        {"received": None, "upto": 0, "others": []},
        {"upto": 0},
    ],
)
def test_a_grant_of_what_was_never_sent_is_refused(agent: Agent, told: dict[str, Any]) -> None:
    with PollReader(agent, wish("t", bound=1, timeout=0)) as reader:
        agent.publish("t", 0)
        reader.take(1)
        with pytest.raises(RemoteProtocolError):
            reader.request(word("grant", reader.link, **told))
        (found,) = agent.statistics()["links"]["links"]
        assert found["unacknowledged"] == 1


def test_a_link_over_unix_is_opened_on_its_own_connection(agent: Agent, stranger: Agent) -> None:
    content = word("link", "a" * 32, way="unix", topics=[wish("t")])
    with pytest.raises(Refused, match="connection"):
        stranger.exchange(agent.rep_endpoint, content, TIMEOUT, transport="tcp")


def test_a_connection_carries_one_link(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        reader.link = secrets.token_hex(16)
        with pytest.raises(Refused, match="another link"):
            reader.ask(wish("t"))
        assert len(agent.statistics()["links"]["links"]) == 1


def test_an_observer_may_link() -> None:
    keyring = Keyring.from_key("a long secret of a", Role.OBSERVER)
    with (
        Agent(protocol=Protocol(keyring=keyring)) as agent,
        UnixReader(agent, wish("t"), protocol=Protocol(keyring=keyring)) as reader,
    ):
        agent.publish("t", 1)
        assert reader.take(1)[0].content == 1


def test_a_publisher_has_a_bounded_number_of_links(agent: Agent, timings: Callable[..., None]) -> None:
    timings(links=1)
    with UnixReader(agent, wish("t")), pytest.raises(Refused, match="1 links"):
        UnixReader(agent, wish("t"))


def test_a_word_about_one_topic_leaves_the_others_as_they_are(agent: Agent) -> None:
    with PollReader(agent, wish("a"), wish("b")) as reader:
        agent.publish("b", 1)
        more = {**reader.word(wish("c"), resume=0), "topic": "c"}
        assert reader.request(more)["lasts"] == {"c": 0}
        less = {**reader.word(resume=0), "topic": "a"}
        assert reader.request(less)["lasts"] == {}
        (found,) = agent.statistics()["links"]["links"]
        assert set(found["topics"]) == {"b", "c"}


def test_a_word_about_one_topic_opens_no_link_and_speaks_of_no_other(agent: Agent, stranger: Agent) -> None:
    content = {"way": "tcp", "topics": [wish("t")], "topic": "t"}
    with pytest.raises(PeerLost):
        stranger.request(agent.rep_endpoint, word("link", secrets.token_hex(16), **content), TIMEOUT)
    with pytest.raises(RemoteProtocolError, match="is changed in topic"):
        stranger.request(
            agent.rep_endpoint, word("link", secrets.token_hex(16), **{**content, "topic": "u"}), TIMEOUT
        )


def test_a_link_is_opened_by_a_word_that_is_decoded_late(agent: Agent, stranger: Agent) -> None:
    topics = [wish(f"topic-{number:060}") for number in range(2000)]
    content = word("link", secrets.token_hex(16), way="tcp", resume=0, topics=topics)
    answer = stranger.request(agent.rep_endpoint, content, TIMEOUT)
    assert len(answer["lasts"]) == 2000
