"""The words of links: to whom a link belongs, and what is refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, PeerLost, Protocol, Refused, RemoteProtocolError, Role
from pzc.protocol.link_messages import (
    Applied,
    Close,
    Command,
    Confirmed,
    Interests,
    LinkMessage,
    Notify,
    Open,
    Report,
)

from tests.agents.links_reader import PollReader, UnixReader, wish
from tests.contract.rigs.peers import TIMEOUT


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


@pytest.fixture
def stranger() -> Iterator[Agent]:
    with Agent(name="stranger") as other:
        yield other


@pytest.mark.parametrize(
    "say",
    [
        lambda link: Report(link, 1, 1, hold=1.0),
        Close,
        Open,
        lambda link: Interests(link, 2, [Command(1)]),
    ],
    ids=["report", "close", "open", "interests"],
)
def test_a_link_obeys_nobody_but_the_agent_that_opened_it(
    agent: Agent, stranger: Agent, say: Callable[[str], LinkMessage]
) -> None:
    with UnixReader(agent, wish("t", bound=1)) as reader:
        agent.publish("t", 0)
        with pytest.raises(Refused, match="belongs to another"):
            stranger.request(agent.rep_endpoint, say(reader.link), TIMEOUT)
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
        UnixReader(agent, wish("t", "drop"), protocol=protocol(0)) as reader,
        pytest.raises(Refused, match="another key"),
    ):
        UnixReader(agent, wish("t", "drop"), protocol=protocol(1), link=reader.link, me=reader.me)


@pytest.mark.parametrize(
    "told",
    [
        (2, 0),
        (1, 2),
        (1, 0, [2]),
        (1, 0, ["1"]),
        (1, 0, {}),
        (1, 0, [1] * 20_000),
        (-1, 0),
        (True, 0),
        (None, 0),
    ],
)
def test_a_report_of_what_was_never_sent_is_refused(agent: Agent, told: tuple[Any, ...]) -> None:
    with PollReader(agent, wish("t", bound=1, timeout=0)) as reader:
        agent.publish("t", 0)
        reader.take(1)
        with pytest.raises(RemoteProtocolError):
            reader.request(Report(reader.link, *told[:2], others=told[2] if told[2:] else [], hold=1.0))
        (found,) = agent.statistics()["links"]["links"]
        assert found["unacknowledged"] == 1


def test_a_link_over_unix_is_opened_on_its_own_connection(agent: Agent, stranger: Agent) -> None:
    with pytest.raises(Refused, match="connection"):
        stranger.exchange(agent.rep_endpoint, Open("a" * 32, transport="unix"), TIMEOUT, transport="tcp")


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
        UnixReader(agent, wish("t", "drop"), protocol=Protocol(keyring=keyring)) as reader,
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
            reader.request(Interests(reader.link, 1, batch.commands))


def test_a_repeated_answer_brings_what_is_still_retained_and_nothing_that_follows(agent: Agent) -> None:
    agent.advertise("a", keep_last=True)
    for key in ("x", "y"):
        agent.publish("a", key, key=key)
    with PollReader(agent) as reader:
        batch = Interests(reader.link, 2, [Command(1, "a", initial=True)])
        first = reader.request(batch)
        agent.publish("a", "newer", key="x")
        again = reader.request(batch)
    assert [row.number for row in first.retained[0].rows] == [1, 2]
    assert [row.number for row in again.retained[0].rows] == [2]
    assert again.confirmed == first.confirmed == [Confirmed(1, {"a": 2})]


def test_of_two_commands_on_one_interest_the_later_one_holds(agent: Agent) -> None:
    with PollReader(agent, wish("a")) as reader:
        again = [Command(1, *wish("b")), Command(1, *wish("c"))]
        reader.request(Interests(reader.link, 2, again))
        (found,) = agent.statistics()["links"]["links"]
        assert set(found["topics"]) == {"c"}


def test_one_interest_is_refused_without_the_others(agent: Agent) -> None:
    agent.advertise("a", scope="process")
    with PollReader(agent) as reader:
        told = reader.request(reader.interests(wish("a"), wish("b"))).confirmed
        assert (told[0].interest, told[0].code, told[1]) == (1, "PolicyRefused", Confirmed(2, {"b": 0}, 32))


def test_interests_open_no_link(agent: Agent, stranger: Agent) -> None:
    with pytest.raises(PeerLost):
        stranger.request(agent.rep_endpoint, Interests(secrets.token_hex(16), 1, []), TIMEOUT)


def test_an_unknown_link_is_told_to_be_over(agent: Agent, stranger: Agent) -> None:
    with pytest.raises(PeerLost, match="ended"):
        stranger.request(agent.rep_endpoint, Close("0" * 32), TIMEOUT)


@pytest.mark.parametrize("content", [Open(""), Open("x"), Open("A" * 32), Open("a" * 32, -1)])
def test_a_malformed_request_opens_nothing(agent: Agent, stranger: Agent, content: LinkMessage) -> None:
    with pytest.raises(RemoteProtocolError):
        stranger.request(agent.rep_endpoint, content, TIMEOUT)
    assert agent.statistics()["links"]["links"] == []


@pytest.mark.parametrize("content", [{"pzc": "link", "link": "a" * 32}, Applied(1), Notify(1)])
def test_what_no_reader_says_is_refused(agent: Agent, stranger: Agent, content: object) -> None:
    with pytest.raises(RemoteProtocolError, match="no reader"):
        stranger.request(agent.rep_endpoint, content, TIMEOUT)


@pytest.mark.parametrize(
    "command",
    [
        (0, "t"),
        (True, "t"),
        (1, 1),
        (1, "t", None, "block", True, 1.0),
        (1, "t", None, "block", 0, 1.0),
        (1, "t", None, "block", 1, "1"),
        (1, "t", None, "flood"),
        (1, "t", None, []),
        (1, "t", []),
        (1, "t", "k"),
        (1, "t", [1]),
    ],
)
def test_malformed_commands_change_nothing(agent: Agent, command: tuple[Any, ...]) -> None:
    with PollReader(agent) as reader:
        with pytest.raises(RemoteProtocolError):
            reader.request(Interests(reader.link, 2, [Command(*command)]))
        (found,) = agent.statistics()["links"]["links"]
        assert found["topics"] == {}


@pytest.mark.parametrize("scope", ["process", "host"])
def test_what_does_not_leave_its_scope_is_told_to_nobody_outside(
    agent: Agent, stranger: Agent, scope: str
) -> None:
    agent.advertise("secret", scope=scope, keep_last=True)
    agent.publish("secret", 1)
    look = Interests("", 1, [Command(each, topic, initial=True) for each, topic in ((1, "secret"), (2, "*"))])
    told = stranger.exchange(agent.rep_endpoint, look, TIMEOUT, transport="tcp").content
    assert isinstance(told, Applied)
    assert [each.code for each in told.confirmed] == ["PolicyRefused", ""]
    assert told.retained == []


def test_many_interests_are_told_by_a_word_that_is_decoded_late(agent: Agent) -> None:
    with PollReader(agent, *(wish(f"topic-{number:060}") for number in range(2000))) as reader:
        assert len(reader.answer["lasts"]) == 2000
