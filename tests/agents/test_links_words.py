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
        {"pzc": "link", "way": "tcp"},
        {"pzc": "interests", "number": 2, "commands": [[1]]},
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
    content = word("link", "a" * 32, way="unix")
    with pytest.raises(Refused, match="connection"):
        stranger.exchange(agent.rep_endpoint, content, TIMEOUT, transport="tcp")


def test_a_connection_carries_one_link(agent: Agent) -> None:
    with UnixReader(agent, wish("t")) as reader:
        reader.link = secrets.token_hex(16)
        with pytest.raises(Refused, match="another link"):
            reader.open()
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


def test_an_interest_comes_and_goes_without_the_others(agent: Agent) -> None:
    with PollReader(agent, wish("a"), wish("b")) as reader:
        agent.publish("b", 1)
        assert reader.ask(wish("b"), wish("c"))["lasts"] == {"c": 0}
        (found,) = agent.statistics()["links"]["links"]
        assert set(found["topics"]) == {"b", "c"}


def test_the_same_batch_is_applied_once_and_an_older_one_never(agent: Agent) -> None:
    with PollReader(agent, wish("a")) as reader:
        batch = reader.interests(wish("a"), wish("b"))
        first = reader.request(batch)
        agent.publish("b", 1)
        assert reader.request(batch) == first
        with pytest.raises(RemoteProtocolError, match="came behind"):
            reader.request({**batch, "number": 1})


def test_of_two_commands_on_one_interest_the_later_one_holds(agent: Agent) -> None:
    with PollReader(agent, wish("a")) as reader:
        again = [[1, *wish("b")], [1, *wish("c")]]
        reader.request({**reader.interests(wish("a")), "commands": again})
        (found,) = agent.statistics()["links"]["links"]
        assert set(found["topics"]) == {"c"}


def test_one_interest_is_refused_without_the_others(agent: Agent) -> None:
    agent.advertise("a", scope="process")
    with PollReader(agent) as reader:
        told = reader.request(reader.interests(wish("a"), wish("b")))["confirmed"]
        assert (told[0][0], len(told[0]), told[1]) == (1, 2, [2, {"b": 0}, 32])


def test_interests_open_no_link(agent: Agent, stranger: Agent) -> None:
    content = word("interests", secrets.token_hex(16), number=1, commands=[])
    with pytest.raises(PeerLost):
        stranger.request(agent.rep_endpoint, content, TIMEOUT)


def test_many_interests_are_told_by_a_word_that_is_decoded_late(agent: Agent) -> None:
    with PollReader(agent, *(wish(f"topic-{number:060}") for number in range(2000))) as reader:
        assert len(reader.answer["lasts"]) == 2000
