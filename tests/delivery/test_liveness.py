from __future__ import annotations

from hypothesis import strategies as st

from pzc.delivery.liveness import Liveness
from pzc.testing import FakeClock

QUARTERS = st.integers(0, 20).map(lambda n: n / 4)


def test_silence_is_stalled_at_3_s_and_lost_at_4_s() -> None:
    link = Liveness(10.0)
    moments = [10.0, 12.99, 13.0, 13.99, 14.0, 100.0]
    assert [link.state(now) for now in moments] == ["alive", "alive", "stalled", "stalled", "lost", "lost"]


def test_a_stalled_end_that_is_heard_is_alive() -> None:
    link = Liveness(0.0)
    assert link.state(3.5) == "stalled"
    link.heard(3.5)
    assert [link.state(3.5), link.state(6.25), link.state(6.5)] == ["alive", "alive", "stalled"]


def test_what_a_lost_end_says_is_too_late() -> None:
    link = Liveness(0.0)
    assert [link.look(now) for now in (1.0, 2.0, 3.0)] == ["alive", "alive", "stalled"]
    link.heard(4.0)
    assert link.state(4.0) == "lost"


def test_a_sign_of_life_read_late_does_not_shorten_the_silence_before() -> None:
    link = Liveness(0.0)
    link.heard(3.0)
    link.heard(1.0)
    assert (link.state(5.5), link.silence(5.5)) == ("alive", 2.5)


def test_a_beat_is_due_each_second() -> None:
    clock = FakeClock()
    link, beats = Liveness(clock.now), list[float]()
    begin = clock.now
    for _ in range(41):
        if link.beat_due(clock.now):
            beats.append(clock.now - begin)
            link.spoke(clock.now)
        clock.advance(0.25)
    assert beats == [float(second) for second in range(1, 11)]


def test_whoever_spoke_just_now_owes_no_beat() -> None:
    link = Liveness(0.0)
    link.spoke(0.75)
    assert [link.beat_due(1.0), link.beat_due(1.5), link.beat_due(1.75)] == [False, False, True]
