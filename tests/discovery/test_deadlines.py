from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pzc.discovery.deadlines import Deadlines

KEYS = st.sampled_from("abc")
TIMES = st.integers(0, 20).map(float)


@given(
    st.lists(
        st.tuples(st.just("set"), KEYS, TIMES)
        | st.tuples(st.just("drop"), KEYS, st.none())
        | st.tuples(st.just("due"), st.none(), TIMES)
        | st.tuples(st.just("postpone"), st.none(), TIMES)
    )
)
def test_every_key_comes_when_its_last_time_has_come_and_never_before(
    events: list[tuple[str, str, float]],
) -> None:
    deadlines, model = Deadlines[str](), dict[str, float]()
    for event, key, time in events:
        if event == "set":
            deadlines.set(key, time)
            model[key] = time
        elif event == "postpone":
            deadlines.postpone(time)
            model = {each: at + time for each, at in model.items()}
        elif event == "drop":
            deadlines.drop(key)
            model.pop(key, None)
        else:
            due = deadlines.due(time)
            assert sorted(due) == sorted(key for key, at in model.items() if at <= time)
            model = {key: at for key, at in model.items() if at > time}
        assert len(deadlines) == len(model)
        following = deadlines.next
        assert (following is None) == (not model)
        assert following is None or following <= min(model.values())


def test_no_more_keys_are_taken_out_than_wanted() -> None:
    deadlines = Deadlines[str]()
    for n, key in enumerate("abc"):
        deadlines.set(key, float(n))
    assert deadlines.due(5.0, most=2) == ["a", "b"]
    assert deadlines.due(5.0) == ["c"]


def test_looking_at_the_next_time_ends() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    deadlines.set("a", 3.0)
    looks = 0
    while (due := deadlines.next) is not None and not deadlines.due(due):
        looks += 1
    assert looks <= 2


def test_a_time_that_moved_on_wakes_nobody_before() -> None:
    deadlines = Deadlines[str]()
    for key, first, then in (("a", 1.0, 9.0), ("b", 2.0, 8.0)):
        deadlines.set(key, first)
        deadlines.set(key, then)
    assert deadlines.next == 8.0
    assert deadlines.due(8.5) == ["b"]
    assert deadlines.next == 9.0
