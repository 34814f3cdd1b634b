from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.receipts import MAX_OTHERS, Receipts, Report
from pzc.protocol.errors import RemoteProtocolError

from tests.effort import many


class Reading(RuleBasedStateMachine):
    """Receipts beside plain sets of what is held and what is done, and of what a publisher was told."""

    @initialize()
    def start(self) -> None:
        self.receipts: Receipts[str] = Receipts()
        self.received = 0
        self.held, self.done = set[int](), set[int]()
        self.told = self.last_upto = 0
        self.others = set[int]()
        self.again = False

    @rule(back=st.integers(0, 3), count=st.integers(0, 4))
    def arrive(self, back: int, count: int) -> None:
        first = max(1, self.received + 1 - back)
        repeated = self.receipts.arrived(first, count, f"since {self.received}")
        assert repeated == min(count, self.received + 1 - first)
        self.held |= set(range(self.received + 1, first + count))
        self.received = max(self.received, first + count - 1)

    @rule(beyond=st.integers(1, 3))
    def a_hole_is_refused(self, beyond: int) -> None:
        with pytest.raises(RemoteProtocolError, match=f"expected {self.received + 1}"):
            self.receipts.arrived(self.received + 1 + beyond, 1, "")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.held)))
        assert sum(self.receipts.done([position, position]).values()) == 1
        assert not self.receipts.done([position])
        self.held.remove(position)
        self.done.add(position)

    @rule(beyond=st.integers(1, 3))
    def what_never_came_is_not_done(self, beyond: int) -> None:
        assert not self.receipts.done([self.received + beyond])

    @rule(always=st.booleans())
    def report(self, always: bool) -> None:
        report = self.receipts.report(always=always)
        upto = min(self.held, default=self.received + 1) - 1
        beyond = {position for position in self.done if position > upto}
        if report is None:
            assert not always
            assert (self.told, self.last_upto) == (self.received, upto)
            assert not self.again
        else:
            assert report[:2] == (self.received, upto)
            assert set(report.others) <= beyond
            assert self.again or not set(report.others) & self.others
            self.others |= set(report.others)
        self.told, self.last_upto, self.again = self.received, upto, False

    @rule()
    def repeat(self) -> None:
        self.receipts.repeat()
        self.others.clear()
        self.again = True

    @invariant()
    def what_is_up_to_is_all_below_the_oldest_one_held(self) -> None:
        if hasattr(self, "receipts"):
            assert self.receipts.received == self.received
            assert len(self.receipts) == len(self.held)
            assert self.receipts.upto() == min(self.held, default=self.received + 1) - 1


TestReading = Reading.TestCase
TestReading.settings = settings(max_examples=many(150), stateful_step_count=40)


def came(count: int) -> Receipts[str]:
    receipts: Receipts[str] = Receipts()
    assert receipts.arrived(1, count, "t") == 0
    return receipts


def test_what_is_done_with_tells_what_it_came_for() -> None:
    receipts = came(2)
    receipts.arrived(2, 2, "u")  # the second one came before
    assert receipts.done([1, 2, 3, 3, 4]) == {"t": 2, "u": 1}


def reports(receipts: Receipts[str]) -> list[Report]:
    """Until nothing is new."""
    found = list[Report]()
    while (report := receipts.report()) is not None:
        found.append(report)
    return found


def test_a_report_tells_what_arrived_and_what_is_done() -> None:
    receipts = came(5)
    receipts.done([1, 2, 4])
    assert reports(receipts) == [(5, 2, [4])]


def test_a_report_with_nothing_new_is_made_when_it_must_be() -> None:
    receipts = came(1)
    assert receipts.report() == (1, 0, [])
    assert receipts.report() is None
    assert receipts.report(always=True) == (1, 0, [])


def test_what_is_held_for_ever_does_not_delay_the_others_and_each_is_told_once() -> None:
    receipts = came(3)
    receipts.done([2])
    assert receipts.report() == (3, 0, [2])
    receipts.done([3])
    assert receipts.report() == (3, 0, [3])


def test_a_report_is_bounded_and_the_rest_is_told_by_the_next() -> None:
    receipts = came(2 * MAX_OTHERS + 2)
    receipts.done(range(2, 2 * MAX_OTHERS + 3))
    assert [len(report.others) for report in reports(receipts)] == [MAX_OTHERS, MAX_OTHERS, 1]


def test_everything_is_told_again_after_a_lost_connection() -> None:
    receipts = came(MAX_OTHERS + 5)
    receipts.done([1, 2, *range(4, MAX_OTHERS + 5)])
    first = reports(receipts)
    receipts.repeat()
    again = reports(receipts)
    others = [set[int]().union(*(report.others for report in told)) for told in (first, again)]
    assert others == [set(range(4, MAX_OTHERS + 5))] * 2
    assert again[0][:2] == (MAX_OTHERS + 5, 2)


def test_what_a_lost_connection_carried_is_told_again_even_without_news() -> None:
    receipts = came(2)
    receipts.done([1, 2])
    assert reports(receipts) == [(2, 2, [])]
    receipts.repeat()
    assert reports(receipts) == [(2, 2, [])]


def test_what_is_told_by_upto_is_not_told_again_one_by_one() -> None:
    receipts = came(3)
    receipts.done([2, 3])
    receipts.report()
    receipts.repeat()
    receipts.done([1])
    assert receipts.report() == (3, 3, [])
