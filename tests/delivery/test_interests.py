from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.interests import ALL, Interests

ENTITIES = st.sampled_from(
    [("a", None), ("a", "x"), ("a", "y"), ("b", "x"), (ALL, None), (ALL, "x"), (ALL, "y")]
)


def placed(entity: tuple[str, str | None]) -> tuple[str, tuple[str] | None]:
    """Its topic, and its key as `Interests` takes several."""
    topic, key = entity
    return topic, None if key is None else (key,)


def test_an_entity_without_subscribers_is_erased() -> None:
    interests: Interests[str] = Interests()
    interests.add("a", ("x",), "one")
    interests.add("a", ("x",), "two")
    interests.discard("a", ("x",), "one")
    assert (len(interests), interests.matching("a", "x")) == (1, ("two",))
    interests.discard("a", ("x",), "two")
    assert (len(interests), interests.topics) == (0, [])


def test_a_message_without_key_goes_to_those_who_want_all_keys() -> None:
    interests: Interests[str] = Interests()
    interests.add("a", None, "all")
    interests.add("a", ("x",), "some")
    assert interests.matching("a", None) == ("all",)


@given(
    st.lists(st.tuples(ENTITIES, st.sampled_from(["one", "two"]), st.booleans()), max_size=40),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([None, "x", "y"]),
)
def test_whoever_wants_it_gets_a_message_once(
    commands: list[tuple[tuple[str, str | None], str, bool]], topic: str, key: str | None
) -> None:
    interests: Interests[str] = Interests()
    wanted: set[tuple[str, str | None, str]] = set()
    for entity, who, subscribe in commands:
        place = (*entity, who)
        if subscribe and place not in wanted:
            interests.add(*placed(entity), who)
            wanted.add(place)
        elif not subscribe and place in wanted:
            interests.discard(*placed(entity), who)
            wanted.remove(place)
    expected = [who for who in ("one", "two") if {*product((topic, ALL), (key, None), (who,))} & wanted]
    assert sorted(interests.matching(topic, key)) == expected
    assert len(interests) == len({(entity, at) for entity, at, _ in wanted})
    assert [interests.knows(each) for each in "ab"] == [
        any(name in (each, ALL) for name, _, _ in wanted) for each in "ab"
    ]


@given(st.lists(st.integers(0, 40), max_size=120), st.sampled_from([None, ("x",), ("x", "y")]))
def test_many_who_come_and_go_are_there_as_long_as_they_want(
    commands: list[int], keys: tuple[str, ...] | None
) -> None:
    interests: Interests[str] = Interests()
    everybody = [str(number) for number in range(41)]
    there = [each for each in everybody if int(each) not in commands[:10]]
    for who in there:
        interests.add("a", keys, who)
    for who in [everybody[number] for number in commands]:
        (interests.discard if who in there else interests.add)("a", keys, who)
        (there.remove if who in there else there.append)(who)
        assert interests.matching("a", "x") == tuple(there)
        assert interests.matching("a", "x") is interests.matching("a", "x")
    assert [interests.holds("a", keys, who) for who in everybody] == [who in there for who in everybody]
    assert len(interests) == (len(keys or "x") if there else 0)


def memory_of_another_one(subscribers: int) -> int:
    """Most bytes that are taken while one more subscribes, and goes again."""
    interests: Interests[object] = Interests()
    for _ in range(subscribers):
        interests.add("t", None, object())
    who = object()
    tracemalloc.start()
    try:
        interests.add("t", None, who)
        assert interests.holds("t", None, who)
        interests.discard("t", None, who)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_another_one_costs_the_same_however_many_subscribe_to_a_topic() -> None:
    assert memory_of_another_one(3000) < 2 * memory_of_another_one(100)


class Watched(str):
    """A name that counts how often one of its kind is looked at."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        Watched.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Watched.looks += 1
        return str.__hash__(self)


def looks(function: Callable[[], object]) -> int:
    """How many names a function looks at."""
    Watched.looks = 0
    function()
    return Watched.looks


def test_a_message_to_one_of_two_thousand_keys_looks_at_no_other() -> None:
    interests: Interests[str] = Interests()
    for number in range(2000):
        interests.add("t", (Watched(number),), "me")
    key = Watched(1234)
    assert interests.matching("t", key) == ("me",)
    assert looks(lambda: interests.matching("t", key)) <= 2


def test_nothing_is_left_of_entities_that_are_gone() -> None:
    interests: Interests[str] = Interests()
    for keys in (None, ("x",), ("y", "z")):
        interests.add("a", keys, "me")
    interests.discard("a", ("u",), "me")
    for keys in (None, ("x",), ("y", "z")):
        interests.discard("a", keys, "me")
    assert (interests.topics, len(interests)) == ([], 0)
