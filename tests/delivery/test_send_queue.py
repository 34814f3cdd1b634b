"""SendQueue: each rule of its tables by itself."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from pzc.delivery.claims import Interest, Loss
from pzc.delivery.policies import Policy, block, drop, latest, mailbox
from pzc.delivery.send_queue import Most, SendQueue
from pzc.protocol.errors import ConfigError, PolicyRefused, RemoteProtocolError


def made(policy: Policy, most: Most | None = None) -> tuple[SendQueue[object], Interest, list[bool]]:
    flows = [True]
    queue: SendQueue[object] = SendQueue(lambda: flows[0], most or Most())
    return queue, queue.want(1, "t", policy), flows


def put(queue: SendQueue[object], *numbers: int, size: int = 1, leased: bool = False) -> list[bool]:
    claims = queue.matching("t", "")
    return [queue.put(object(), number, size, leased, claims) for number in numbers]


def taken(queue: SendQueue[object]) -> list[int]:
    """Numbers."""
    return [entry.number for entry in queue.take(100, 1 << 30, True)]


def test_drop_keeps_the_oldest_while_the_carrier_takes_nothing() -> None:
    queue, interest, flows = made(drop(2))
    flows[0] = False
    assert put(queue, 1, 2, 3, 4) == [True, True, False, False]
    flows[0] = True
    queue.refill()
    put(queue, 5)
    assert taken(queue) == [1, 2, 5]
    assert queue.losses(10) == [Loss(interest, "t", 4, 2)]


def test_latest_keeps_the_newest_while_the_carrier_takes_nothing() -> None:
    queue, interest, flows = made(latest(2))
    flows[0] = False
    assert put(queue, 1, 2, 3, 4) == [True] * 4
    assert [entry.number for entry in queue.gone] == [1, 2]
    flows[0] = True
    queue.refill()
    assert taken(queue) == [3, 4]
    assert queue.losses(10) == [Loss(interest, "t", 2, 2)]


def test_what_gives_way_makes_no_list_of_the_other_claims_of_its_entry() -> None:
    queue, every, flows = made(latest(2))
    newest = queue.want(2, "t", latest(1))
    claims = queue.matching("t", "")
    flows[0] = False
    put(queue, 1, 2)
    assert all(entry.claims is claims for entry in every.waiting)
    flows[0] = True
    queue.refill()
    assert [entry.claims for entry in queue.take(2, 1 << 30, True)] == [(every,), (every, newest)]


def test_what_is_abandoned_is_lost_whether_it_waits_or_is_ready() -> None:
    queue, interest, flows = made(latest(2))
    put(queue, 1)
    taken(queue)
    put(queue, 2, leased=True)
    flows[0] = False
    put(queue, 3)
    queue.abandon()
    assert (len(queue), interest.held, queue.behind) == (0, 1, True)
    assert queue.losses(10) == [Loss(interest, "t", 3, 2)]
    assert sorted(entry.number for entry in queue.gone) == [2, 3]
    put(queue, 4)
    flows[0] = True
    queue.refill()
    assert taken(queue) == [4]


def test_drop_runs_ahead_of_a_carrier_that_says_so_but_not_with_blocks() -> None:
    queue, interest, flows = made(drop(1))
    flows[0], queue.runs_ahead = False, True
    put(queue, 1, 2)
    assert len(queue) == 2
    put(queue, 3, leased=True)
    assert (len(queue), len(interest.waiting)) == (2, 1)


@pytest.mark.parametrize(
    ("most", "leased"),
    [(Most(messages=2), False), (Most(bytes=20), False), (Most(leased=2), True)],
)
def test_what_a_reader_is_not_done_with_is_bounded(most: Most, leased: bool) -> None:
    queue, interest, _ = made(drop(10), most)
    put(queue, 1, 2, 3, size=10, leased=leased)
    assert (len(queue), len(interest.waiting)) == (2, 1)
    queue.take(100, 1 << 30, True)
    queue.done(2, 1, [])
    queue.refill()
    assert (len(queue), len(interest.waiting)) == (1, 0)


def test_bytes_that_wait_are_bounded_for_both_lossy_policies() -> None:
    for policy, left in ((drop(10), [1, 2]), (latest(10), [2, 3])):
        queue, interest, flows = made(policy, Most(waiting=20))
        flows[0] = False
        put(queue, 1, 2, 3, size=10)
        assert [entry.number for entry in interest.waiting] == left


def test_a_full_window_is_told_until_the_reader_is_done() -> None:
    queue, interest, _ = made(block(slots=2))
    put(queue, 1, 2)
    queue.take(100, 1 << 30, True)
    assert interest.is_full
    queue.done(2, 0, [2])
    assert not interest.is_full


def test_an_interest_of_keys_gets_those_and_misses_no_others() -> None:
    queue: SendQueue[object] = SendQueue(lambda: False)
    mine, every = queue.want(1, "t", latest(1), keys=("mine",)), queue.want(1, "t", latest(1))
    assert queue.matching("t", "other") == (every,)
    assert set(queue.matching("t", "mine")) == {mine, every}
    assert queue.matching("u", "mine") == ()


def test_a_lossy_interest_does_not_hold_up_one_that_is_waited_for() -> None:
    queue, lossy, flows = made(latest(1))
    waited = queue.want(1, "t", block(slots=3))
    flows[0] = False
    put(queue, 1, 2)
    assert [entry.claims for entry in queue.take(100, 1 << 30, True)] == [(waited,), (waited,)]
    assert queue.done(2, 2, [])[0].number == 1
    assert [entry.number for entry in queue.gone] == []  # 1 went for the other, and is free with that
    flows[0] = True
    queue.refill()
    assert [entry.claims for entry in queue.take(100, 1 << 30, True)] == [(lossy,)]


def test_an_interest_of_one_topic_does_not_hold_up_another() -> None:
    queue, leasing, _ = made(drop(5), Most(leased=1))
    put(queue, 1, 2, leased=True)
    other = queue.want(2, "u", drop(5))
    assert queue.put(object(), 1, 1, False, (other,))
    assert (len(leasing.waiting), len(queue)) == (1, 2)


def test_what_is_waited_for_and_what_may_be_lost_are_done_with_apart() -> None:
    queue, waited, _ = made(block(slots=1))
    lossy = queue.want(2, "t", drop(5))
    put(queue, 1, leased=True)
    first, second = queue.take(100, 1 << 30, True)
    assert ((first.claims, second.claims), first.number) == (((waited,), (lossy,)), second.number)
    assert queue.done(2, first.position, []) == []
    assert (waited.is_full, lossy.held) == (False, 1)
    assert queue.done(2, second.position, []) == [second]


def test_a_sum_is_told_once_and_again_over_another_connection() -> None:
    queue, interest, _ = made(block(slots=1))
    queue.lose(interest, 2)
    queue.lose(interest, 1)
    assert queue.behind
    assert queue.losses(10) == [Loss(interest, "t", 2, 2)]
    assert (queue.losses(10), queue.behind) == ([], False)
    queue.resume(0)
    assert queue.losses(10) == [Loss(interest, "t", 2, 2)]


def test_of_many_sums_some_are_told_at_a_time() -> None:
    queue, one, _ = made(block())
    other = queue.want(2, "u", block())
    queue.lose(one, 1)
    queue.lose(other, 1)
    assert [queue.losses(1), queue.losses(1)] == [[Loss(one, "t", 1, 1)], [Loss(other, "u", 1, 1)]]


def test_of_what_is_forgotten_no_loss_is_told() -> None:
    queue, interest, flows = made(drop(1))
    flows[0] = False
    put(queue, 1, 2)
    queue.forget(interest)
    assert (queue.losses(10), queue.behind, len(queue.gone)) == ([], False, 1)


def test_what_is_suspended_is_lost_unless_it_was_received() -> None:
    queue, waited, flows = made(block(slots=5))
    lossy = queue.want(2, "u", latest(1))
    put(queue, 1, 2, 3)
    queue.take(2, 1 << 30, True)
    flows[0] = False
    queue.put(object(), 7, 1, False, (lossy,))
    assert [(entry.number, entry.position) for entry in queue.suspend()] == [(1, 1), (2, 2)]
    assert sorted(entry.number for entry in queue.gone) == [3, 7]
    assert (len(queue), queue.unacknowledged) == (0, 0)
    queue.resume(1)
    assert (waited.delivered, waited.missed, lossy.missed) == (1, 2, 1)
    assert queue.losses(10) == [Loss(waited, "t", 3, 2), Loss(lossy, "u", 7, 1)]


def test_while_it_is_suspended_nothing_is_kept_and_everything_is_counted() -> None:
    queue, waited, _ = made(block(slots=1))
    queue.suspend()
    assert put(queue, 1, 2, 3) == [False] * 3
    assert (waited.is_full, waited.missed) == (False, 3)
    queue.resume(0)
    put(queue, 4)
    assert [(entry.number, entry.position) for entry in queue.take(9, 1 << 30, True)] == [(4, 1)]


def test_positions_that_were_not_received_are_given_again() -> None:
    queue, _, _ = made(block())
    put(queue, 1, 2)
    queue.take(9, 1 << 30, True)
    queue.suspend()
    with pytest.raises(RemoteProtocolError):
        queue.resume(3)
    queue.resume(1)
    put(queue, 3)
    assert [(entry.number, entry.position) for entry in queue.take(9, 1 << 30, True)] == [(3, 2)]
    assert [entry.number for entry in queue.done(2, 2, [])] == [3]


@pytest.mark.parametrize("position", [-1, 2])
def test_positions_that_were_never_sent_are_refused(position: int) -> None:
    queue, _, _ = made(block())
    put(queue, 1)
    queue.take(1, 1, True)
    for speak in (
        lambda: queue.check(position),
        lambda: queue.resume(position),
        lambda: queue.done(position, 0, []),
        lambda: queue.done(0, position, []),
        lambda: queue.done(0, 0, [position]),
    ):
        with pytest.raises(RemoteProtocolError):
            speak()


def test_what_is_no_policy_of_a_queue_is_refused() -> None:
    queue, _, _ = made(block())
    with pytest.raises(PolicyRefused):
        queue.want(1, "t", mailbox())
    with pytest.raises(ConfigError):
        queue.want(1, "t", block(), 0)


def test_what_goes_again_comes_before_all_that_may_be_lost() -> None:
    queue, interest, _ = made(latest(1))
    put(queue, 1)
    queue.take(1, 1, True)
    queue.resume(0)
    put(queue, 2, 3)
    assert taken(queue) == [1]
    assert [entry.number for entry in interest.waiting] == [3]


def test_a_block_is_given_out_of_the_middle_of_what_waits() -> None:
    queue, interest, flows = made(drop(5))
    flows[0] = False
    put(queue, 1)
    put(queue, 2, leased=True)
    put(queue, 3)
    assert queue.give_block()
    flows[0] = True
    queue.refill()
    assert taken(queue) == [1, 3]
    assert queue.losses(10) == [Loss(interest, "t", 2, 1)]


def test_an_entry_takes_along_all_that_wait_for_it_and_may_go() -> None:
    queue, first, flows = made(latest(1))
    second = queue.want(1, "t", latest(2))
    flows[0] = False
    put(queue, 1)
    flows[0] = True
    queue.refill()
    assert [entry.claims for entry in queue.take(100, 1 << 30, True)] == [(first, second)]


def test_an_entry_takes_along_nobody_for_whom_an_older_one_waits() -> None:
    queue, behind, flows = made(latest(5))
    flows[0] = False
    put(queue, 1)
    hasty = queue.want(2, "t", drop(5))
    put(queue, 2)
    queue.runs_ahead = True
    queue.refill()
    assert [(entry.number, entry.claims) for entry in queue.take(9, 1 << 30, True)] == [(2, (hasty,))]
    assert [entry.number for entry in behind.waiting] == [1, 2]


def test_what_did_not_go_after_all_is_the_next_before_what_goes_again() -> None:
    queue, _, _ = made(block())
    put(queue, 1, 2, 3, 4)
    queue.take(4, 1 << 30, True)
    queue.resume(0)
    queue.later(queue.take(2, 1 << 30, True))
    assert taken(queue) == [1, 2, 3, 4]


def test_an_interest_for_which_nothing_waits_any_more_takes_no_more_than_one_that_is_new() -> None:
    queue: SendQueue[object] = SendQueue(lambda: False)
    interest = queue.want(1, "t", latest(), keys=["a"])
    new = sys.getsizeof(interest.waiting)
    queue.put(object(), 1, 1, False, (interest,))
    assert sys.getsizeof(interest.waiting) < 128
    queue.give_up(interest)
    assert sys.getsizeof(interest.waiting) == new
    other = queue.want(2, "t", latest(), keys=["b"])
    assert interest.waiting is other.waiting


def test_an_interest_of_one_key_takes_little_memory() -> None:
    queue: SendQueue[object] = SendQueue(lambda: False)
    policy, keys = latest(), [(str(number),) for number in range(2000)]
    tracemalloc.start()
    try:
        for number, key in enumerate(keys, 1):
            queue.want(number, "t", policy, keys=key)
        assert tracemalloc.get_traced_memory()[0] / len(keys) < 400
    finally:
        tracemalloc.stop()
