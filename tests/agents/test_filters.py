from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.agents.notifications import filters
from pzc.agents.notifications.filters import ANY, Filters, mark_filter

ME = "0" * 32
ENDPOINT = "tcp://127.0.0.1:5555"


def header(topic: str) -> bytes:
    return f"PZC01+{ME}+{topic}+".encode()


def original(topic: str) -> bytes:
    return f"PZC00+{ENDPOINT}+{topic}".encode()


def listeners(held: Filters, topic: str) -> int:
    return held.listeners(topic, header(topic), [original(topic)])


def subscribe(held: Filters, topic: str, who: str, number: int = 1) -> None:
    first = f"PZC01+{ME}+".encode() if topic == ANY else header(topic)
    held.take(b"\1" + first, dict)
    held.take(b"\1" + mark_filter(ME, f"{who}.{number}", topic), dict)


def unsubscribe(held: Filters, topic: str, who: str, number: int = 1) -> None:
    first = f"PZC01+{ME}+".encode() if topic == ANY else header(topic)
    held.take(b"\0" + mark_filter(ME, f"{who}.{number}", topic), dict)
    if not held.is_marked(topic):
        held.take(b"\0" + first, dict)


@pytest.fixture
def held() -> Filters:
    return Filters(ME)


def test_nobody_listens_at_first(held: Filters) -> None:
    assert not held.matches(header("val"))
    assert listeners(held, "val") == 0


def test_an_agent_is_counted_once_per_topic(held: Filters) -> None:
    subscribe(held, "val", "a", 1)
    subscribe(held, "val", "a", 2)
    subscribe(held, ANY, "a", 3)
    assert listeners(held, "val") == 1
    assert listeners(held, "other") == 1


def test_two_agents_are_two_listeners(held: Filters) -> None:
    subscribe(held, "val", "a")
    subscribe(held, ANY, "b")
    assert (listeners(held, "val"), listeners(held, "other")) == (2, 1)


def test_foreign_filters_are_counted_beside_marked_ones(held: Filters) -> None:
    subscribe(held, "val", "a")
    held.take(b"\1" + original("val"), dict)
    held.take(b"\1" + header("val")[:-2], dict)
    held.take(b"\1", dict)
    assert listeners(held, "val") == 4


def test_a_filter_asked_for_twice_is_gone_when_it_is_cancelled_once(held: Filters) -> None:
    """A SUB socket passes on each request for a filter, and only the last cancellation."""
    for setting in (1, 1, 0):
        assert held.take(bytes((setting,)) + original("val"), dict)
    assert not held.matches(original("val"))


def test_a_filter_that_a_forwarder_has_merged_counts_by_its_marks(held: Filters) -> None:
    held.take(b"\1" + header("val"), dict)
    for who in "abc":
        held.take(b"\1" + mark_filter(ME, f"{who}.1", "val"), dict)
    assert listeners(held, "val") == 3


@pytest.mark.parametrize("other", ["value", "va", "val+x", "x+val", "Val", ""])
def test_a_subscription_to_another_topic_is_not_counted(held: Filters, other: str) -> None:
    subscribe(held, "val", "a")
    held.take(b"\1" + header("val"), dict)
    assert listeners(held, other) == 0


def test_an_original_filter_matches_longer_topics_as_it_always_did(held: Filters) -> None:
    held.take(b"\1" + original("val"), dict)
    assert held.matches(original("value"))
    assert (listeners(held, "value"), listeners(held, "va")) == (1, 0)


def test_after_everybody_left_nothing_is_kept(held: Filters) -> None:
    for who in "ab":
        subscribe(held, "val", who)
    for who in "ab":
        assert held.is_marked("val")
        unsubscribe(held, "val", who)
    assert (len(held), held.is_marked("val"), listeners(held, "val")) == (0, False, 0)
    assert not held._marks


def test_a_cancelled_filter_of_somebody_else_leaves_the_topic_marked(held: Filters) -> None:
    subscribe(held, "val", "a")
    held.take(b"\0" + header("val"), dict)
    assert held.is_marked("val")
    assert listeners(held, "val") == 1


def test_a_cancellation_of_what_nobody_holds_is_refused(held: Filters) -> None:
    assert not held.take(b"\0" + header("val"), dict)
    held.take(b"\1" + header("val"), dict)
    assert held.matches(header("val"))


def test_a_filter_of_an_agent_is_counted_when_it_is_marked(held: Filters) -> None:
    """Not before: what is published between the two is not part of the subscription."""
    held.take(b"\1" + header("val"), dict)
    held.take(b"\1" + f"PZC01+{ME}+".encode(), dict)
    assert listeners(held, "val") == 0
    held.take(b"\1" + mark_filter(ME, "a.1", "val"), dict)
    assert listeners(held, "val") == 1


def test_a_mark_remembers_the_last_number_of_its_topic_when_it_came_and_of_everything_none(
    held: Filters,
) -> None:
    for number, (mark, topic) in enumerate([("a.1", "val"), ("a.2", ANY), ("a.3", "new")], 1):
        held.take(b"\1" + mark_filter(ME, mark, topic), lambda number=number: {"val": number, "other": 7})
    assert [held.last_at(f"a.{n}") for n in (1, 2, 3)] == [1, None, 0]
    held.take(b"\0" + mark_filter(ME, "a.1", "val"), dict)
    with pytest.raises(KeyError):
        held.last_at("a.1")


def test_a_topic_with_a_plus_can_be_marked(held: Filters) -> None:
    subscribe(held, "a+b+c", "me")
    assert held.is_marked("a+b+c")
    assert not held.is_marked("a")


@pytest.mark.parametrize("message", [b"", b"\2x", b"x", b"\xff", b"\1" + b"x" * filters.MAX_LENGTH])
def test_what_is_no_filter_is_refused(held: Filters, message: bytes) -> None:
    assert not held.take(message, dict)
    assert len(held) == 0


@given(st.lists(st.binary(max_size=60)))
def test_arbitrary_bytes_break_nothing(messages: list[bytes]) -> None:
    held = Filters(ME)
    for message in messages:
        held.take(message, dict)
        listeners(held, "val")
    subscribe(held, "val", "a")
    assert held.is_marked("val")
    assert held.matches(header("val"))


_prefixes = st.sampled_from([
    b"", b"P", b"PZC0", b"PZC00", b"PZC01", header("val"), header("val")[:-1], header("val+x"),
    original("val"), f"PZC01+{ME}+".encode(), mark_filter(ME, "a.1", "val"), mark_filter(ME, "b.1", "val"),
    mark_filter(ME, "a.2", ANY), mark_filter(ME, "", "") + b"\xff", mark_filter(ME, "c", "")[:-1],
])  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), _prefixes)))
def test_a_filter_is_held_from_its_first_setting_to_its_last_cancellation(
    steps: list[tuple[bool, bytes]],
) -> None:
    held, present = Filters(ME), set[bytes]()
    for setting, prefix in steps:
        assert held.take(bytes((setting,)) + prefix, dict) == (setting or prefix in present)
        (present.add if setting else present.discard)(prefix)
    assert len(held) == len(present)
    for topic in ("val", "val+x", "other"):
        for text in (header(topic), original(topic)):
            assert held.matches(text) == any(text.startswith(prefix) for prefix in present)
    assert held.has_mark("a.1") == (mark_filter(ME, "a.1", "val") in present)
    marked = any(mark_filter(ME, mark, "val") in present for mark in ("a.1", "b.1"))
    assert held.is_marked("val") == (marked or mark_filter(ME, "a.2", ANY) in present)

    for prefix in present:
        held.take(b"\0" + prefix, dict)
    assert (len(held), listeners(held, "val"), held.is_marked("val")) == (0, 0, False)


def test_a_mark_tells_its_topic_also_when_it_is_held_already(held: Filters) -> None:
    message = b"\1" + mark_filter(ME, "a.1", "val")
    assert held.marked(message) == "val"
    held.take(message, dict)
    assert held.marked(message) == "val"


@pytest.mark.parametrize(
    "message", [b"\0" + mark_filter(ME, "a.1", "val"), b"\1" + header("val"), b"", b"\1"]
)
def test_nothing_else_sets_a_mark(held: Filters, message: bytes) -> None:
    assert held.marked(message) == ""
