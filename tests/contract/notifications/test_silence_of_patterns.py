"""A mailbox of several publishers, of which one is not heard of for longer than its name lives, or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pzc import Agent, Notification, discover, mailbox
from pzc.testing import Timings

from tests.contract.rigs.naming import serve
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT, in_place_of
from tests.contract.rigs.processes import Workers

pytestmark = pytest.mark.timeout(180)


class Reader:
    """Takes what comes and acknowledges nothing; every method is a word."""

    def __init__(self) -> None:
        self._taken: list[Any] = []

    def take(self, notification: Notification) -> None:
        self._taken.append(notification.content)

    def taken(self) -> list[Any]:
        """Contents."""
        return self._taken

    def knows(self, name: str) -> bool:
        """As the function."""
        return knows(name)


def knows(name: str) -> bool:
    """Whether somebody has this full name, as far as this process has heard."""
    return any(entry.name == name for entry in discover("**", 0.01))


@contextmanager
def reading(pattern: str) -> Iterator[Reader]:
    reader = Reader()
    with Agent() as agent:
        agent.subscribe(pattern, "v", reader.take, policy=mailbox(name="archive"), manual_ack=True)
        yield reader


def test_what_a_publisher_kept_before_it_was_silent_is_there_for_the_next_reader(workers: Workers) -> None:
    source = serve(workers, "silent1")
    first = workers.begin(reading, "silent*")
    assert source.ask("wait", "v")
    for number in range(5):
        source.ask("publish", "v", number)
    wait_until(lambda: first.ask("taken") == [0, 1, 2, 3, 4])
    source.freeze()
    wait_until(lambda: not first.ask("knows", "/silent1"))
    source.thaw()
    wait_until(lambda: first.ask("knows", "/silent1"))
    source.ask("publish", "v", 5)
    wait_until(lambda: 5 in first.ask("taken"))
    first.kill()
    second = workers.begin(reading, "silent*")
    wait_until(lambda: second.ask("taken") == [0, 1, 2, 3, 4, 5])


def test_what_a_publisher_kept_for_a_node_of_the_graph_before_it_was_silent_is_not_lost(
    workers: Workers,
) -> None:
    source = serve(workers, "silent1")
    with Agent() as agent, agent.subscribe_graph("/silent1/v", policy=mailbox()) as subscription:
        assert source.ask("wait", "v")
        for number in range(5):
            source.ask("publish", "v", number)
        wait_until(lambda: subscription.pending == 5)
        source.freeze()
        wait_until(lambda: not knows("/silent1"))
        source.thaw()
        wait_until(lambda: knows("/silent1"))
        source.ask("publish", "v", 5)
        assert [subscription.recv(TIMEOUT).content for _ in range(6)] == [0, 1, 2, 3, 4, 5]
        assert subscription.dropped == 0


def test_one_publisher_that_has_no_room_for_a_mailbox_any_more_ends_none_of_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Agent(name="room2") as other, Agent() as agent:
        full = Agent(name="room1")
        with agent.subscribe("room*", "v", policy=mailbox()) as subscription:
            full.publish("v", 1)
            other.publish("v", 2)
            assert {subscription.recv(TIMEOUT).content for _ in range(2)} == {1, 2}
            full.stop()
            with Timings(mailboxes=0), in_place_of(full, Agent, full.rep_endpoint, name="room1"):
                wait_until(lambda: "/room1 is left out of 'v'" in caplog.text)
                other.publish("v", 3)
                assert subscription.recv(TIMEOUT).content == 3
            assert (subscription.closed, subscription.refusal) == (False, None)
