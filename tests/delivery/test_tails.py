from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.tails import BEATS, Tails


def test_a_topic_is_told_after_growing_pauses_and_then_forgotten() -> None:
    tails = Tails()
    tails.sent("t", 7)
    told = [beat for beat in range(1, 2 * BEATS) if tails.beat()]
    assert told == [1, 2, 4, 8, 16, 32, 64]
    assert len(tails) == 0


def test_a_newer_message_begins_anew_with_its_number() -> None:
    tails = Tails()
    tails.sent("t", 1)
    assert [tails.beat() for _ in range(3)] == [{"t": 1}, {"t": 1}, {}]
    tails.sent("t", 2)
    assert [tails.beat() for _ in range(3)] == [{"t": 2}, {"t": 2}, {}]


def test_at_the_end_everything_is_told_once_more() -> None:
    tails = Tails()
    tails.sent("old", 3)
    tails.sent("both", 1)
    for _ in range(3):
        tails.beat()
    tails.sent("both", 2)
    assert tails.end() == {"old": 3, "both": 2}
    assert (len(tails), tails.end(), tails.beat()) == (0, {}, {})


class Looked(str):
    """A topic that counts how often it is looked up."""

    times = 0

    def __hash__(self) -> int:
        Looked.times += 1
        return super().__hash__()


def test_a_beat_looks_at_nothing_that_is_not_told_in_it() -> None:
    tails = Tails()
    for number in range(100):
        tails.sent(Looked(number), 1)
    for beat in range(1, 2 * BEATS):
        Looked.times = 0
        told = tails.beat()
        assert (Looked.times > 0) == bool(told), beat


@given(st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=300))
def test_a_topic_is_told_at_ages_that_are_powers_of_two(events: list[str | None]) -> None:
    """None is a beat, a letter a message of that topic; against the age of each topic in a table."""
    tails, numbers, ages = Tails(), dict.fromkeys("abc", 0), dict[str, int]()
    for event in [*events, *[None] * BEATS]:
        if event is not None:
            numbers[event] += 1
            ages[event] = 0
            tails.sent(event, numbers[event])
        else:
            ages = {topic: age + 1 for topic, age in ages.items() if age < BEATS}
            due = {topic: numbers[topic] for topic, age in ages.items() if age.bit_count() == 1}
            assert tails.beat() == due
            ages = {topic: age for topic, age in ages.items() if age < BEATS}
        assert ({topic for topic in "abc" if topic in tails}, len(tails)) == (ages.keys(), len(ages))


@given(st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=300))
def test_the_first_beat_after_a_message_tells_the_last_number_of_each_topic(events: list[str | None]) -> None:
    """None is a beat, a letter a message of that topic."""
    tails, numbers, fresh = Tails(), dict.fromkeys("abc", 0), set[str]()
    for event in events:
        if event is not None:
            numbers[event] += 1
            tails.sent(event, numbers[event])
            fresh.add(event)
            continue
        told = tails.beat()
        assert fresh <= told.keys()
        assert told == {topic: numbers[topic] for topic in told}
        fresh.clear()
    for _ in range(BEATS):
        tails.beat()
    assert len(tails) == 0
