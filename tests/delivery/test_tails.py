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
