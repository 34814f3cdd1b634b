"""Who of those that wait for a helper gets one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from pzc.transport import helpers
from pzc.transport.helpers import HELPERS, Helpers

TIMEOUT = 20.0


@pytest.fixture
def here() -> Iterator[Helpers]:
    held = helpers.acquire()
    yield held
    helpers.release(held)


class Blocked:
    """Tasks that wait until they are let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()
        self.ran = threading.Semaphore(0)

    def __call__(self) -> None:
        self.entered.release()
        self.leave.wait(TIMEOUT)
        self.ran.release()


def test_all_users_of_a_process_have_the_same(here: Helpers) -> None:
    other = helpers.acquire()
    assert other is here
    helpers.release(other)


def test_what_failed_before_leaves_a_helper_for_what_did_not(here: Helpers) -> None:
    blocked, fresh = Blocked(), threading.Event()
    for _ in range(2 * HELPERS):
        here.submit(blocked, again=True)
    for _ in range(HELPERS - 1):
        assert blocked.entered.acquire(timeout=TIMEOUT)
    here.submit(fresh.set)
    assert fresh.wait(TIMEOUT)
    assert not blocked.entered.acquire(blocking=False)
    blocked.leave.set()
    for _ in range(2 * HELPERS):
        assert blocked.ran.acquire(timeout=TIMEOUT)


def test_what_is_new_leaves_a_helper_for_what_failed_before_and_one_for_what_did_not(here: Helpers) -> None:
    blocked, again, fresh = Blocked(), threading.Event(), threading.Event()
    failing = Blocked()
    for _ in range(2 * HELPERS):
        here.submit(blocked, new=True)
    for _ in range(HELPERS - 2):
        assert blocked.entered.acquire(timeout=TIMEOUT)
    for _ in range(HELPERS):
        here.submit(failing, again=True)
    assert failing.entered.acquire(timeout=TIMEOUT)
    here.submit(fresh.set)
    assert fresh.wait(TIMEOUT)
    failing.leave.set()
    here.submit(again.set, again=True)
    assert again.wait(TIMEOUT)
    assert not blocked.entered.acquire(blocking=False)
    blocked.leave.set()
    for _ in range(2 * HELPERS):
        assert blocked.ran.acquire(timeout=TIMEOUT)


def test_what_is_fresh_takes_every_helper_and_goes_first(here: Helpers) -> None:
    blocked, order = Blocked(), SimpleQueue[str]()
    for _ in range(HELPERS):
        here.submit(blocked)
    for _ in range(HELPERS):
        assert blocked.entered.acquire(timeout=TIMEOUT)
    here.submit(lambda: order.put("again"), again=True)
    alone = threading.Event()

    def first() -> None:
        order.put("fresh")
        alone.wait(TIMEOUT)

    for _ in range(HELPERS):
        here.submit(first)
    blocked.leave.set()
    assert [order.get(timeout=TIMEOUT) for _ in range(HELPERS)] == ["fresh"] * HELPERS
    alone.set()
    assert order.get(timeout=TIMEOUT) == "again"


def test_a_task_that_raises_costs_no_other(here: Helpers) -> None:
    done = threading.Event()

    def fail() -> None:
        raise ValueError("one that fails")

    for _ in range(2 * HELPERS):
        here.submit(fail, again=True)
    here.submit(done.set, again=True)
    assert done.wait(TIMEOUT)


def test_a_task_for_later_takes_no_helper_until_then(here: Helpers) -> None:
    done = threading.Event()
    for _ in range(3 * HELPERS):
        here.submit(done.wait, after=3600.0)
    here.submit(done.set, after=0.01)
    assert done.wait(TIMEOUT)
