from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pzc import ReceiveTimeout, Subscription
from pzc.agents.notifications.links import inlets, leading

from tests.contract.rigs.leading import Waiting, lead, reading
from tests.contract.rigs.peers import TIMEOUT


def test_a_lead_that_takes_long_goes_on() -> None:
    with reading() as (publisher, _, subscription):
        lead(publisher, subscription)
        with pytest.raises(ReceiveTimeout):
            subscription.recv(2.5 * leading._LONG)  # pyright: ignore[reportPrivateUsage]
        assert lead(publisher, subscription) >= 1


def test_a_connection_that_breaks_under_whoever_leads_is_replaced() -> None:
    with reading() as (publisher, _, subscription):
        waiting = Waiting(publisher, subscription)
        assert waiting.leads.wait(TIMEOUT)
        break_connection(subscription)
        publisher.publish("t", "again")
        assert waiting.finish() == "again"
        assert subscription.gaps == []


class Lent:
    """What leads, with a thread of the link that stands by until it is needed again."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.offered = threading.Event()
        self.calls = 0
        self.leading = leading.Leading(threading.Event(), self.told.set, self.offered.set)
        self.leading.lead(self.receive)  # it asks
        self.offered.clear()
        self.thread = threading.Thread(target=self.leading.stand_by, daemon=True)

    def lend(self) -> None:
        self.thread.start()
        assert self.offered.wait(TIMEOUT)

    def receive(self) -> bool:
        self.calls += 1
        return False

    def finish(self) -> None:
        self.thread.join(TIMEOUT)
        assert not self.thread.is_alive()


def test_nobody_leads_but_while_the_thread_of_the_link_stands_by() -> None:
    lent = Lent()
    assert lent.calls == 0
    lent.lend()
    lent.leading.lead(lent.receive)
    assert lent.calls == 1
    lent.finish()
    lent.leading.lead(lent.receive)
    assert lent.calls == 1


def test_what_is_told_later_is_told_at_the_latest_when_the_thread_of_the_link_goes_on() -> None:
    lent = Lent()
    lent.lend()
    assert lent.leading.puts_off()
    lent.finish()
    assert lent.told.is_set()
    assert not lent.leading.puts_off()


def test_the_thread_of_the_link_goes_on_at_once_when_it_is_needed() -> None:
    lent = Lent()
    lent.lend()

    def receive() -> bool:
        lent.calls += 1
        lent.leading.give_back()
        return lent.calls < 5

    lent.leading.lead(receive)
    lent.finish()
    assert lent.calls == 1


def test_whoever_begins_to_lead_at_the_last_moment_is_the_only_one_who_receives(
    monkeypatch: pytest.MonkeyPatch,
    timings: Callable[..., None],
) -> None:
    """The thread of the link has seen by then that nobody leads, and would receive besides."""
    timings(lead_look=0.001)
    begun, ended = threading.Event(), threading.Event()

    def receive() -> bool:
        begun.set()
        ended.wait(TIMEOUT)
        return False

    class Late(leading.Leading):
        _begins = False

        @property
        def _leads(self) -> bool:
            if threading.current_thread() is lent.thread and not begun.is_set():
                leader.start()
                assert begun.wait(TIMEOUT)
                return False  # as it was a moment ago
            return self._begins

        @_leads.setter
        def _leads(self, begins: bool) -> None:
            self._begins = begins

    monkeypatch.setattr(leading, "Leading", Late)
    timings(lead_absence=0.0)
    lent = Lent()
    leader = threading.Thread(target=lambda: lent.leading.lead(receive), daemon=True)
    lent.thread.start()
    assert begun.wait(TIMEOUT)
    lent.thread.join(0.1)
    receives_too = not lent.thread.is_alive()
    ended.set()
    leader.join(TIMEOUT)
    lent.finish()
    assert not receives_too


def break_connection(subscription: Subscription) -> None:
    inlet = inlets._table.of[subscription]  # pyright: ignore[reportPrivateUsage]
    way: Any = inlet._way  # pyright: ignore[reportPrivateUsage]
    way.close()
