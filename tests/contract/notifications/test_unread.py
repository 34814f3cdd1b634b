"""A lossy subscription that does not read, or is slow, holds up no other one of its process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from pzc import Agent, Notification, Policy, Protocol, drop, latest

from tests.contract.rigs.evidence import digest, payload
from tests.contract.rigs.pairs import read, wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT, Inbox, balance
from tests.contract.rigs.processes import Hand, Workers

LARGE = 1 << 20


def named(policy: Policy) -> str:
    return f"{policy.name}({policy.bound})"


def stranger() -> Agent:
    """A reader that shares no link inside the process with agents of the default protocol."""
    return Agent(protocol=Protocol(KEY, accept=("PZC01", "PZC00")))


def lockstep(publisher: Hand, topic: str, got: Inbox, numbers: Sequence[int], size: int = LARGE) -> None:
    """Publish one by one, each when the one before has come."""
    for number in numbers:
        publisher.ask("publish", topic, [size], number)
        assert digest(got.next().content) == digest(payload(number, size))


@pytest.mark.needs("memfd", "unix")
@pytest.mark.parametrize("policy", [drop(), latest(5), latest(30)], ids=named)
def test_large_contents_that_one_subscription_does_not_read_hold_up_no_other_one(
    workers: Workers, policy: Policy
) -> None:
    publisher, endpoint = workers.publisher()
    got, count = Inbox(), 20
    with Agent(protocol=Protocol(KEY)) as reader:
        unread = reader.subscribe(endpoint, "t", policy=policy)
        reader.subscribe(endpoint, "t", got)
        lockstep(publisher, "t", got, range(1, count + 1))
        assert balance(unread) == count
        kept = min(count, policy.bound)
        found = [unread.recv(TIMEOUT) for _ in range(kept)]
    assert [each.sequence for each in found] == [*range(count - kept + 1, count + 1)]
    assert all(digest(each.content) == digest(payload(each.sequence, LARGE)) for each in found)


@pytest.mark.needs("memfd", "unix")
def test_large_contents_that_nobody_reads_hold_up_no_other_topic(workers: Workers) -> None:
    publisher, endpoint = workers.publisher()
    got = Inbox()
    with Agent(protocol=Protocol(KEY)) as reader:
        unread = [reader.subscribe(endpoint, "t", policy=policy) for policy in (drop(), latest(8))]
        reader.subscribe(endpoint, "u", got)
        publisher.ask("publish", "t", [LARGE] * 8)
        lockstep(publisher, "u", got, range(1, 11))
        for each in unread:
            assert [each.recv(TIMEOUT).sequence for _ in range(8)] == [*range(1, 9)]


@pytest.mark.needs("memfd", "unix")
@pytest.mark.parametrize("policy", [drop(), latest(1)], ids=named)
def test_a_callback_that_does_not_return_holds_up_no_other_subscription(
    workers: Workers, policy: Policy
) -> None:
    publisher, endpoint = workers.publisher()
    got, entered, leave = Inbox(), threading.Event(), threading.Event()

    def stand(_: Notification) -> None:
        entered.set()
        leave.wait(TIMEOUT)

    with Agent(protocol=Protocol(KEY)) as reader:
        standing = reader.subscribe(endpoint, "t", stand, policy=policy)
        reader.subscribe(endpoint, "t", got)
        lockstep(publisher, "t", got, range(1, 21))
        assert entered.wait(TIMEOUT)
        assert balance(standing) == 20
        leave.set()
        wait_until(lambda: not standing.pending)
        assert standing.received == (20 if policy == drop() else 2)


@pytest.mark.parametrize("transport", ["tcp", pytest.param("unix", marks=pytest.mark.needs("memfd", "unix"))])
def test_of_large_contents_that_nobody_reads_64_mib_are_kept_and_the_rest_is_counted(
    workers: Workers, transport: str
) -> None:
    publisher, endpoint = workers.publisher()
    got, kept, size = Inbox(), 64, LARGE - (1 << 12)
    with Agent(protocol=Protocol(KEY)) as reader:
        policies = drop(), latest(1000)
        oldest, newest = [
            reader.subscribe(endpoint, "t", policy=policy, transport=transport) for policy in policies
        ]
        reader.subscribe(endpoint, "t", got, transport=transport)
        lockstep(publisher, "t", got, range(1, kept + 11), size)
        for unread, first in ((oldest, 1), (newest, 11)):
            assert (unread.pending, unread.dropped) == (kept, 10)
            assert sum(gap.count for gap in unread.gaps) == 10
            assert [unread.recv(TIMEOUT).sequence for _ in range(kept)] == [*range(first, first + kept)]
        lockstep(publisher, "t", got, [kept + 11], size)
        assert oldest.recv(TIMEOUT).sequence == newest.recv(TIMEOUT).sequence == kept + 11
    wait_until(lambda: not publisher.ask("statistics")["links"])


@pytest.mark.usefixtures("broadcast")
def test_of_large_contents_of_a_name_to_come_64_mib_are_kept_as_well() -> None:
    got = Inbox()
    with Agent() as reader, reader.subscribe("unread", "t", timeout=0.1) as subscription:
        with Agent(name="unread") as publisher:
            assert publisher.wait_for_subscribers("t", 1, TIMEOUT)
            reader.subscribe("unread", "t", got)
            for number in range(66):
                publisher.publish("t", payload(number, LARGE))
                got.next()
            assert (subscription.pending, subscription.dropped) == (63, 3)


def test_a_quick_callback_gets_all_large_contents_that_are_broadcast_at_once() -> None:
    got, content, count = Inbox(), bytes(LARGE), 150
    with Agent() as publisher, Agent() as reader:
        subscription = reader.subscribe(publisher.rep_endpoint, "t", got, transport="tcp")
        for _ in range(10):
            publisher.publish("t", 0)
            got.next()
        for _ in range(count):
            publisher.publish("t", content)
        assert [each.sequence for each in got.take(count)] == [*range(11, 11 + count)]
        assert subscription.dropped == 0


@pytest.mark.needs("memfd", "unix")
def test_what_a_drop_does_not_read_it_keeps_beyond_what_lies_in_shared_memory(workers: Workers) -> None:
    publisher, endpoint = workers.publisher()
    with Agent(protocol=Protocol(KEY)) as reader:
        subscription = reader.subscribe(endpoint, "t", policy=drop(100_000))
        for number in range(1, 51):
            publisher.ask("publish", "t", [LARGE], number)
            wait_until(lambda number=number: balance(subscription) == number)
        assert [subscription.recv(TIMEOUT).sequence for _ in range(50)] == [*range(1, 51)]


@pytest.mark.parametrize("transport", ["inproc", pytest.param("unix", marks=pytest.mark.needs("unix"))])
def test_many_small_contents_that_one_subscription_does_not_read_hold_up_no_other_one(
    transport: str,
) -> None:
    got, count, part = Inbox(), 12_000, 500
    with (
        Agent(protocol=Protocol(KEY)) as publisher,
        Agent(protocol=Protocol(KEY)) if transport == "inproc" else stranger() as reader,
    ):
        unread = reader.subscribe(publisher.rep_endpoint, "t", policy=drop(count))
        reader.subscribe(publisher.rep_endpoint, "t", got)
        for first in range(0, count, part):
            for number in range(first, first + part):
                publisher.publish("t", number)
            assert got.contents(part) == [*range(first, first + part)]
        assert (unread.transport, balance(unread)) == (transport, count)
        assert read(unread, count) == [*range(count)]


@pytest.mark.needs("memfd", "unix")
def test_what_a_subscription_does_not_read_is_not_done_with_for_who_waits_for_it(workers: Workers) -> None:
    got, content = Inbox(), np.zeros(LARGE, np.uint8)
    with Agent(protocol=Protocol(KEY)) as publisher, stranger() as reader:
        unread = reader.subscribe(publisher.rep_endpoint, "t", policy=drop())
        reader.subscribe(publisher.rep_endpoint, "t", got)
        for _ in range(5):
            publisher.publish("t", content)
            got.next()
        publisher.publish("t", content, ack_wait=0.05)
        got.next()
        assert publisher.counters["ack_waits_missed"] == 1
        for _ in range(5):
            publisher.publish("t", content)
            got.next()
        assert balance(unread) == 11
