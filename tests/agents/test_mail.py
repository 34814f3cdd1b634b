"""Mailboxes over sockets: complete, in order, once; and every loss is told."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from pzc import (
    SubscriptionClosed,
    mailbox,
)
from pzc.agents.notifications.mail.words import read_caller, read_commands

from tests.agents.inside import forget_silent_readers
from tests.contract.rigs.calling import in_thread
from tests.contract.rigs.mailing import (
    publisher_and_reader,
)
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT


def test_what_a_removed_mailbox_missed_is_told() -> None:
    with publisher_and_reader() as (publisher, agent):
        subscription = agent.subscribe(publisher.rep_endpoint, "t", policy=mailbox())
        publisher.publish("t", 0)
        subscription.recv(TIMEOUT)
        with publisher._publishing.outlets.lock:
            forget_silent_readers(publisher)
            publisher.publish("t", 1)
        wait_until(lambda: bool(subscription.gaps))
        publisher.publish("t", 2)
        assert subscription.recv(TIMEOUT).content == 2
        assert [(gap.first, gap.last) for gap in subscription.gaps] == [(2, 2)]


def test_a_subscription_that_is_closed_before_it_is_confirmed_ends_at_once_and_leaves_no_mailbox() -> None:
    asked = threading.Event()
    with publisher_and_reader() as (publisher, agent):
        answer = publisher._control.words["mailbox"]

        def keep_waiting(request: Any, content: dict[str, Any]) -> None:
            if "batch" not in content:
                answer(request, content)
                return
            with publisher._publishing.outlets.lock:  # done, and never answered
                publisher._publishing.mailboxes._boxes.command(
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
