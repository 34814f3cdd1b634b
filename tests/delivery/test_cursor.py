from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.cursor import Cursor, Cursors, Gap, gaps_of

from tests.effort import many


class Broadcast(RuleBasedStateMachine):
    """A publisher that sometimes restarts, over a network that loses, repeats and reorders.

    Now and then it tells its last number. What is on its way then is late.
    """

    @initialize(before=st.integers(0, 3))
    def start(self, before: int) -> None:
        self.cursor = Cursor()
        self.epoch = 1
        self.published = self.first = before
        self.sent: list[int] = []
        self.received: set[int] = set()
        self.lost = 0
        self.told = before
        self.ended: list[tuple[int, int]] = []
        assert self.cursor.begin(self.epoch, before) is None

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        self.sent += range(self.published + 1, self.published + count + 1)
        self.published += count

    def newest(self) -> int:
        return max(self.received | {self.first, self.told})

    def take(self, number: int) -> None:
        highest = self.newest()
        new, gap = self.cursor.observe(self.epoch, number)
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
        gap = self.cursor.tail(self.epoch, last)
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
        assert self.cursor.begin(self.epoch, 0) == Gap(self.epoch, 0, 0, restarted=True)

    @precondition(lambda self: self.ended)
    @rule(extra=st.integers(-1, 3))
    def deliver_from_before_the_restart(self, extra: int) -> None:
        epoch, last = self.ended[-1]
        assert self.cursor.observe(epoch, last + extra) == (False, None)
        assert self.cursor.tail(epoch, last + extra) is None

    @invariant()
    def received_and_lost_are_all_that_was_published_up_to_the_newest(self) -> None:
        assert len(self.received) + self.lost == self.newest() - self.first


TestBroadcast = Broadcast.TestCase
TestBroadcast.settings = settings(max_examples=many(150), stateful_step_count=40)


@given(st.integers(0, 50), st.sets(st.integers(1, 100)))
def test_received_and_lost_are_published_when_the_last_one_arrives(before: int, offsets: set[int]) -> None:
    cursor = Cursor()
    cursor.begin(1, before)
    numbers = sorted(before + offset for offset in offsets | {100})
    gaps = [gap for number in numbers if (gap := cursor.observe(1, number)[1])]
    assert len(numbers) + sum(gap.count for gap in gaps) == 100


def test_numbers_in_order_leave_no_gap() -> None:
    cursor = Cursor()
    assert cursor.begin(1, 4) is None
    assert [cursor.observe(1, number) for number in (5, 6, 7)] == [(True, None)] * 3


def test_the_first_number_of_a_publisher_that_did_not_tell_is_no_gap() -> None:
    cursor = Cursor()
    assert cursor.observe(1, 17) == (True, None)
    assert cursor.observe(1, 19) == (True, Gap(1, 18, 18))


def test_numbers_lost_before_the_first_one_are_a_gap_when_the_publisher_told_its_last() -> None:
    cursor = Cursor()
    cursor.begin(1, 4)
    assert cursor.observe(1, 8) == (True, Gap(1, 5, 7))


def test_what_another_beginning_leaves_out_is_a_gap() -> None:
    cursor = Cursor()
    cursor.observe(1, 1)
    assert cursor.begin(1, 5) == Gap(1, 2, 5)
    assert cursor.observe(1, 3) == (False, None)
    assert cursor.begin(1, 4) is None
    assert cursor.observe(1, 6) == (True, None)


def test_a_restart_is_one_gap_of_unknown_size() -> None:
    cursor = Cursor()
    cursor.observe(1, 10)
    assert cursor.observe(2, 3) == (True, Gap(2, 0, 0, restarted=True))
    assert cursor.begin(2, 1) is None
    assert cursor.observe(2, 4) == (True, None)


def test_a_late_number_of_the_epoch_before_is_no_second_restart() -> None:
    cursor = Cursor()
    cursor.observe(1, 10)
    cursor.observe(2, 1)
    assert cursor.observe(1, 11) == (False, None)
    assert cursor.observe(2, 2) == (True, None)


def test_a_gap_counts_both_its_ends_and_a_restart_nothing() -> None:
    assert Gap(1, 5, 7).count == 3
    assert Gap(1, 5, 5).count == 1
    assert Gap(2, 0, 0, restarted=True).count == 0


def test_what_is_missing_behind_the_last_one_is_a_gap_once_the_publisher_tells() -> None:
    cursor = Cursor()
    cursor.begin(1, 0)
    cursor.observe(1, 1)
    assert cursor.tail(1, 3) == Gap(1, 2, 3)
    assert cursor.tail(1, 3) is None
    assert cursor.observe(1, 3) == (False, None)
    assert cursor.observe(1, 4) == (True, None)


def test_a_publisher_whose_beginning_is_not_known_cannot_tell_a_loss() -> None:
    assert Cursor().tail(1, 3) is None
    assert Cursor().lost(2, 3) is None


@given(st.integers(0, 9), st.sets(st.integers(1, 30)), st.integers(0, 30))
def test_received_and_lost_are_published_whatever_comes_late(
    before: int, arriving: set[int], cut: int
) -> None:
    """All that arrives, in order; the publisher tells its last number behind ``cut`` of them."""
    cursor = Cursor()
    cursor.begin(1, before)
    received = lost = 0
    numbers = sorted(before + number for number in arriving)
    for turn, number in enumerate([*numbers, None]):
        if turn == min(cut, len(numbers)):
            gap = cursor.tail(1, before + 30)
            lost += gap.count if gap else 0
        if number is not None:
            new, gap = cursor.observe(1, number)
            received += new
            lost += gap.count if gap else 0
    assert received == min(cut, len(numbers))
    assert received + lost == 30


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 5)), max_size=6),
)
def test_several_that_arrive_together_are_as_each_by_itself(before: int, runs: list[tuple[int, int]]) -> None:
    together, apart = Cursor(), Cursor()
    for cursor in (together, apart):
        cursor.begin(1, before)
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


class Link(RuleBasedStateMachine):
    """A publisher that drops, over a link that loses nothing, and that it sometimes closes.

    The model: numbers that were published since it began, and what became of each.
    """

    @initialize(before=st.integers(0, 3))
    def start(self, before: int) -> None:
        self.cursor = Cursor()
        assert self.cursor.begin(1, before) is None
        self.published = self.begun = before
        self.dropped = 0  # of which the next message tells
        self.got: set[int] = set()
        self.lost: set[int] = set()

    def hold(self, gap: Gap | None) -> None:
        if gap is not None:
            numbers = set(range(gap.first, gap.last + 1))
            assert not numbers & (self.got | self.lost), "told twice, or told of what came"
            self.lost |= numbers

    def deliver(self, number: int) -> None:
        if self.dropped:
            self.hold(self.cursor.lost(self.dropped, number - 1))
        self.dropped = 0
        assert self.cursor.new(number)
        self.got.add(number)

    @rule(drops=st.integers(0, 4))
    def publish(self, drops: int) -> None:
        self.published += drops + 1
        self.dropped += drops
        self.deliver(self.published)

    @rule(count=st.integers(1, 5))
    def publish_together(self, count: int) -> None:
        if self.dropped:
            self.publish(0)
        first = self.published + 1
        self.published += count
        assert self.cursor.new(first, self.published)
        self.got.update(range(first, self.published + 1))

    @rule(count=st.integers(1, 4))
    def drop(self, count: int) -> None:
        self.published += count
        self.dropped += count

    @rule()
    def tell(self) -> None:
        self.hold(self.cursor.lost(self.dropped, self.published))
        self.dropped = 0

    @precondition(lambda self: self.lost)
    @rule(count=st.integers(1, 9), data=st.data())
    def tell_again(self, count: int, data: st.DataObject) -> None:
        assert self.cursor.lost(count, data.draw(st.sampled_from(sorted(self.lost)))) is None

    @precondition(lambda self: self.got)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        assert not self.cursor.new(data.draw(st.sampled_from(sorted(self.got))))

    @rule(meanwhile=st.integers(0, 4))
    def close_and_begin_again(self, meanwhile: int) -> None:
        self.published += meanwhile
        self.dropped = 0
        self.hold(self.cursor.begin(1, self.published))

    @invariant()
    def received_and_lost_are_all_that_was_published(self) -> None:
        numbers = self.got | self.lost
        assert len(numbers) + self.dropped == self.published - self.begun
        assert numbers <= set(range(self.begun + 1, self.published + 1))


TestLink = Link.TestCase
TestLink.settings = settings(max_examples=many(150), stateful_step_count=40)


def test_losses_before_its_beginning_are_no_part_of_it() -> None:
    cursor = Cursor()
    cursor.begin(1, 6)
    assert cursor.lost(8, 8) == Gap(1, 7, 8)
    assert not cursor.new(7)


def test_what_was_lost_of_some_keys_is_fewer_than_the_numbers_in_between() -> None:
    cursor = Cursor()
    cursor.begin(1, 0)
    assert cursor.lost(2, 10) == Gap(1, 9, 10)


def test_gaps_are_joined_when_no_number_is_in_between() -> None:
    assert Gap(1, 5, 7).joined(Gap(1, 8, 8)) == Gap(1, 5, 8)
    assert Gap(1, 5, 7).joined(Gap(1, 9, 9)) is None
    assert Gap(1, 5, 7).joined(Gap(2, 8, 8)) is None
    assert Gap(2, 0, 0, restarted=True).joined(Gap(2, 1, 1)) is None


def test_each_topic_has_its_own_cursor_and_begins_where_it_was() -> None:
    cursors = Cursors(None)
    assert cursors.begin(1, {"a": 3}) == []
    assert cursors.at("a").observe(1, 4) == (True, None)
    assert cursors.at("new").observe(1, 2) == (True, Gap(1, 1, 1))


def test_another_beginning_tells_what_every_topic_lost_of_one_that_began_meanwhile_too() -> None:
    cursors = Cursors(None)
    cursors.begin(1, {"a": 3})
    assert cursors.begin(1, {"a": 5, "new": 2}) == [("a", Gap(1, 4, 5)), ("new", Gap(1, 1, 2))]
    assert cursors.begin(1, {"a": 5, "new": 2}) == []


def test_what_other_topics_lost_is_nothing_to_who_wants_one() -> None:
    cursors = Cursors("a")
    assert cursors.begin(1, {"a": 3, "b": 7}) == []
    assert cursors.begin(1, {"b": 9}) == []
    assert cursors.begin(1, {"a": 4, "b": 11}) == [("a", Gap(1, 4, 4))]


def test_a_restart_is_one_gap_over_all_topics_with_the_next_beginning() -> None:
    cursors = Cursors(None)
    cursors.begin(1, {"a": 3, "b": 4})
    cursors.restart()
    cursors.restart()
    assert cursors.begin(2, {"a": 1}) == [("", Gap(2, 0, 0, restarted=True))]
    assert cursors.at("a").observe(2, 2) == (True, None)
    assert cursors.at("b").observe(2, 1) == (True, None)


def test_a_restart_that_nobody_told_of_shows_at_the_next_beginning() -> None:
    cursors = Cursors("a")
    cursors.begin(1, {"a": 3})
    assert cursors.begin(2, {"a": 1}) == [("", Gap(2, 0, 0, restarted=True))]


def test_a_restart_before_anything_was_known_is_no_gap() -> None:
    for topic in ("a", None):
        cursors = Cursors(topic)
        cursors.restart()
        assert cursors.begin(2, {"a": 1}) == []


def test_a_restart_after_something_came_without_a_beginning_is_a_gap() -> None:
    for topic in ("a", None):
        cursors = Cursors(topic)
        cursors.at("a").observe(1, 5)
        cursors.restart()
        assert cursors.begin(2, {}) == [("", Gap(2, 0, 0, restarted=True))]


def test_numbers_are_gaps_of_which_neighbours_of_an_epoch_are_one() -> None:
    numbers = [(1, 3), (1, 4), (1, 6), (2, 7), (2, 8)]
    assert gaps_of(numbers) == [Gap(1, 3, 4), Gap(1, 6, 6), Gap(2, 7, 8)]
    assert gaps_of([]) == []
