from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.sequences import Gap, Sequence

from tests.effort import many


class Publisher(RuleBasedStateMachine):
    """A publisher that sometimes restarts, over a network that loses, repeats and reorders.

    Now and then it tells its last number. What is on its way then is late.
    """

    @initialize(before=st.integers(0, 3))
    def start(self, before: int) -> None:
        self.sequence = Sequence()
        self.epoch = 1
        self.published = self.first = before
        self.sent: list[int] = []
        self.received: set[int] = set()
        self.lost = 0
        self.told = before
        self.ended: list[tuple[int, int]] = []
        assert self.sequence.begin(self.epoch, before) is None

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        self.sent += range(self.published + 1, self.published + count + 1)
        self.published += count

    def newest(self) -> int:
        return max(self.received | {self.first, self.told})

    def take(self, number: int) -> None:
        highest = self.newest()
        new, gap = self.sequence.observe(self.epoch, number)
        assert new == (number > highest)
        if new:
            self.received.add(number)
        if gap is not None:
            assert gap == Gap(self.epoch, highest + 1, number - 1)
            self.lost += gap.count
        assert (gap is not None) == (number > highest + 1)

    @precondition(lambda self: self.sent)
    @rule()
    def deliver_the_next(self) -> None:
        self.take(self.sent.pop(0))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def deliver_any(self, data: st.DataObject) -> None:
        self.take(self.sent.pop(data.draw(st.integers(0, len(self.sent) - 1))))

    @precondition(lambda self: self.sent)
    @rule()
    def lose_the_next(self) -> None:
        self.sent.pop(0)

    @precondition(lambda self: self.received)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        self.take(data.draw(st.sampled_from(sorted(self.received))))

    @rule(late=st.integers(0, 3))
    def tell(self, late: int) -> None:
        last, newest = self.published - late, self.newest()
        gap = self.sequence.told(self.epoch, last)
        assert gap == (Gap(self.epoch, newest + 1, last) if last > newest else None)
        self.lost += gap.count if gap else 0
        self.told = max(self.told, last)

    @rule()
    def restart(self) -> None:
        before = self.epoch
        self.ended.append((before, self.published))
        self.epoch += 1
        self.published = self.first = self.told = 0
        self.sent, self.received, self.lost = [], set(), 0
        assert self.sequence.begin(self.epoch, 0) == Gap(self.epoch, 0, 0, restarted=True)

    @precondition(lambda self: self.ended)
    @rule(extra=st.integers(-1, 3))
    def deliver_from_before_the_restart(self, extra: int) -> None:
        epoch, last = self.ended[-1]
        assert self.sequence.observe(epoch, last + extra) == (False, None)
        assert self.sequence.told(epoch, last + extra) is None

    @invariant()
    def received_and_lost_are_all_that_was_published_up_to_the_newest(self) -> None:
        assert len(self.received) + self.lost == self.newest() - self.first


TestPublisher = Publisher.TestCase
TestPublisher.settings = settings(max_examples=many(150), stateful_step_count=40)


@given(st.integers(0, 50), st.sets(st.integers(1, 100)))
def test_received_and_lost_are_published_when_the_last_one_arrives(before: int, offsets: set[int]) -> None:
    sequence = Sequence()
    sequence.begin(1, before)
    numbers = sorted(before + offset for offset in offsets | {100})
    gaps = [gap for number in numbers if (gap := sequence.observe(1, number)[1])]
    assert len(numbers) + sum(gap.count for gap in gaps) == 100


def test_numbers_in_order_leave_no_gap() -> None:
    sequence = Sequence()
    assert sequence.begin(1, 4) is None
    assert [sequence.observe(1, number) for number in (5, 6, 7)] == [(True, None)] * 3


def test_the_first_number_of_a_publisher_that_did_not_tell_is_no_gap() -> None:
    sequence = Sequence()
    assert sequence.observe(1, 17) == (True, None)
    assert sequence.observe(1, 19) == (True, Gap(1, 18, 18))


def test_numbers_lost_before_the_first_one_are_a_gap_when_the_publisher_told_its_last() -> None:
    sequence = Sequence()
    sequence.begin(1, 4)
    assert sequence.observe(1, 8) == (True, Gap(1, 5, 7))


def test_what_the_publisher_tells_later_does_not_hide_a_loss() -> None:
    sequence = Sequence()
    sequence.observe(1, 1)
    assert sequence.begin(1, 5) is None
    assert sequence.observe(1, 3) == (True, Gap(1, 2, 2))


def test_a_restart_is_one_gap_of_unknown_size() -> None:
    sequence = Sequence()
    sequence.observe(1, 10)
    assert sequence.observe(2, 3) == (True, Gap(2, 0, 0, restarted=True))
    assert sequence.begin(2, 1) is None
    assert sequence.observe(2, 4) == (True, None)


def test_a_late_number_of_the_epoch_before_is_no_second_restart() -> None:
    sequence = Sequence()
    sequence.observe(1, 10)
    sequence.observe(2, 1)
    assert sequence.observe(1, 11) == (False, None)
    assert sequence.observe(2, 2) == (True, None)


def test_a_gap_counts_both_its_ends_and_a_restart_nothing() -> None:
    assert Gap(1, 5, 7).count == 3
    assert Gap(1, 5, 5).count == 1
    assert Gap(2, 0, 0, restarted=True).count == 0


def test_a_notification_that_arrives_after_the_answer_that_counts_it_is_new() -> None:
    sequence = Sequence()
    sequence.begin(7, 2)
    assert sequence.observe(7, 1) == (True, None)
    assert sequence.observe(7, 2) == (True, None)
    assert sequence.observe(7, 2) == (False, None)


def test_what_is_missing_behind_the_last_one_is_a_gap_once_the_publisher_tells() -> None:
    sequence = Sequence()
    sequence.begin(1, 0)
    sequence.observe(1, 1)
    assert sequence.told(1, 3) == Gap(1, 2, 3)
    assert sequence.told(1, 3) is None
    assert sequence.observe(1, 3) == (False, None)
    assert sequence.observe(1, 4) == (True, None)


def test_a_publisher_whose_beginning_is_not_known_cannot_tell_a_loss() -> None:
    assert Sequence().told(1, 3) is None


@given(st.integers(0, 9), st.sets(st.integers(1, 30)), st.integers(0, 30))
def test_received_and_lost_are_published_whatever_comes_late(
    before: int, arriving: set[int], cut: int
) -> None:
    """All that arrives, in order; the publisher tells its last number behind ``cut`` of them."""
    sequence = Sequence()
    sequence.begin(1, before)
    received = lost = 0
    numbers = sorted(before + number for number in arriving)
    for turn, number in enumerate([*numbers, None]):
        if turn == min(cut, len(numbers)):
            gap = sequence.told(1, before + 30)
            lost += gap.count if gap else 0
        if number is not None:
            new, gap = sequence.observe(1, number)
            received += new
            lost += gap.count if gap else 0
    assert received == min(cut, len(numbers))
    assert received + lost == 30


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 5)), max_size=6),
)
def test_several_that_arrive_together_are_as_each_by_itself(before: int, runs: list[tuple[int, int]]) -> None:
    together, apart = Sequence(), Sequence()
    for sequence in (together, apart):
        sequence.begin(1, before)
    for first, count in runs:
        run = range(first, first + count)
        each = [apart.observe(1, number) for number in run]
        new, gap = together.observe(1, first, run[-1])
        assert (new, gap) == each[0]
        if not new:
            assert [together.observe(1, number) for number in run] == each
        else:
            assert each[1:] == [(True, None)] * (count - 1)
        assert together.last == apart.last
