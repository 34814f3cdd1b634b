"""To whom a link belongs: what others say of it is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pzc import Agent, Key, Keyring, Protocol, Refused, RemoteProtocolError, Role
from pzc.protocol.contents import read_refusal
from pzc.protocol.frames import PZC01, Kind
from pzc.protocol.link_messages import Close, Command, Interests, LinkMessage, Open, Opened, Report
from pzc.transport import greeting
from pzc.transport.link_stream import LinkStream

from tests.contract.rigs.peers import TIMEOUT

LINK = "a" * 32


def say(agent: Agent, publisher: Agent, word: LinkMessage) -> object:
    """Over TCP, as to another host."""
    return agent.exchange(publisher.rep_endpoint, word, TIMEOUT, transport="tcp").content


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    """A publisher, a reader with a link, and a stranger."""
    with Agent() as publisher, Agent() as reader, Agent() as stranger:
        say(reader, publisher, Open(LINK))
        say(reader, publisher, Interests(LINK, 1, [Command(1, "t", None, "block", 1, TIMEOUT)]))
        yield [publisher, reader, stranger]


@pytest.mark.parametrize(
    "word",
    [
        lambda link: Report(link, 1, 1, hold=1.0),
        Close,
        Open,
        lambda link: Interests(link, 2, [Command(1)]),
    ],
    ids=["report", "close", "open", "interests"],
)
def test_a_link_obeys_nobody_but_the_agent_that_opened_it(
    agents: list[Agent], word: Callable[[str], LinkMessage]
) -> None:
    publisher, _, stranger = agents
    publisher.publish("t", 0)
    with pytest.raises(Refused, match="belongs to another"):
        say(stranger, publisher, word(LINK))
    (found,) = publisher.statistics()["links"]["links"]
    assert found["unacknowledged"] + found["waiting"] == 1


@pytest.mark.parametrize("told", [(2, 0, []), (1, 2, []), (1, 0, [2]), (1, 0, [1] * 20_000), (-1, 0, [])])
def test_a_report_of_what_was_never_sent_is_refused(
    agents: list[Agent], told: tuple[int, int, list[int]]
) -> None:
    publisher, reader, _ = agents
    publisher.publish("t", 0)
    say(reader, publisher, Report(LINK, 0, 0, hold=1.0))
    with pytest.raises(RemoteProtocolError):
        say(reader, publisher, Report(LINK, *told, hold=1.0))
    (found,) = publisher.statistics()["links"]["links"]
    assert found["unacknowledged"] == 1


def test_a_link_obeys_no_other_key_of_the_same_agent() -> None:
    one, two = (Key(f"a long secret of {name}", name, Role.OBSERVER) for name in ("one", "two"))

    def opened(publisher: Agent, active: Key, me: str) -> object:
        """What the publisher answers over a connection of its own."""
        protocol = Protocol(keyring=Keyring([one, two], active))
        stream, nonce = greeting.connect(publisher.agent_id, publisher.rep_endpoint)
        streams.append(stream)
        receiver, word = f"{publisher.agent_id}/{nonce}", Open(LINK, transport="unix")
        until = time.monotonic() + TIMEOUT
        stream.send(
            protocol.encode(me, "", word, receiver=receiver, dialect=PZC01, sequence=1, serializer="link"),
            until,
        )
        frames = stream.receive(until, threading.Event())
        answer = protocol.open(frames, Kind.REPLY, receiver=f"{me}/{nonce}", judge_time=False).decode()
        return read_refusal(answer) or answer

    streams: list[LinkStream] = []
    with Agent(protocol=Protocol(keyring=Keyring([one, two], one))) as publisher:
        assert isinstance(opened(publisher, one, "b" * 32), Opened)
        refusal = opened(publisher, two, "b" * 32)
        for stream in streams:
            stream.close()
    assert isinstance(refusal, Refused)
    assert "another key" in str(refusal)
