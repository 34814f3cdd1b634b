"""KeepQueue: rules that need a certain order of events."""

from __future__ import annotations

import gc
import weakref

import pytest

from pzc.delivery.keep_queue import KeepQueue
from pzc.delivery.letters import Kept
from pzc.delivery.policies import drop, mailbox
from pzc.protocol.errors import PolicyRefused

from tests.contract.rigs.mailing import counted


def put(queue: KeepQueue[object], *numbers: int, key: str = "", size: int = 1) -> None:
    for number in numbers:
        queue.put(object(), "t", key, number, size, queue.matching("t", key), 0.0)


def made(max_messages: int = 100, max_bytes: int = 1000) -> tuple[KeepQueue[object], Kept]:
    queue: KeepQueue[object] = KeepQueue()
    queue.room = 100
    return queue, queue.want(1, "t", mailbox(max_messages, max_bytes))


def waiting(queue: KeepQueue[object], interest: Kept) -> list[int]:
    """Numbers."""
    return [letter.number for letter in queue.letters(interest)]


def taken(queue: KeepQueue[object]) -> list[int]:
    """Numbers."""
    return [letter.number for letter in queue.take(100, 1 << 30)]


def test_only_a_mailbox_keeps() -> None:
    with pytest.raises(PolicyRefused):
        KeepQueue[object]().want(1, "t", drop())


def test_the_bound_in_bytes_is_that_of_all_and_the_largest_makes_room() -> None:
    queue, every = made(max_bytes=10)
    small = queue.want(2, "t", mailbox(max_bytes=5), ("a",))
    put(queue, 1, 2, 3, size=3)
    put(queue, 4, key="a", size=3)
    assert (waiting(queue, every), len(waiting(queue, small)), queue.bytes) == ([2, 3, 4], 1, 9)


def test_what_is_under_way_counts_and_one_more_may_wait_beside_it() -> None:
    queue, interest = made(max_messages=2)
    put(queue, 1, 2)
    assert taken(queue) == [1, 2]
    put(queue, 3, 4)
    assert (waiting(queue, interest), interest.missed) == ([4], 1)


def test_whoever_publishes_waits_for_the_interests_that_block() -> None:
    queue: KeepQueue[object] = KeepQueue()
    interest = queue.want(1, "t", mailbox(1, when_full="block"))
    assert not queue.full(queue.matching("t", ""), "", 1)
    put(queue, 1)
    assert queue.full(queue.matching("t", ""), "", 1) == [interest]


def test_what_its_reader_has_no_room_for_is_owed_all_the_same() -> None:
    queue, _ = made()
    put(queue, 1, 2, 3)
    queue.room = 1
    assert (len(queue), queue.owed) == (1, 3)
    assert taken(queue) == [1]
    assert (len(queue), queue.owed) == (0, 2)
    queue.abandon()
    assert queue.owed == 0
    assert [(loss.at, loss.total) for loss in queue.losses(10, 2)] == [(3, 2)]


def test_a_loss_is_settled_when_what_came_with_it_was_acknowledged() -> None:
    queue, interest = made(max_messages=1)
    put(queue, 1, 2)
    taken(queue)
    queue.losses(10, shown=1)
    queue.done(1, 0)
    queue.hand_over()
    assert queue.want(2, "t", mailbox()) is interest
    [loss] = queue.losses(10, shown=1)
    assert (loss.at, loss.total) == (1, 1)
    queue.room = 1
    assert taken(queue) == [2]
    queue.done(1, 1)
    queue.hand_over()
    queue.want(3, "t", mailbox())
    assert queue.losses(10, shown=2) == []


def test_what_is_handed_over_counts_once_however_many_want_it() -> None:
    queue, _ = made(max_bytes=10)
    queue.want(2, "*", mailbox(100, 10))
    put(queue, 1, 2, 3, size=3)
    assert queue.bytes == 9
    queue.hand_over()
    assert (queue.bytes, queue.waiting) == (9, 3)
    both = queue.want(3, "t", mailbox(100, 10)), queue.want(4, "*", mailbox(100, 10))
    put(queue, 4, size=1)
    assert (queue.bytes, [waiting(queue, each) for each in both]) == (10, [[1, 2, 3, 4]] * 2)
    queue.forget(both[0])
    queue.room = 10
    assert (queue.bytes, taken(queue)) == (10, [1, 2, 3, 4])
    queue.hand_over()
    assert (queue.bytes, queue.waiting) == (10, 4)
    queue.forget_others()
    assert (queue.bytes, queue.waiting) == (0, 0)


def test_what_several_kept_for_nobody_comes_in_order_to_one_who_wants_all_of_it() -> None:
    queue: KeepQueue[object] = KeepQueue()
    for number, key in enumerate("ab", 1):
        queue.want(number, "t", mailbox(), (key,))
    for number, key in enumerate("abab", 1):
        put(queue, number, key=key)
    queue.hand_over()
    queue.want(3, "t", mailbox())
    queue.room = 10
    assert taken(queue) == [1, 2, 3, 4]
    queue.forget_others()
    assert (queue.waiting, len(queue.interests)) == (0, 1)


def test_a_flood_of_one_key_costs_another_one_of_the_same_interest_nothing() -> None:
    queue: KeepQueue[object] = KeepQueue()
    interest = queue.want(1, "t", mailbox(2), ("a", "b"))
    put(queue, 1, key="a")
    put(queue, *range(2, 10), key="b")
    assert (waiting(queue, interest), interest.missed) == ([1, 8, 9], 6)


def test_what_is_under_way_of_one_key_takes_no_room_of_another() -> None:
    queue: KeepQueue[object] = KeepQueue()
    interest = queue.want(1, "t", mailbox(2, when_full="block"), ("a", "b"))
    put(queue, 1, 2, key="a")
    queue.room = 10
    assert taken(queue) == [1, 2]
    assert queue.full(queue.matching("t", "a"), "a", 1) == [interest]
    assert queue.full(queue.matching("t", "b"), "b", 1) == []
    queue.done(2, 2)
    assert queue.full(queue.matching("t", "a"), "a", 1) == []


def test_those_with_most_bytes_make_room_one_after_the_other() -> None:
    queue: KeepQueue[object] = KeepQueue()
    interests = [
        queue.want(number, "t", mailbox(max_bytes=100), (key,)) for number, key in enumerate("abc", 1)
    ]
    for number, (key, size) in enumerate([("a", 20), ("a", 20), ("b", 30), ("c", 5), ("b", 25)], 1):
        put(queue, number, key=key, size=size)
    lost: list[list[int]] = []
    for number in range(6, 10):
        put(queue, number, key="c", size=20)
        lost.append([each.missed for each in interests])
    assert lost == [[0, 1, 0], [1, 1, 0], [1, 1, 2], [1, 1, 3]]


def test_that_key_of_an_interest_makes_room_which_has_most_bytes() -> None:
    queue: KeepQueue[object] = KeepQueue()
    interest = queue.want(1, "t", mailbox(max_bytes=10), ("a", "b"))
    put(queue, 1, key="a", size=2)
    put(queue, *range(2, 10), key="b", size=2)
    assert waiting(queue, interest) == [1, 6, 7, 8, 9]


def calls_of_an_eviction(interests: int) -> int:
    queue: KeepQueue[object] = KeepQueue()
    for number in range(interests):
        queue.want(number + 1, "t", mailbox(max_bytes=interests), (str(number),))
        put(queue, number, key=str(number))
    put(queue, interests, key="0")
    with counted() as calls:
        put(queue, *range(interests + 1, interests + 101), key="1")
        return calls()


def test_eviction_costs_the_same_however_many_interests_there_are() -> None:
    assert calls_of_an_eviction(2000) <= 1.1 * calls_of_an_eviction(20)


def test_an_eviction_makes_no_list_of_the_other_claims_of_its_letter() -> None:
    queue, every = made()
    small = queue.want(2, "t", mailbox(1))
    claims = queue.matching("t", "")
    put(queue, 1, 2)
    assert all(letter.claims is claims for letter in queue.letters(every))
    assert [letter.claims for letter in queue.take(2, 1 << 30)] == [(every,), (every, small)]


def test_letters_are_let_go_of_without_the_collector() -> None:
    queue, interest = made(max_messages=10)
    put(queue, *range(1, 21))
    [kept] = {id(letter.claims[0]) for letter in queue.letters(interest)}
    assert kept == id(interest)
    assert not any(gc.is_tracked(letter) for letter in queue.letters(interest))
    gone = weakref.ref(queue)
    gc.disable()
    try:
        del queue
        assert gone() is None
    finally:
        gc.enable()
