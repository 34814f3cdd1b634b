from __future__ import annotations

from functools import partial

from pzc.transport.counters import Counters

from tests.contract.rigs.peers import run_threads


def test_a_count_that_was_never_added_to_is_zero() -> None:
    counters = Counters()
    assert counters["unseen"] == 0
    assert counters.as_dict() == {}


def test_counts_add_up_and_are_listed_by_name() -> None:
    counters = Counters()
    counters.add("b")
    counters.add("a", 3)
    counters.add("b", 2)
    assert list(counters.as_dict().items()) == [("a", 3), ("b", 3)]


def test_the_listing_is_a_copy() -> None:
    counters = Counters()
    counters.as_dict()["x"] = 5
    assert counters["x"] == 0


def test_no_count_is_lost_between_threads() -> None:
    counters = Counters()

    def count(name: str) -> None:
        for _ in range(5_000):
            counters.add("all")
            counters.add(name)
            counters.as_dict()

    run_threads(*(partial(count, f"thread {number}") for number in range(8)))
    assert counters["all"] == 40_000
    assert [counters[f"thread {number}"] for number in range(8)] == [5_000] * 8
