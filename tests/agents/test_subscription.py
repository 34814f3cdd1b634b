from __future__ import annotations

import queue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import (
    Gap,
    Policy,
    ReceiveTimeout,
    Subscription,
    drop,
    latest,
    mailbox,
)
from pzc.transport.executor import Executor

from tests.agents.subscriptions import EPOCH, Make, deliver, feed, hear, heard, note
from tests.contract.rigs.peers import TIMEOUT, balance, run_threads


def test_what_comes_out_of_a_mailbox_is_never_dropped(make: Make) -> None:
    subscription = make(policy=mailbox(max_messages=1))
    feed(subscription, 1, 3)
    assert [subscription.recv(0).sequence for _ in range(3)] == [1, 2, 3]
    assert subscription.dropped == 0


def test_recv_in_vain_is_a_timeout(make: Make) -> None:
    with pytest.raises(ReceiveTimeout, match="no notification of t within 0 s"):
        make().recv(0)


def test_recv_gives_a_content_of_its_own(make: Make) -> None:
    subscription, content = make(), {"values": [1, 2]}
    deliver(subscription, note(1, content))
    own = subscription.recv(0)
    own.content["values"].append(3)
    assert content == {"values": [1, 2]}
    assert (own.sequence, own.sent_at, own.received_at) == (1, 1.0, 2.0)


def test_recv_zero_copy_gives_the_shared_object(make: Make) -> None:
    one, other, content = make(), make(), [1]
    for subscription in (one, other):
        deliver(subscription, note(1, content))
    with one.recv_zero_copy(0) as first, other.recv_zero_copy(0) as second:
        assert first.content is second.content is content


def test_a_gap_is_counted_kept_and_told(make: Make) -> None:
    told: queue.SimpleQueue[Gap] = queue.SimpleQueue()
    subscription = make()
    subscription.on_gap = told.put
    feed(subscription, 1, 3)
    feed(subscription, 6, 6)
    gap = Gap(EPOCH, 4, 5)
    assert told.get(timeout=TIMEOUT) == gap
    assert (subscription.gaps, subscription.dropped) == ([gap], 2)


def test_only_the_last_thousand_gaps_are_kept(make: Make) -> None:
    subscription = make(policy=drop(10_000))
    for number in range(2, 2_400, 2):
        feed(subscription, number, number)
    assert len(subscription.gaps) == 1_000
    assert subscription.gaps[-1].last == 2_397
    assert balance(subscription) == 2_398 - 1


@given(
    arrivals=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2)), max_size=80),
    policy=st.sampled_from([drop(1), drop(7), latest(1), latest(5), drop(1000)]),
    reads=st.sets(st.integers(0, 80)),
)
def test_whatever_the_network_does_every_publication_is_accounted_for(
    arrivals: list[tuple[int, int]], policy: Policy, reads: set[int]
) -> None:
    """Numbers 1 to 41 are published; any of them arrives late, twice, or never; the last one arrives."""
    executor = Executor("pzc-test")
    subscription = Subscription("p", "t", None, policy, None, executor, lambda _: None)
    share = heard(subscription, held=True)
    share.begin(EPOCH, {"t": 0})
    seen: list[int] = []
    for turn, (number, repeats) in enumerate(arrivals):
        for _ in range(repeats):
            hear(share, number, number)
        if turn in reads and subscription.pending:
            seen.append(subscription.recv(0).content)
    hear(share, 41, 41)
    assert balance(subscription) == 41
    while subscription.pending:
        seen.append(subscription.recv(0).content)
    assert seen == sorted(set(seen))
    subscription.close()
    assert subscription.received + subscription.dropped == 41


def test_iteration_gives_each_notification_and_ends_with_the_subscription(make: Make) -> None:
    subscription, seen = make(), queue.SimpleQueue[int]()

    def read() -> None:
        for notification in subscription:
            seen.put(notification.content)
        seen.put(-1)

    def write() -> None:
        feed(subscription, 1, 3)
        assert [seen.get(timeout=TIMEOUT) for _ in range(3)] == [1, 2, 3]
        subscription.close()
        assert seen.get(timeout=TIMEOUT) == -1

    run_threads(read, write)


def test_the_representation_says_what_and_how_much(make: Make) -> None:
    subscription = make()
    feed(subscription, 1, 2)
    subscription.recv(0)
    assert repr(subscription) == "<Subscription t of p: 1 received, 0 dropped>"
    subscription.close()
    assert repr(subscription) == "<Subscription t of p: closed>"
