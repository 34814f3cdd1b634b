"""The publisher's end of a link, without a publisher."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from pzc import block, drop
from pzc.agents.notifications.links.link_subscriber import LinkSubscriber
from pzc.agents.notifications.links.published import Published
from pzc.agents.notifications.links.topics import Wanted
from pzc.protocol.link_messages import MAX_ITEMS, Notify
from pzc.protocol.message import Identity
from pzc.shm.ring import Ring


class Kept:
    """A transport that keeps what is sent, and lets something else happen while it is."""

    kind, limit, blocks, ready = "unix", 1 << 16, False, True

    def __init__(self) -> None:
        self.sent: list[Notify] = []
        self.meanwhile: Callable[[], object] = bool

    def send(self, notify: Notify, fd: int, contents: Sequence[Any]) -> bool:
        self.sent.append(notify)
        meanwhile, self.meanwhile = self.meanwhile, bool
        meanwhile()
        return True

    def close(self) -> None:
        """Nothing was opened."""


class Between:
    """A lock that lets something else happen when it is let go of: each once, in order."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.others: deque[Callable[[], object]] = deque()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        if self.others:
            self.others.popleft()()


@pytest.fixture
def subscriber() -> LinkSubscriber:
    return LinkSubscriber("link", Identity("", "agent"), True, threading.RLock(), Ring(1), 0.0)


def follow(subscriber: LinkSubscriber, number: int, topic: str) -> None:
    wanted = Wanted(number, topic, None, block() if number % 2 else drop(), "who", "", False)
    subscriber.follow(wanted, {topic: 0}, lambda wanted, _: None if wanted.policy.lossy else 32)


def publish(subscriber: LinkSubscriber) -> None:
    """As another thread does, which sends what it has placed unless somebody sends."""
    published = Published("t", "", 1, "msgpack", b"\1", number=1)
    subscriber.post(published, subscriber.queue.matching("t", ""))
    subscriber.flush()


def test_what_is_published_while_a_sign_of_life_goes_is_sent_behind_it(subscriber: LinkSubscriber) -> None:
    transport = Kept()
    follow(subscriber, 1, "t")
    subscriber.attach(transport, 0)

    transport.meanwhile = partial(publish, subscriber)
    subscriber.beat(math.inf)
    assert [len(notify.runs) for notify in transport.sent] == [0, 1]


def test_what_is_published_behind_a_look_that_found_nothing_is_sent() -> None:
    lock: Any = Between()
    subscriber, transport = LinkSubscriber("link", Identity("", "agent"), True, lock, Ring(1), 0.0), Kept()
    follow(subscriber, 1, "t")
    subscriber.attach(transport, 0)

    lock.others.append(partial(publish, subscriber))
    subscriber.flush()
    assert [len(notify.runs) for notify in transport.sent] == [1]


def test_what_a_transport_would_take_again_behind_a_look_that_found_it_full_is_sent() -> None:
    lock: Any = Between()
    subscriber, transport = LinkSubscriber("link", Identity("", "agent"), True, lock, Ring(1), 0.0), Kept()
    follow(subscriber, 1, "t")
    subscriber.attach(transport, 0)
    transport.ready = False
    publish(subscriber)

    def empty() -> None:
        transport.ready = True
        subscriber.flush()  # as the I/O thread, which finds that somebody sends

    lock.others.append(empty)
    subscriber.flush()
    assert [len(notify.runs) for notify in transport.sent] == [1]


def test_of_a_topic_that_nobody_wants_any_more_nothing_is_left(subscriber: LinkSubscriber) -> None:
    for number in range(100):
        follow(subscriber, number, f"t{number}")
        assert subscriber.readers(f"t{number}") == {"who"}
        subscriber.cease(number)
    assert (subscriber.size, subscriber._readers) == (0, {})


def test_more_ends_than_a_message_holds_are_told_by_several(subscriber: LinkSubscriber) -> None:
    transport, most = Kept(), MAX_ITEMS + 1
    for number in range(most):
        follow(subscriber, number, "t")
    subscriber.attach(transport, 0)
    subscriber.withdraw("t", "it is not offered any more")
    for _ in range(3):
        subscriber.beat(math.inf)
    told = [[each.interest for each in notify.ended] for notify in transport.sent]
    assert list(map(len, told)) == [MAX_ITEMS, 1, 0]
    assert sorted(told[0] + told[1]) == list(range(most))


def test_a_narrow_reader_that_has_left_hurries_nobody_any_more(subscriber: LinkSubscriber) -> None:
    subscriber.attach(Kept(), 0)
    follow(subscriber, 0, "t")
    narrow = Wanted(1, "u", None, block(slots=1), "who", "", False)
    subscriber.follow(narrow, {"u": 0}, lambda wanted, _: wanted.policy.bound)
    subscriber.cease(1)
    published = Published("t", "", 1, "msgpack", b"\1", number=1)
    subscriber.post(published, subscriber.queue.matching("t", ""))
    assert not subscriber.is_due(0.0, math.inf)


def test_windows_that_are_narrowed_later_hurry_what_waits(subscriber: LinkSubscriber) -> None:
    subscriber.attach(Kept(), 0)
    follow(subscriber, 1, "t")
    for window, due in (2, True), (32, False):
        subscriber.resize("t", window)
        published = Published("t", "", 1, "msgpack", b"\1", number=1)
        subscriber.post(published, subscriber.queue.matching("t", ""))
        assert subscriber.is_due(0.0, math.inf) is due
        subscriber.cease(1)
        follow(subscriber, 1, "t")
