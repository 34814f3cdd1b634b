"""Loans: arrays that are filled where their readers see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Agent, LocalProtocolError

from tests.contract.rigs.peers import Inbox

SHAPE = (100, 1000)


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent(name="publisher") as publisher:
        yield publisher


def test_an_array_cannot_be_written_after_its_loan(agent: Agent) -> None:
    with agent.loan("t", SHAPE, int) as array:
        array[:] = 1
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2


def test_a_loan_reaches_broadcast_subscribers_too(agent: Agent) -> None:
    inbox = Inbox()
    with Agent() as other:
        other.subscribe(agent.rep_endpoint, "t", inbox)
        with agent.loan("t", SHAPE, int) as array:
            array[:] = 5
        assert (inbox.next().content == 5).all()


def test_a_loan_holds_no_objects(agent: Agent) -> None:
    with pytest.raises(LocalProtocolError, match="objects"), agent.loan("t", 3, object):
        raise AssertionError


def test_a_loan_that_failed_publishes_nothing(agent: Agent) -> None:
    inbox = Inbox()
    with Agent() as other:
        other.subscribe(agent.rep_endpoint, "t", inbox)
        with pytest.raises(ZeroDivisionError), agent.loan("t", SHAPE, int) as array:
            array[:] = 1 // 0
        assert agent.publish("t", "next") == 1
        assert inbox.next().content == "next"
