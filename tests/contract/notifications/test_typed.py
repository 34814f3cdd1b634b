"""The type of a topic's messages, said only when readers are there already."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pzc import Agent, Policy, TypeMismatch, block, drop, latest, mailbox

from tests.contract.rigs.pairs import eventually
from tests.contract.rigs.peers import Inbox, in_place_of

WAYS = pytest.mark.parametrize(
    ("policy", "transport"),
    [(drop(), "auto"), (latest(1), "unix"), (block(), "inproc"), (block(), "tcp"), (mailbox(), "auto")],
    ids=["broadcast", "unix", "inproc", "tcp", "mailbox"],
)


@pytest.fixture
def reader() -> Iterator[Agent]:
    with Agent() as agent:
        yield agent


@WAYS
def test_a_type_that_is_said_later_ends_who_wants_another_one(
    reader: Agent, policy: Policy, transport: str
) -> None:
    with Agent() as meter:
        lost: list[str] = []
        wrong = reader.subscribe(
            meter.rep_endpoint, "reading", policy=policy, transport=transport, type="Sound"
        )
        wrong.on_lost = lost.append
        meter.advertise("reading", type="Picture")
        eventually(lambda: lost)
        assert wrong.closed
        assert isinstance(wrong.refusal, TypeMismatch)
        assert "type Picture, and Sound is asked for" in lost[0]


@WAYS
def test_who_wants_the_type_that_is_said_later_or_none_goes_on(
    reader: Agent, policy: Policy, transport: str
) -> None:
    with Agent() as meter:
        right, plain, wrong = Inbox(), Inbox(), Inbox()
        kinds = zip((right, plain, wrong), ("Picture", "", "Sound"), strict=True)
        made = [
            reader.subscribe(
                meter.rep_endpoint, "reading", inbox, policy=policy, transport=transport, type=type or None
            )
            for inbox, type in kinds
        ]
        meter.advertise("reading", type="Picture")
        eventually(lambda: made[2].closed)
        meter.publish("reading", 7)
        assert right.contents(1) == [7]
        assert plain.contents(1) == [7]
        assert [each.closed for each in made] == [False, False, True]
        assert wrong.queue.empty()


def test_the_publisher_is_told_of_readers_that_want_another_type(
    reader: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pzc.names"), Agent() as meter:
        subscriptions = [reader.subscribe(meter.rep_endpoint, "reading", type="Sound") for _ in range(3)]
        meter.advertise("reading", type="Picture")
        eventually(lambda: all(each.closed for each in subscriptions))
        with pytest.raises(TypeMismatch):
            reader.subscribe(meter.rep_endpoint, "reading", type="Smell")
    told = [record.getMessage() for record in caplog.records if record.name == "pzc.names"]
    assert [text.split(":")[0] for text in told] == [
        f"a reader of topic 'reading' asks for messages of type {wanted!r}, and they are of type 'Picture'"
        for wanted in ("Sound", "Smell")
    ]


def test_a_type_that_is_changed_later_is_judged_again(reader: Agent) -> None:
    with Agent() as meter:
        meter.advertise("reading", type="Picture")
        subscription = reader.subscribe(meter.rep_endpoint, "reading", type="Picture")
        meter.advertise("reading", type="Sound")
        eventually(lambda: subscription.closed)


def test_a_publisher_that_came_back_without_a_type_is_judged_when_it_says_one(reader: Agent) -> None:
    with Agent() as before:
        places = before.rep_endpoint, before.pub_endpoint
        subscription = reader.subscribe(before.rep_endpoint, "reading", type="Sound")
    with in_place_of(before, Agent, *places) as after:
        assert after.wait_for_subscribers("reading", 1, 10.0)
        after.advertise("reading", type="Picture")
        eventually(lambda: subscription.closed)


def test_a_publisher_that_moved_is_judged_where_it_is(reader: Agent) -> None:
    with Agent(name="meter"):
        subscription = reader.subscribe("meter", "reading", type="Sound")
    with Agent(name="meter") as after:
        assert after.wait_for_subscribers("reading", 1, 10.0)
        after.advertise("reading", type="Picture")
        eventually(lambda: subscription.closed)
