from __future__ import annotations

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
