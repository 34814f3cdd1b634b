"""Tables of the process: shared by users, and empty in a forked child."""

from __future__ import annotations

import os

import pytest

from pzc.transport.tables import Leases


class _Counted(Leases[str]):
    """Writes down what it let go of."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        super().__init__()

    def forget(self) -> None:
        self.forgotten += self.things.values()


def test_a_thing_is_made_for_its_first_user_and_ends_with_its_last() -> None:
    table: Leases[str] = Leases()
    made: list[str] = []

    def make() -> str:
        made.append("thing")
        return "thing"

    assert table.lease(1, make) is table.lease(1, make)
    assert made == ["thing"]
    assert not table.release("thing")
    assert table.release("thing")
    assert not table.things


def test_what_was_given_back_once_too_often_changes_nothing() -> None:
    table: Leases[str] = Leases()
    table.lease("key", lambda: "thing")
    assert table.release("thing")
    assert not table.release("thing")


def test_a_thing_that_cannot_be_made_has_no_users() -> None:
    table: Leases[str] = Leases()
    for _ in range(2):
        with pytest.raises(ValueError, match="nothing"):
            table.lease(1, lambda: str(int("nothing")))
    assert not table.things


def test_a_forked_child_begins_with_an_empty_table_and_a_free_lock() -> None:
    table = _Counted()
    table.lease("key", lambda: "thing")
    with table.lock:
        child = os.fork()
        if child == 0:
            free = table.lock.acquire(blocking=False)
            os._exit(0 if free and not table.things and table.forgotten == ["thing"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert table.things == {"key": "thing"}
