"""Notifications: what the suites of other systems asked for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pzc import (
    Agent,
    Gap,
    Notification,
    Proxy,
    Server,
    Signal,
    drop,
    mailbox,
    watch,
)  # fmt: skip

from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import TIMEOUT, Inbox

SOON = 1.0
"""Seconds for what happens at once when it is there."""


class Dial:
    """Turns, and says so in the original's way."""

    def __init__(self) -> None:
        self.turned = Signal()


def test_a_remote_slot_gets_the_values_that_the_signal_declares() -> None:
    class Meter:
        def __init__(self) -> None:
            self.changed = Signal("value", "unit", "channel", "at")

    meter, heard, come = Meter(), list[tuple[Any, ...]](), threading.Event()

    def slot(*values: Any) -> None:
        heard.append(values)
        come.set()

    with Server(meter, discovery=False) as server, Proxy(server.rep_endpoint) as proxy:
        proxy.changed.connect(slot)
        meter.changed.emit(1.5, "V", channel=2, at=0.0)
        assert come.wait(TIMEOUT)
    assert heard == [(1.5, "V", 2, 0.0)]


def test_a_synchronous_signal_can_be_subscribed_to() -> None:
    dial = Dial()
    with Server(dial, discovery=False) as server, Proxy(server.rep_endpoint) as proxy:
        with proxy.turned.subscribe(policy=drop(10)) as turns:
            for number in range(3):
                dial.turned.emit(number)
            assert [turns.recv(TIMEOUT).content[0] for _ in range(3)] == [0, 1, 2]


def test_a_synchronous_signal_can_be_iterated() -> None:
    dial = Dial()
    with Server(dial, discovery=False) as server, Proxy(server.rep_endpoint) as proxy:
        turns = iter(proxy.turned)
        come = threading.Thread(
            target=lambda: server.wait_for_subscribers("turned", 1, SOON) and dial.turned.emit(7)
        )
        come.start()
        try:
            assert next(turns).content[0] == 7
        finally:
            come.join(TIMEOUT)


def test_an_iterated_signal_is_disconnected_when_its_iterator_is_dropped() -> None:
    dial, gone = Dial(), threading.Event()
    disconnect = dial.turned.disconnect

    def told(slot: Any = None) -> None:
        disconnect(slot)
        gone.set()

    dial.turned.disconnect = told
    with Server(dial, discovery=False) as server, Proxy(server.rep_endpoint) as proxy:
        turns = iter(proxy.turned)
        dial.turned.emit(1)
        assert next(turns).content == (1, None, None)
        assert not gone.is_set()
        del turns
        assert gone.wait(TIMEOUT)


def test_an_iterated_signal_ends_with_its_proxy() -> None:
    with Server(Dial(), discovery=False) as server:
        with Proxy(server.rep_endpoint) as proxy:
            turns = iter(proxy.turned)
        assert list(turns) == []


def test_a_remote_signal_is_emitted_with_what_it_declares() -> None:
    class Meter:
        def __init__(self) -> None:
            self.changed = Signal("value", "unit")

    meter, heard = Meter(), list[tuple[Any, ...]]()
    meter.changed.connect(lambda *values: heard.append(values))
    with Server(meter, discovery=False) as server, Proxy(server.rep_endpoint) as proxy:
        proxy.changed.emit(2.5, unit="A")
        with pytest.raises(TypeError, match="the signal carries value, unit"):
            proxy.changed.emit(2.5)
    assert heard == [(2.5, "A")]


def test_names_that_come_can_be_iterated() -> None:
    with Agent(name="psu8"), watch(kind="agent", pattern="psu8") as watching:
        assert "psu8" in str(next(iter(watching)))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_reader_is_told_which_messages_its_policy_dropped(transport: str) -> None:
    gaps = list[Gap]()
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        with reader.subscribe(publisher.rep_endpoint, "t", policy=drop(1), transport=transport) as slow:
            slow.on_gap = gaps.append
            for number in range(3):
                publisher.publish("t", number)
            wait_until(lambda: slow.dropped == 2)
            assert slow.recv(TIMEOUT).content == 0
            wait_until(lambda: sum(gap.count for gap in gaps) == 2)
            assert (gaps[0].first, gaps[-1].last) == (2, 3)


def test_a_flood_of_one_key_costs_another_key_nothing() -> None:
    with Agent(discovery=False) as publisher, Agent(discovery=False) as reader:
        entered, leave = threading.Event(), threading.Event()
        quiet = Inbox()

        def stuck(notification: Notification) -> None:
            entered.set()
            leave.wait(TIMEOUT)

        policy = mailbox(max_messages=5)
        reader.subscribe(publisher.rep_endpoint, "t", stuck, policy=policy, key="noisy")
        reader.subscribe(publisher.rep_endpoint, "t", quiet, policy=policy, key="quiet")
        publisher.publish("t", "first", key="noisy")
        assert entered.wait(TIMEOUT)
        for number in range(10):
            publisher.publish("t", number, key="noisy")
        publisher.publish("t", "kept", key="quiet")
        for number in range(10):
            publisher.publish("t", number, key="noisy")
        leave.set()
        assert quiet.queue.get(timeout=SOON).content == "kept"
