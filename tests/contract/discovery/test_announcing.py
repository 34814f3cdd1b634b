from __future__ import annotations

from collections.abc import Callable

from pzc import Agent, discover


def topics() -> list[str]:
    return [entry.topic for entry in discover("**", 0.0, kind="topic")]


def test_a_topic_that_cannot_be_a_name_is_published_and_not_announced() -> None:
    with Agent(name="meter") as meter:
        assert meter.publish("two words", 1) == 1
        meter.advertise("two words")
        meter.advertise("one")
        assert topics() == ["one"]


def test_no_more_topics_than_the_bound_are_announced(timings: Callable[..., None]) -> None:
    timings(announced_topics=3)
    with Agent(name="meter") as meter:
        for number in range(5):
            meter.advertise(f"topic{number}")
        assert topics() == ["topic0", "topic1", "topic2"]
