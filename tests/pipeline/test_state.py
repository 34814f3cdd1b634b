"""The state of seen numbers against a plain set of them."""

from __future__ import annotations

import tracemalloc

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.tables.commit_log import Commit
from pzc.pipeline.tables.interval_set import IntervalSet
from pzc.pipeline.tables.known_ids import REMEMBERED, SIZE, KnownIds, digest_of, each_of
from pzc.pipeline.tables.quantile_sketch import Figures
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.summary import Cell, Part, Report

SECOND = 1_000_000


def runs_of(numbers: set[int]) -> list[int]:
    ranges = IntervalSet()
    for number in numbers:
        ranges.add(number, number)
    return ranges.flat()


def cell(sent: int = 0, count: int = 1) -> Cell:
    return Cell(count, sent, sent, count, Figures(), Figures(count, 1.0, 0.0, 1.0, 1.0, {0: count}))


def part(numbers: set[int], epoch: int = 1, received: int = 5, figures: Cell | None = None) -> Part:
    return Part("a", epoch, "v", "psu", runs_of(numbers), received, figures or cell())


def report(task: int, *parts: Part, **fields: object) -> Report:
    return Report(task, parts=list(parts), **fields)  # pyright: ignore[reportArgumentType]


def dropped(state: State, reports: list[Report]) -> list[set[int]]:
    found = state.repeated(reports)
    return [
        {
            n
            for copies in found.get(task, [])
            for low, high in IntervalSet(copies.runs)
            for n in range(low, high + 1)
        }
        for task in range(len(reports))
    ]


NUMBERS = st.sets(st.integers(0, 15), min_size=1)


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=3), max_size=4))
def test_every_number_is_kept_once_whoever_files_it_and_when(batches: list[list[set[int]]]) -> None:
    state, seen = State(), set()
    for batch in batches:
        drops = dropped(state, [report(task, part(numbers)) for task, numbers in enumerate(batch)])
        for task, (numbers, left_out) in enumerate(zip(batch, drops, strict=True)):
            assert left_out == numbers & seen
            seen |= numbers
            if numbers - left_out:
                state.absorb(report(task, part(numbers - left_out)))
    absent = {n for gap in state.gaps() for n in range(gap[4], gap[5] + 1)}
    assert absent == (set(range(min(seen), max(seen) + 1)) - seen if seen else set())
    assert state.missing() == len(absent)


@given(st.lists(NUMBERS, max_size=4), st.integers(0, 3))
def test_what_is_missing_is_known_wherever_it_was_asked_for(batches: list[set[int]], asked: int) -> None:
    state = State()
    for number, numbers in enumerate(batches):
        if number == asked:
            state.missing()
        state.absorb(report(0, part(numbers, epoch=number % 2)))
    assert state.missing() == sum(one.seen.missing for one in state.series.values())


def test_what_is_missing_is_counted_for_a_state_that_does_not_tell() -> None:
    state = State()
    state.absorb(report(0, part({1, 4})))
    stored = msgspec.msgpack.decode(state.encode())
    del stored["absent"]
    old = State.decode(msgspec.msgpack.encode(stored))
    assert old.missing() == 2


def test_a_number_of_another_epoch_is_no_copy() -> None:
    state = State()
    state.absorb(report(0, part({1, 2})))
    assert dropped(state, [report(0, part({1, 2}, epoch=2))]) == [set()]


def test_what_comes_behind_a_greater_number_is_late() -> None:
    state = State()
    state.absorb(report(0, part({1, 2, 6})))
    state.absorb(report(0, part({4, 5, 7})))
    assert state.topic("a", "v").late == 2


def test_a_topic_takes_as_much_memory_as_its_bytes() -> None:
    """Those of agents that have ended stay for ever, and may be very many."""
    bins = dict.fromkeys(range(500), 1)
    figures = Figures(500, 1.0, 0.0, 1.0, 1.0, bins)
    told = report(0, *(
        Part(f"{number}", 1, "v", "psu", [1, 500], 5, Cell(500, 1, 1, 500, figures, figures))
        for number in range(100)
    ))  # fmt: skip
    state = State()
    tracemalloc.start()
    try:
        state.absorb(told)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * len(state.encode())


def again(state: State) -> State:
    """The same out of a checkpoint."""
    return State.decode(state.encode())


def test_a_state_comes_back_from_a_checkpoint() -> None:
    state = State()
    state.absorb(report(0, part({1, 4}), offsets={"recorder": [0, 9]}))
    read = again(state)
    assert list(read.gaps()) == list(state.gaps())
    assert read.topics == state.topics
    assert dropped(read, [report(0, part({4, 5}))]) == [{4}]
    assert list(read.offsets["recorder"]) == [(0, 9)]


CELLS = st.builds(cell, st.integers(0, 200).map(lambda s: s * SECOND), st.integers(1, 3))
PARTS = st.builds(part, NUMBERS, st.integers(1, 2), st.integers(0, 300).map(lambda s: s * SECOND),
                  CELLS)  # fmt: skip
REPORTS = st.lists(PARTS, max_size=3).map(lambda parts: report(0, *parts))
COMMITS = st.lists(
    st.builds(lambda reports: Commit(0, reports=reports), st.lists(REPORTS, max_size=2)), max_size=5
)


@given(COMMITS, st.integers(0, 5))
def test_a_state_is_the_fold_of_the_commits_wherever_a_checkpoint_is_taken(
    commits: list[Commit], place: int
) -> None:
    live, folded = State(), State()
    decoder = msgspec.msgpack.Decoder(Commit)
    for number, commit in enumerate(commits):
        live.apply(commit)
        written = decoder.decode(msgspec.msgpack.encode(commit))  # as it is written, behind `apply`
        if number == place:
            folded = again(folded)
        folded.apply(written)
    assert folded.encode() == live.encode()


@given(st.lists(st.lists(st.lists(st.integers(0, 15), unique=True), min_size=1, max_size=3), max_size=4))
def test_every_message_id_is_kept_once_whoever_files_it_and_when(batches: list[list[list[int]]]) -> None:
    state, seen = State(), set[int]()
    for batch in batches:
        reports = [
            report(task, ids=b"".join(digest_of(str(n)) for n in ids)) for task, ids in enumerate(batch)
        ]
        drops = state.repeated_ids(reports)
        for task, ids in enumerate(batch):
            assert drops.get(task, []) == [digest_of(str(n)) for n in ids if n in seen]
            seen |= set(ids)
        for each in reports:
            state.absorb(each)


def test_message_ids_are_known_to_the_next_run() -> None:
    state = State()
    state.absorb(report(0, ids=digest_of("one")))
    assert again(state).repeated_ids([report(0, ids=digest_of("one") + digest_of("two"))]) == {
        0: [digest_of("one")]
    }


def test_the_oldest_message_ids_are_forgotten() -> None:
    digests = [number.to_bytes(SIZE, "big") for number in range(REMEMBERED + 2)]
    known = KnownIds(b"".join(digests[:-1]))
    known.add(digests[-1])
    assert list(each_of(known.flat())) == digests[2:]
    assert digests[1] not in known
    assert digests[2] in known
