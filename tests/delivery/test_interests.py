from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.interests import Interests, Subscriptions
from pzc.delivery.mail import ALL

ENTITIES = st.sampled_from([("a", None), ("a", "x"), ("a", "y"), ("b", "x"), (ALL, None)])


def test_an_entity_without_subscribers_is_erased() -> None:
    interests: Interests[str] = Interests()
    interests.add("a", "x", "one")
    interests.add("a", "x", "two")
    interests.discard("a", "x", "one")
    assert (len(interests), interests.matching("a", "x")) == (1, ("two",))
    interests.discard("a", "x", "two")
    assert (len(interests), interests._topics) == (0, {})


def test_a_message_without_key_goes_to_those_who_want_all_keys() -> None:
    interests: Interests[str] = Interests()
    interests.add("a", None, "all")
    interests.add("a", "x", "some")
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
    subscriptions = {"one": Subscriptions(), "two": Subscriptions()}
    wanted: set[tuple[str, str | None, str]] = set()
    for entity, who, subscribe in commands:
        if subscribe and subscriptions[who].add(*entity):
            interests.add(*entity, who)
            wanted.add((*entity, who))
        elif not subscribe and subscriptions[who].discard(*entity):
            interests.discard(*entity, who)
            wanted.remove((*entity, who))
    expected = [
        who for who in ("one", "two") if {(topic, key, who), (topic, None, who), (ALL, None, who)} & wanted
    ]
    assert sorted(interests.matching(topic, key)) == expected
    assert len(interests) == len({(entity, at) for entity, at, _ in wanted})
    for who, its in subscriptions.items():
        assert sorted(its, key=str) == sorted(((t, k) for t, k, w in wanted if w == who), key=str)
        assert len(its) == len(list(its))


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
        interests.add("t", Watched(number), "me")
    key = Watched(1234)
    assert interests.matching("t", key) == ("me",)
    assert looks(lambda: interests.matching("t", key)) <= 2


def test_whoever_wants_any_key_of_a_topic_is_found_without_a_look_at_each_key() -> None:
    interests: Interests[str] = Interests()
    subscriptions = Subscriptions()
    me, agent = Watched("me"), (Watched("agent"),)
    for number in range(2000):
        subscriptions.add("t", str(number), agent)
        interests.add("t", str(number), me)
    assert looks(lambda: interests.about("t")) < 10
    assert looks(lambda: subscriptions.who("t")) < 10


@given(st.lists(st.tuples(ENTITIES, st.sampled_from([(), ("x",), ("x", "y")]), st.booleans()), max_size=40))
def test_a_topic_is_about_those_for_whom_any_of_its_entities_is(
    commands: list[tuple[tuple[str, str | None], tuple[str, ...], bool]],
) -> None:
    interests: Interests[str] = Interests()
    subscriptions = Subscriptions()
    wanted: dict[tuple[str, str | None], tuple[str, ...]] = {}
    for entity, who, subscribe in commands:
        if subscribe:
            if subscriptions.add(*entity, who):
                interests.add(*entity, "me")
            wanted[entity] = who
        elif subscriptions.discard(*entity):
            interests.discard(*entity, "me")
            del wanted[entity]
    for topic in ("a", "b"):
        groups = [who for (name, _), who in wanted.items() if name in (topic, ALL)]
        assert subscriptions.who(topic) == {agent for group in groups for agent in group}
        assert interests.about(topic) == ({"me"} if groups else set())


def test_nothing_is_left_of_entities_that_are_gone() -> None:
    interests: Interests[str] = Interests()
    subscriptions = Subscriptions()
    for key in (None, "x", "y"):
        subscriptions.add("a", key, (key or "all",))
        interests.add("a", key, "me")
    interests.discard("a", "z", "me")
    for key in (None, "x", "y"):
        assert subscriptions.discard("a", key)
        interests.discard("a", key, "me")
    assert (interests._topics, interests._shares) == ({}, {})
    assert (subscriptions._topics, subscriptions._told, len(subscriptions)) == ({}, {}, 0)
