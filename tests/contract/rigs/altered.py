"""Links that alter what they carry from a publisher that seems to run elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pzc import Agent, Gap, Protocol

from tests.contract.rigs.peers import KEY, Elsewhere, Forwarder, Frames, Inbox, balance

Alter = Callable[[int, Frames], list[Frames]]


@pytest.fixture
def publisher() -> Iterator[Elsewhere]:
    with Elsewhere(protocol=Protocol(KEY)) as made:
        yield made


def is_note(frames: Frames, number: int) -> bool:
    return f"+t+{number}+".encode() in frames[0]


def instead(number: int, change: Callable[[Frames], list[Frames]]) -> Alter:
    """Changes one notification of topic t."""
    return lambda _, frames: change(frames) if is_note(frames, number) else [frames]


def published(
    publisher: Elsewhere, reader: Agent, alter: Alter, count: int = 8, **options: Any
) -> tuple[list[int], list[Gap], int]:
    """The numbers that arrive of so many over a link that alters them, the gaps, and what was refused."""
    with Forwarder(publisher.pub_endpoint, alter) as forwarder:
        publisher.advertised = forwarder.endpoint
        got = Inbox()
        with reader.subscribe(publisher.rep_endpoint, "t", got, **options) as subscription:
            for number in range(1, count + 1):
                publisher.publish("t", number)
            publisher.publish("t", "end")
            numbers = got.until("end")
            assert balance(subscription) == count + 1
            return numbers, subscription.gaps, reader.counters["notifications_refused"]
