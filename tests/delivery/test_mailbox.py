from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.interests import Subscriptions
from pzc.delivery.mail import Lost, Message
from pzc.delivery.mailbox import Mailbox
from pzc.delivery.policies import drop, mailbox
from pzc.protocol.errors import LocalProtocolError, PolicyRefused


def filled(box: Mailbox[str], *topics: str, size: int = 1) -> Mailbox[str]:
    """Puts one message for each topic, numbered within it."""
    for topic in topics:
        put(box, topic, size)
    return box


def put(box: Mailbox[str], topic: str, size: int = 1, sequence: int | None = None) -> None:
    number = box.next if sequence is None else sequence
    box.put(Message(topic, None, number, size, f"{topic}{number}", 0.0))


def contents(box: Mailbox[str], after: int = 0, limit: int = 5000, max_bytes: int = 1000) -> list[str]:
    taken = box.take(after, limit, max_bytes)
    return [] if taken is None else [message.payload for message in taken[2]]


def lost(box: Mailbox[str], after: int = 0, limit: int = 5000) -> tuple[Lost, ...]:
    taken = box.take(after, limit)
    assert taken is not None
    return taken[3]


def test_messages_come_in_order_and_again_until_they_are_acknowledged() -> None:
    box = filled(Mailbox(mailbox()), "a", "b", "a")
    assert contents(box) == contents(box) == ["a1", "b2", "a3"]
    assert contents(box, after=2) == ["a3"]
    box.acknowledge(2)
    assert (contents(box), len(box), box.bytes, box.delivered) == (["a3"], 1, 1, 2)


def test_a_lower_acknowledgement_changes_nothing() -> None:
    box = filled(Mailbox(mailbox()), "a", "a")
    contents(box)
    box.acknowledge(2)
    box.acknowledge(1)
    assert (box.acknowledged, box.delivered) == (2, 2)


@pytest.mark.parametrize(
    ("limit", "max_bytes", "expected"),
    [(2, 100, ["a1", "a2"]), (9, 25, ["a1", "a2"]), (9, 9, ["a1"]), (9, 30, ["a1", "a2", "a3"]), (0, 9, [])],
)
def test_a_batch_is_bounded_and_has_one_message_at_least_of_those_it_may_have(
    limit: int, max_bytes: int, expected: list[str]
) -> None:
    box = filled(Mailbox(mailbox()), "a", "a", "a", size=10)
    assert contents(box, limit=limit, max_bytes=max_bytes) == expected


def test_the_oldest_goes_when_there_are_too_many_messages() -> None:
    box = filled(Mailbox(mailbox(2)), "a", "a", "a")
    assert (contents(box), box.evicted) == (["a2", "a3"], 1)


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    box = filled(Mailbox(mailbox(max_bytes=10)), "a", "a", size=4)
    put(box, "b", 7)
    assert (contents(box), box.evicted, box.bytes) == (["b3"], 2, 7)


def test_a_message_above_the_bound_is_kept_alone() -> None:
    box = filled(Mailbox(mailbox(max_bytes=10)), "a", "a")
    put(box, "b", 99)
    assert contents(box) == ["b3"]


def test_an_eviction_is_told_until_it_is_acknowledged() -> None:
    box = filled(Mailbox(mailbox(1)), "a", "a", "b", "a")
    told = lost(box)
    assert told == lost(box) == (Lost(1, 3, "a", 1, 2, 2), Lost(1, 3, "b", 3, 3, 1))
    assert lost(box, after=3) == ()
    box.acknowledge(4)
    put(box, "a")
    assert lost(box, after=4) == ()


def test_what_was_sent_and_then_evicted_is_told_number_by_number() -> None:
    box = filled(Mailbox(mailbox(2)), "a", "b")
    contents(box)
    filled(box, "a", "a")
    assert lost(box, after=1) == (Lost(2, 2, "b", 2, 2, 1),)
    assert lost(box) == (Lost(1, 1, "a", 1, 1, 1), Lost(2, 2, "b", 2, 2, 1))


def test_a_run_of_one_topic_is_one_record_that_can_be_cut_anywhere() -> None:
    box = filled(Mailbox(mailbox(5)), *"aaaaa")
    contents(box)
    filled(box, *"aaaa")
    assert lost(box) == (Lost(1, 4, "a", 1, 4, 4),)
    assert lost(box, after=2) == (Lost(3, 4, "a", 3, 4, 2),)


def test_what_was_sent_with_holes_is_told_number_by_number() -> None:
    box = Mailbox[str](mailbox(2))
    for sequence in (3, 7):
        put(box, "a", sequence=sequence)
    contents(box)
    filled(box, "b", "b")
    assert lost(box) == (Lost(1, 1, "a", 3, 3, 1), Lost(2, 2, "a", 7, 7, 1))


def test_a_smaller_batch_does_not_make_unsent_what_was_sent() -> None:
    box = filled(Mailbox(mailbox()), "a", "a")
    contents(box)
    contents(box, limit=1)
    assert box.sent == 2


def test_what_the_process_has_received_is_no_loss_to_it() -> None:
    box = filled(Mailbox(mailbox(2)), "a", "a")
    contents(box)
    box.arrived(2)
    filled(box, "a", "a")
    assert (lost(box, after=2), box.evicted) == ((), 2)


def test_it_is_a_loss_to_the_next_process_of_a_durable_mailbox() -> None:
    box = filled(Mailbox(mailbox(2), durable=True), "a", "a")
    contents(box)
    box.arrived(2)
    filled(box, "a", "a")
    box.hand_over()
    assert (box.received, lost(box)) == (0, (Lost(1, 2, "a", 1, 2, 2),))


def test_no_eviction_is_forgotten_that_a_late_reader_would_have_to_be_told_of() -> None:
    box = filled(Mailbox(mailbox(2)), "a", "a")
    contents(box)
    box.arrived(1)
    filled(box, "a", "a")
    taken = box.take(0, 9)
    assert taken is not None
    assert (taken[0], taken[3]) == (1, (Lost(2, 2, "a", 2, 2, 1),))


def test_records_of_a_durable_mailbox_are_bounded_by_waiting_for_an_acknowledgement() -> None:
    box = Mailbox[str](mailbox(2), durable=True)
    after = 0
    for _ in range(50):
        filled(box, "a", "b")
        taken = box.take(after, 9)
        if taken is not None:
            after = taken[1] + len(taken[2]) - 1
    assert len(box._lost) <= 4
    box.acknowledge(after)
    filled(box, "a")
    assert contents(box, after)


def test_a_new_reader_of_a_full_list_of_records_is_told_of_them_and_can_go_on() -> None:
    box = filled(Mailbox(mailbox(1), durable=True), "a")
    contents(box)
    filled(box, "b", "a")
    box.hand_over()
    taken = box.take(0, 9)
    assert taken == (0, 2, [], (Lost(1, 1, "a", 1, 1, 1),))
    box.acknowledge(1)
    assert (lost(box, 1), contents(box, 1)) == ((Lost(2, 2, "b", 2, 2, 1),), ["a3"])


def test_keys_of_other_readers_leave_holes_in_what_is_counted() -> None:
    box = Mailbox[str](mailbox(1))
    for sequence in (3, 7, 8, 20):
        put(box, "a", sequence=sequence)
    assert lost(box) == (Lost(1, 3, "a", 3, 8, 3),)


def keyed(*keys: str | None, topic: str = "t") -> Subscriptions:
    subscriptions = Subscriptions()
    for key in keys:
        subscriptions.add(topic, key)
    return subscriptions


def put_keys(box: Mailbox[str], *keys: str, size: int = 1) -> None:
    for key in keys:
        box.put(Message("t", key, box.next, size, f"{key}{box.next}", 0.0))


def test_a_flood_of_one_key_evicts_no_message_of_another() -> None:
    box = Mailbox[str](mailbox(2), subscriptions=keyed("n", "q"))
    put_keys(box, "n", "q", "n", "n", "n")
    assert (contents(box), lost(box)) == (["q2"], (Lost(1, 1, "t", 1, 1, 1, "n"),))
    assert (contents(box, after=2), lost(box, after=2)) == (["n4", "n5"], (Lost(3, 3, "t", 3, 3, 1, "n"),))
    assert box.evicted == 2


def test_what_was_told_to_one_process_hides_no_later_loss_from_the_next() -> None:
    box = Mailbox[str](mailbox(2), durable=True, subscriptions=keyed("n", "q"))
    put_keys(box, "n", "q", "n", "n", "n")
    assert contents(box) == ["q2"]
    box.acknowledge(2)
    box.hand_over()
    assert lost(box, after=2) == (Lost(3, 3, "t", 3, 3, 1, "n"),)


def test_a_hole_behind_what_was_sent_is_told_when_it_comes() -> None:
    box = Mailbox[str](mailbox(2), subscriptions=keyed("n", "q"))
    put_keys(box, "q", "n", "n", "n")
    assert contents(box) == ["q1"]
    assert box.take(1, 9) == (1, 3, box._messages.part(2, 4), (Lost(2, 2, "t", 2, 2, 1, "n"),))
    assert contents(box) == ["q1"]
    box.acknowledge(4)
    assert (len(box), box.delivered, box.evicted) == (0, 3, 1)


def test_only_what_asked_for_a_message_is_told_of_its_eviction() -> None:
    box = Mailbox[str](mailbox(1), subscriptions=keyed("n", None))
    put_keys(box, "n", "q", "q")
    assert lost(box) == (Lost(1, 2, "t", 1, 2, 2), Lost(1, 2, "t", 1, 1, 1, "n"))


def test_the_key_with_most_bytes_makes_room_for_others() -> None:
    box = Mailbox[str](mailbox(9, max_bytes=10), subscriptions=keyed("n", "q"))
    put_keys(box, "q", size=2)
    put_keys(box, "n", "n", size=4)
    put_keys(box, "q", size=3)
    assert (contents(box), contents(box, after=2), box.bytes) == (["q1"], ["n3", "q4"], 9)


def test_messages_are_counted_for_those_who_want_them_by_now() -> None:
    subscriptions = keyed("n", "q")
    box = Mailbox[str](mailbox(2), subscriptions=subscriptions)
    put_keys(box, "n", "n", "q", "q")
    subscriptions.add("t", None)
    box.regroup()
    put_keys(box, "n")
    assert contents(box) == ["q4", "n5"]


def test_losses_of_every_key_hold_up_no_new_message() -> None:
    box = Mailbox[str](mailbox(1), durable=True, subscriptions=keyed("a", "b", "c"))
    put_keys(box, *"abc")
    contents(box)
    put_keys(box, *"abc")
    assert contents(box, after=3) == ["a4", "b5", "c6"]


def test_a_key_without_room_blocks_no_other() -> None:
    box = Mailbox[str](mailbox(1, when_full="block"), subscriptions=keyed("n", "q"))
    put_keys(box, "n")
    assert [box.fits(1, "t", key) for key in "nq"] == [False, True]


def test_a_mailbox_that_blocks_refuses_what_does_not_fit() -> None:
    box = filled(Mailbox(mailbox(2, 10, "block")), "a")
    assert [box.fits(9, "a"), box.fits(10, "a")] == [True, False]
    filled(box, "a")
    assert not box.fits(0, "a")
    with pytest.raises(LocalProtocolError, match="ask fits first"):
        put(box, "a")
    contents(box)
    box.acknowledge(2)
    assert box.fits(1000, "a")


def test_smaller_bounds_evict_at_once_and_leave_one_message() -> None:
    box = filled(Mailbox(mailbox()), "a", "a", "a", size=10)
    box.change(mailbox(2))
    assert contents(box) == ["a2", "a3"]
    box.change(mailbox(2, 5))
    assert contents(box) == ["a3"]


def test_a_mailbox_that_begins_to_block_keeps_everything() -> None:
    box = filled(Mailbox(mailbox()), "a", "a", "a")
    box.change(mailbox(1, when_full="block"))
    assert (len(box), box.fits(0, "a")) == (3, False)


def test_another_policy_is_refused_and_changes_nothing() -> None:
    box = Mailbox[str](mailbox(7))
    with pytest.raises(PolicyRefused, match="drop"):
        box.change(drop())
    assert box.policy == mailbox(7)


@given(
    steps=st.lists(st.tuples(st.sampled_from("ptad"), st.sampled_from("ab"), st.integers(0, 5)), max_size=60)
)
def test_every_number_is_kept_or_told_as_lost(steps: list[Any]) -> None:
    box = Mailbox[str](mailbox(3, 12), durable=True)
    topics: list[str] = []
    for step, topic, number in steps:
        if step == "p":
            topics.append(topic)
            box.put(Message(topic, None, topics.count(topic), number, "", 0.0))
        elif step == "t":
            box.take(max(box.sent - number, 0), number)
        elif step == "a":
            box.acknowledge(max(box.sent - number, 0))
        else:
            box.hand_over()
        assert box.delivered + box.evicted + len(box) == len(topics)
        taken = box.take(box.acknowledged, 100)
        if taken is None:
            assert box.acknowledged == len(topics)
        else:
            after, first, messages, told = taken
            covered = topics[after : first - 1]
            assert [sum(e.evicted for e in told if e.topic == each) for each in "ab"] == [
                covered.count(each) for each in "ab"
            ]
            assert [m.topic for m in messages] == topics[first - 1 : first - 1 + len(messages)]
