"""Mailboxes over sockets: complete, in order, once; and every loss is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from pzc import (
    Agent,
    CallTimeout,
    Protocol,
    SubscriptionClosed,
    mailbox,
)
from pzc.agents.mail.words import read_caller, read_commands
from pzc.testing import Timings

from tests.agents.inside import forget_silent_readers
from tests.contract.rigs.calling import in_thread
from tests.contract.rigs.mailing import (
    Faulty,
    delivered,
    publisher_and_reader,
)
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY, TIMEOUT


def test_what_a_removed_mailbox_missed_is_told() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        publisher.publish("t", 0)
        subscription.recv(TIMEOUT)
        with publisher._outlets.lock:
            forget_silent_readers(publisher)
            publisher.publish("t", 1)
        wait_until(lambda: bool(subscription.gaps))
        publisher.publish("t", 2)
        assert subscription.recv(TIMEOUT).content == 2
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(2, 2)]


def test_a_publication_that_found_no_room_in_time_is_not_published(timings: Callable[..., None]) -> None:
    timings(mail_block=0.1)
    with publisher_and_reader() as (publisher, agent):
        policy = mailbox(max_messages=1, when_full="block")
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=policy)
        assert publisher.publish("t", 0) == 1
        with pytest.raises(CallTimeout, match="nothing was published"):
            publisher.publish("t", 1)
        subscription.recv(TIMEOUT)
        wait_until(lambda: delivered(publisher) == 1)
        assert publisher.publish("t", 2) == 2


def test_of_two_thousand_commands_over_a_faulty_way_the_last_on_each_key_holds() -> None:
    random = Random(7)
    with (
        Timings(mail_hold=0.2, mail_patience=0.1),
        Agent(protocol=Protocol(KEY)) as publisher,
        Faulty(publisher.rep_endpoint, 0.2, 0.2, 7) as faulty,
        Agent(protocol=Protocol(KEY)) as agent,
    ):
        anchor = agent.subscribe(faulty.endpoint, "t", policy=mailbox(), key="anchor")
        faulty.honest = False
        reading = anchor.reader
        assert reading is not None
        collector = reading._collector
        assert collector is not None
        wanted = {"anchor"}
        for count in range(2000):
            key = str(random.randrange(50))
            with reading._lock:
                (collector.unsubscribe if key in wanted else collector.subscribe)("t", key)
            wanted ^= {key}
            reading._loop.call(reading._run)
            if count % 200 == 0:
                wait_until(lambda: collector.settled)
        wait_until(lambda: collector.settled)
        boxes = publisher._posting._boxes.interests.about("t")
        assert {entity for box in boxes for entity in box.subscriptions} == {("t", key) for key in wanted}
        for number in range(50):
            publisher.publish("t", number, key="anchor")
        assert [anchor.recv(TIMEOUT).content for _ in range(50)] == list(range(50))
        assert faulty.faults > 10


def test_a_subscription_that_is_closed_before_it_is_confirmed_ends_at_once_and_leaves_no_mailbox() -> None:
    asked = threading.Event()
    with publisher_and_reader() as (publisher, agent):
        answer = publisher._control.words["mailbox"]

        def keep_waiting(request: Any, content: dict[str, Any]) -> None:
            if "batch" not in content:
                answer(request, content)
                return
            with publisher._outlets.lock:  # done, and never answered
                publisher._posting._boxes.command(
                    read_caller(request, content), read_commands(content), time.monotonic()
                )
            asked.set()

        publisher._control.words["mailbox"] = keep_waiting
        subscribe = partial(
            agent.subscribe, publisher.rep_endpoint, "t", policy=mailbox(), timeout=3 * TIMEOUT
        )
        thread, outcome = in_thread(subscribe)
        assert asked.wait(TIMEOUT)
        (subscription,) = agent._subscribing.subscriptions()
        subscription.close()
        thread.join(TIMEOUT)
        assert isinstance(outcome[0], SubscriptionClosed)
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
