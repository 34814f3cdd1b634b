"""What is broadcast and received: judged one by one, in order, and every loss a gap."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from pzc import Agent, Gap, drop

from tests.contract.rigs import altered
from tests.contract.rigs.altered import instead, is_note, published
from tests.contract.rigs.peers import TIMEOUT, Elsewhere, Frames, Inbox, balance

publisher = altered.publisher

pytestmark = pytest.mark.usefixtures("broadcast")


class Unreadable:
    """Can be sent and not be read."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return int, ("not a number",)


def test_a_loss_is_a_gap(publisher: Elsewhere, reader: Agent) -> None:
    numbers, gaps, _ = published(publisher, reader, instead(5, lambda _: []))
    assert (numbers, gaps) == ([1, 2, 3, 4, 6, 7, 8], [Gap(publisher.epoch, 5, 5)])
    assert reader.counters["notifications_lost"] == 1


def test_a_repetition_is_refused(publisher: Elsewhere, reader: Agent) -> None:
    numbers, gaps, refused = published(publisher, reader, instead(5, lambda frames: [frames] * 3))
    assert (numbers, gaps, refused) == (list(range(1, 9)), [], 2)
    assert reader.counters["refused_ReplayedMessage"] == 2


def test_what_was_changed_on_the_way_is_refused_and_a_gap(publisher: Elsewhere, reader: Agent) -> None:
    numbers, gaps, refused = published(
        publisher, reader, instead(5, lambda frames: [[*frames[:2], frames[2] + b"x", *frames[3:]]])
    )
    assert (numbers, gaps, refused) == ([1, 2, 3, 4, 6, 7, 8], [Gap(publisher.epoch, 5, 5)], 1)
    assert reader.counters["refused_SignatureError"] == 1


def test_what_comes_late_is_refused_after_its_gap(publisher: Elsewhere, reader: Agent) -> None:
    late: list[Frames] = []

    def swap(_: int, frames: Frames) -> list[Frames]:
        if is_note(frames, 5):
            late.append(frames)
            return []
        return [frames, late.pop()] if is_note(frames, 6) else [frames]

    numbers, gaps, _ = published(publisher, reader, swap)
    assert (numbers, gaps) == ([1, 2, 3, 4, 6, 7, 8], [Gap(publisher.epoch, 5, 5)])
    assert reader.counters["notifications_repeated"] == 1


@pytest.mark.parametrize("count", [1, 2, 4, 6, 9, 11])
def test_a_message_of_another_number_of_parts_takes_no_other_with_it(
    publisher: Elsewhere, reader: Agent, count: int
) -> None:
    def before(frames: Frames) -> list[Frames]:
        return [(frames * 3)[:count], frames]

    numbers, gaps, refused = published(publisher, reader, instead(5, before))
    assert (numbers, gaps) == (list(range(1, 9)), [])
    assert refused >= 1


def test_a_content_that_cannot_be_read_here_is_a_gap(publisher: Elsewhere, reader: Agent) -> None:
    got = Inbox()
    with reader.subscribe(publisher.rep_endpoint, "t", got) as subscription:
        for content in (1, 2, 3, Unreadable(), 5, "end"):
            publisher.publish("t", content)
        assert got.until("end") == [1, 2, 3, 5]
        assert subscription.gaps == [Gap(publisher.epoch, 4, 4)]
        assert balance(subscription) == 6


def test_subscriptions_that_began_at_different_times_get_what_is_theirs(
    publisher: Elsewhere, reader: Agent
) -> None:
    boxes = [Inbox() for _ in range(3)]
    subscriptions = []
    for number, box in enumerate(boxes):
        topic = "*" if number == 1 else "t"
        subscriptions.append(reader.subscribe(publisher.rep_endpoint, topic, box))
        for turn in range(5):
            publisher.publish("t", 10 * number + turn)
    publisher.publish("t", "end")
    everything = [10 * number + turn for number in range(3) for turn in range(5)]
    assert [box.until("end") for box in boxes] == [everything, everything[5:], everything[10:]]
    assert [subscription.dropped for subscription in subscriptions] == [0, 0, 0]


def test_topics_that_alternate_come_in_order(publisher: Elsewhere, reader: Agent) -> None:
    got = Inbox()
    reader.subscribe(publisher.rep_endpoint, "*", got)
    for number in range(100):
        publisher.publish("tuv"[number % 3], number)
    publisher.publish("t", "end")
    assert got.until("end") == list(range(100))


def test_a_subscription_that_was_closed_gets_nothing_more(publisher: Elsewhere, reader: Agent) -> None:
    first, second = Inbox(), Inbox()
    gone = reader.subscribe(publisher.rep_endpoint, "t", first)
    reader.subscribe(publisher.rep_endpoint, "t", second)
    publisher.publish("t", 1)
    assert (first.contents(1), second.contents(1)) == ([1], [1])
    gone.close()
    publisher.publish("t", 2)
    assert second.contents(1) == [2]
    assert first.queue.empty()


def test_a_callback_that_is_slow_for_once_holds_up_nobody_else(publisher: Elsewhere, reader: Agent) -> None:
    held, entered = threading.Event(), threading.Event()

    def callback(notification: Any) -> None:
        if notification.content == "slow":
            entered.set()
            held.wait(TIMEOUT)
        else:
            got.put(notification.content)

    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    reader.subscribe(publisher.rep_endpoint, "t", callback)
    other = reader.subscribe(publisher.rep_endpoint, "u", policy=drop())
    for number in range(10):
        publisher.publish("t", number)
        assert got.get(timeout=TIMEOUT) == number
    publisher.publish("t", "slow")
    assert entered.wait(TIMEOUT)
    for number in range(10):
        publisher.publish("u", number)
        assert other.recv(TIMEOUT).content == number
    held.set()
    publisher.publish("t", "after")
    assert got.get(timeout=TIMEOUT) == "after"


def test_a_callback_may_close_its_subscription_and_subscribe(publisher: Elsewhere, reader: Agent) -> None:
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def callback(notification: Any) -> None:
        if notification.content == 9:
            subscription.close()
            reader.subscribe(publisher.rep_endpoint, "u", lambda n: done.put(n.content))
            done.put("subscribed")
        elif notification.content < 9:
            done.put(notification.content)

    subscription = reader.subscribe(publisher.rep_endpoint, "t", callback)
    for number in range(9):
        publisher.publish("t", number)
        assert done.get(timeout=TIMEOUT) == number
    publisher.publish("t", 9)
    assert done.get(timeout=TIMEOUT) == "subscribed"
    publisher.publish("u", "new")
    assert done.get(timeout=TIMEOUT) == "new"
