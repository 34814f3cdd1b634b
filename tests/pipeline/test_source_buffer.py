"""Buffer: what came out of the mailboxes and is not acknowledged yet."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pzc.pipeline.source.buffer import Buffer, Missing, Taken
from pzc.pipeline.source.offsets import Line, Offset, Span
from pzc.protocol.errors import RowsMissing

from tests.effort import many

A, B, LATER = Line("p", 1, "a"), Line("p", 1, "b"), Line("p2", 2, "a")
START = Offset("q")


def filled(*numbers: tuple[Line, int], size: int = 10) -> Buffer[str]:
    buffer: Buffer[str] = Buffer()
    for line, number in numbers:
        assert buffer.put(line, number, size, f"{line.topic}{number}") is Taken.HELD
    return buffer


def at(**numbers: int) -> Offset:
    return Offset("q", {Line("p", 1, topic): number for topic, number in numbers.items()})


def rows(buffer: Buffer[str], start: Offset, end: Offset) -> list[str]:
    return [row for span in start.until(end) for row in buffer.read(span, 1000, 1 << 30)[0]]


def test_a_batch_goes_as_far_as_what_came() -> None:
    buffer = filled((A, 1), (B, 1), (A, 2))
    assert buffer.latest(START) == at(a=2, b=1)


def test_an_offset_without_news_is_the_one_that_was_given() -> None:
    buffer = filled((A, 1))
    start = at(a=1)
    assert buffer.latest(start) is start


def test_a_limit_lets_those_through_that_came_first() -> None:
    buffer = filled((A, 1), (A, 2), (B, 1), (A, 3), (B, 2))
    assert buffer.latest(START, 3) == at(a=2, b=1)
    assert buffer.latest(at(a=2, b=1), 3) == at(a=3, b=2)


def test_what_arrived_later_than_a_count_is_left_for_another_time() -> None:
    buffer = filled((A, 1), (B, 1), (A, 2))
    assert buffer.latest(START, None, 2) == at(a=1, b=1)
    start = at(a=1, b=1)
    assert buffer.latest(start, 5, 2) is start


def test_rows_are_read_as_often_as_wanted_in_one_order() -> None:
    buffer = filled((B, 1), (A, 1), (A, 2))
    end = buffer.latest(START)
    assert rows(buffer, START, end) == rows(buffer, START, end) == ["a1", "a2", "b1"]


def test_what_is_released_comes_back_once_to_be_acknowledged() -> None:
    buffer = filled((A, 1), (A, 2), (B, 1))
    assert buffer.release(at(a=1, b=1)) == ["a1", "b1"]
    assert buffer.release(at(a=1, b=1)) == []
    assert (len(buffer), buffer.bytes) == (1, 10)


def test_what_is_released_cannot_be_read_any_more() -> None:
    buffer = filled((A, 1), (A, 2))
    buffer.release(at(a=1))
    with pytest.raises(RowsMissing, match="committed"):
        buffer.read(Span(A, 0, 2), 10, 100)


def test_what_has_not_come_cannot_be_read() -> None:
    with pytest.raises(RowsMissing, match="not come"):
        filled((A, 1)).read(Span(A, 0, 2), 10, 100)


def test_what_spark_has_committed_before_a_restart_is_done_with_when_it_comes_again() -> None:
    buffer = filled((A, 1), (A, 2))
    assert buffer.release(at(a=3)) == ["a1", "a2"]
    assert buffer.put(A, 3, 10, "a3") is Taken.DONE
    assert buffer.put(A, 4, 10, "a4") is Taken.HELD
    assert buffer.lost == 0


def test_a_second_subscriptions_copy_is_released_with_the_first() -> None:
    buffer = filled((A, 1), (A, 2))
    assert buffer.put(A, 1, 10, "copy") is Taken.REPEATED
    assert rows(buffer, START, buffer.latest(START)) == ["a1", "a2"]
    assert buffer.release(at(a=1)) == ["a1", "copy"]


@pytest.mark.parametrize("committed_first", [False, True])
def test_numbers_that_never_came_after_a_restart_are_counted(committed_first: bool) -> None:
    buffer: Buffer[str] = Buffer()
    steps = [lambda: buffer.release(at(a=4)), lambda: buffer.put(A, 8, 10, "a8")]
    for step in steps if committed_first else reversed(steps):
        step()
    assert (buffer.lost, list(buffer.gaps)) == (3, [Missing(A, 5, 7)])


def test_a_hole_in_the_middle_is_counted() -> None:
    assert list(filled((A, 3), (A, 6)).gaps) == [Missing(A, 4, 5)]


def test_what_is_given_up_is_counted_and_the_rest_can_be_read() -> None:
    buffer = filled((A, 1), (A, 2))
    span = Span(A, 0, 5)
    assert buffer.lacking([span]) == [span]
    buffer.give_up(span)
    assert buffer.lacking([span]) == []
    assert (buffer.lost, list(buffer.gaps)) == (3, [Missing(A, 3, 5)])
    assert rows(buffer, START, at(a=5)) == ["a1", "a2"]


def test_a_line_of_a_restarted_publisher_leaves_the_offsets_when_all_of_it_was_read() -> None:
    buffer = filled((A, 1), (A, 2))
    buffer.end("p", 1)
    buffer.put(LATER, 1, 10, "later")
    first = buffer.latest(START, 2)
    assert first == at(a=2)
    assert buffer.latest(first) == Offset("q", {LATER: 1})


def test_a_page_ends_before_it_is_too_large_and_has_one_row_at_least() -> None:
    buffer = filled((A, 1), (A, 2), (A, 3), size=60)
    assert buffer.read(Span(A, 0, 3), 10, 130) == (["a1", "a2"], 120, 2)
    assert buffer.read(Span(A, 2, 3), 10, 1) == (["a3"], 60, 3)
    assert buffer.read(Span(A, 0, 3), 2, 1000) == (["a1", "a2"], 120, 2)


def test_a_span_is_cut_by_rows_also_where_numbers_are_missing() -> None:
    buffer = filled((A, 1), (A, 5), (A, 6))
    assert buffer.cut(Span(A, 0, 6), 2) == (Span(A, 0, 5), Span(A, 5, 6))
    assert buffer.cut(Span(A, 0, 6), 3) == (Span(A, 0, 6), None)


class Query(RuleBasedStateMachine):
    """A query over one publisher's mailbox, killed and restarted at any moment, gets each row once."""

    def __init__(self) -> None:
        super().__init__()
        self.mailbox: list[tuple[Line, int]] = []
        self.published = {A: 0, B: 0}
        self.buffer: Buffer[tuple[Line, int]] = Buffer()
        self.fetched = 0
        self.committed = START
        self.planned: Offset | None = None
        self.written: list[tuple[Line, int]] = []

    @rule(line=st.sampled_from([A, B]), count=st.integers(1, 5))
    def publish(self, line: Line, count: int) -> None:
        for _ in range(count):
            self.published[line] += 1
            self.mailbox.append((line, self.published[line]))

    @rule(count=st.integers(1, 8))
    def fetch(self, count: int) -> None:
        for row in self.mailbox[self.fetched : self.fetched + count]:
            self.fetched += 1
            if self.buffer.put(*row, 1, row) is Taken.DONE:
                self.acknowledge([row])

    def acknowledge(self, gone: list[tuple[Line, int]]) -> None:
        for row in gone:
            self.mailbox.remove(row)
            self.fetched -= 1

    @precondition(lambda self: self.planned is None)
    @rule(limit=st.one_of(st.none(), st.integers(1, 6)))
    def plan(self, limit: int | None) -> None:
        end = self.buffer.latest(self.committed, limit)
        if end is not self.committed:
            count = sum(self.buffer.size(span) for span in self.committed.until(end))
            assert 1 <= count <= (limit or count)
            self.planned = end

    @precondition(lambda self: self.planned is not None)
    @rule(size=st.integers(1, 3))
    def write(self, size: int) -> None:
        assert self.planned is not None
        spans = self.committed.until(self.planned)
        while self.buffer.lacking(spans):
            self.fetch(1)
        for span in spans:
            while span.after < span.upto:
                some, _, upto = self.buffer.read(span, size, 1 << 30)
                self.written += some
                span = span._replace(after=upto)
        self.committed, self.planned = self.planned, None

    @rule()
    def release(self) -> None:
        self.acknowledge(self.buffer.release(self.committed))

    @rule()
    def kill(self) -> None:
        self.buffer, self.fetched = Buffer(), 0
        self.acknowledge(self.buffer.release(self.committed))

    @invariant()
    def each_row_is_written_once_and_none_is_lost(self) -> None:
        assert len(set(self.written)) == len(self.written)
        assert {line: self.committed.of(line) for line in (A, B)} == {
            line: sum(row[0] == line for row in self.written) for line in (A, B)
        }
        assert self.buffer.lost == 0
        assert self.buffer.bytes == len(self.buffer)


TestQuery = Query.TestCase
TestQuery.settings = settings(max_examples=many(60), stateful_step_count=40, deadline=None)
