from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.kept import Kept
from pzc.protocol.link_messages import Row


def _row(number: int, key: str = "", size: int = 1) -> Row:
    return Row(number, 0, key, "pickle", bytes(size))


def test_the_last_one_of_each_key_is_kept_in_the_order_of_numbers() -> None:
    kept = Kept()
    for number, key in enumerate(("a", "b", "a"), 1):
        kept.keep("t", _row(number, key=key))
    assert [(row.number, row.key) for row in kept.of("t")] == [(2, "b"), (3, "a")]


def test_one_key_can_be_asked_for() -> None:
    kept = Kept()
    kept.keep("t", _row(1, key="a"))
    kept.keep("t", _row(2, key="b"))
    assert [row.number for row in kept.of("t", frozenset("a"))] == [1]
    assert kept.of("t", frozenset("c")) == []


def test_what_was_left_out_is_not_replaced_by_an_older_one() -> None:
    kept = Kept()
    kept.keep("t", _row(1, key="a"))
    kept.leave_out("t", "a")
    assert kept.of("t") == []


def test_a_forgotten_topic_leaves_the_others() -> None:
    kept = Kept()
    kept.keep("one", _row(1))
    kept.keep("two", _row(1))
    kept.forget("one")
    assert (kept.of("one"), len(kept.of("two")), len(kept)) == ([], 1, 1)


def test_the_one_published_longest_ago_makes_room() -> None:
    kept = Kept(most=2)
    for number, key in enumerate(("a", "b", "a", "c"), 1):
        kept.keep("t", _row(number, key=key))
    assert [row.key for row in kept.of("t")] == ["a", "c"]
    assert kept.evicted == 1


_steps = st.lists(
    st.tuples(
        st.sampled_from(("keep", "leave", "forget")),
        st.sampled_from("xy"),
        st.sampled_from("abc"),
        st.integers(0, 9),
    )
)


@given(_steps, st.integers(1, 4), st.integers(1, 20))
def test_it_holds_the_newest_within_its_bounds(
    steps: list[tuple[str, str, str, int]], most: int, most_bytes: int
) -> None:
    kept, model = Kept(most, most_bytes), dict[tuple[str, str], Row]()
    for number, (what, topic, key, size) in enumerate(steps, 1):
        if what == "forget":
            kept.forget(topic)
            model = {place: row for place, row in model.items() if place[0] != topic}
            continue
        model.pop((topic, key), None)
        if what == "leave":
            kept.leave_out(topic, key)
            continue
        row = model[topic, key] = _row(number, key, size)
        kept.keep(topic, row)
        while len(model) > most or sum(len(each.body) for each in model.values()) > most_bytes:
            del model[next(iter(model))]
    assert len(kept) == len(model)
    for topic in "xy":
        expected = [row for place, row in model.items() if place[0] == topic]
        assert kept.of(topic) == sorted(expected, key=lambda row: row.number)
