"""Who reads a topic, by name: told to its publisher whenever somebody comes or goes, on every carrier."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from pzc import Agent, ConfigError, Policy, block, drop, mailbox

from tests.contract.rigs.peers import TIMEOUT

Told = SimpleQueue[tuple[str, ...]]

CARRIERS = pytest.mark.parametrize(
    ("policy", "transport"),
    [
        (drop(), "inproc"),
        (drop(), "unix"),
        (drop(), "tcp"),
        (block(), "unix"),
        (block(), "tcp"),
        (mailbox(), None),
    ],
)


@CARRIERS
def test_a_reader_is_told_by_its_name_on_every_carrier(policy: Policy, transport: str | None) -> None:
    told = Told()
    with Agent(discovery=False) as publisher, Agent(name="hall.wall 2", discovery=False) as reader:
        publisher.on_readers("t", told.put)
        with reader.subscribe(publisher.rep_endpoint, "t", policy=policy, transport=transport):
            assert told.get(timeout=TIMEOUT) == ("hall.wall 2",)
            publisher.publish("t", 1)
            assert publisher.statistics()["topics"]["t"]["readers"] == ["hall.wall 2"]
        assert told.get(timeout=TIMEOUT) == ()


def test_each_reader_is_told_once_however_much_it_subscribes_to() -> None:
    told = Told()
    with Agent(discovery=False) as publisher, Agent(name="one", discovery=False) as one:
        publisher.on_readers("t", told.put)
        with one.subscribe(publisher.rep_endpoint, "t", transport="tcp"):
            assert told.get(timeout=TIMEOUT) == ("one",)
            with one.subscribe(publisher.rep_endpoint, "*", transport="unix"):
                with Agent(name="another", discovery=False) as another:
                    another.subscribe(publisher.rep_endpoint, "t")
                    assert told.get(timeout=TIMEOUT) == ("another", "one")
                assert told.get(timeout=TIMEOUT) == ("one",)


def test_readers_of_another_topic_are_not_told() -> None:
    told = Told()
    with Agent(discovery=False) as publisher, Agent(name="one", discovery=False) as one:
        publisher.on_readers("t", told.put)
        with one.subscribe(publisher.rep_endpoint, "u"), one.subscribe(publisher.rep_endpoint, "t"):
            assert told.get(timeout=TIMEOUT) == ("one",)
            assert told.empty()


def test_who_reads_already_is_told_at_once() -> None:
    told = Told()
    with Agent(discovery=False) as publisher, Agent(name="one", discovery=False) as one:
        with one.subscribe(publisher.rep_endpoint, "t"):
            publisher.on_readers("t", told.put)
            assert told.get(timeout=TIMEOUT) == ("one",)


def test_a_reader_without_a_name_is_told_by_digits_and_counted_only() -> None:
    told = Told()
    with Agent(discovery=False) as publisher, Agent(discovery=False) as nameless:
        publisher.on_readers("t", told.put)
        with nameless.subscribe(publisher.rep_endpoint, "t"):
            (name,) = told.get(timeout=TIMEOUT)
            publisher.publish("t", 1)
            topic = publisher.statistics()["topics"]["t"]
    assert len(bytes.fromhex(name)) == 8
    assert (topic["subscribers"], topic["readers"]) == (1, [])


def test_one_callback_takes_the_place_of_another_and_none_ends_it() -> None:
    before, now = Told(), Told()
    with Agent(discovery=False) as publisher, Agent(name="one", discovery=False) as one:
        publisher.on_readers("t", before.put)
        publisher.on_readers("t", now.put)
        with one.subscribe(publisher.rep_endpoint, "t"):
            assert now.get(timeout=TIMEOUT) == ("one",)
            publisher.on_readers("t", None)
        assert publisher.request(publisher.rep_endpoint, "ping") == "pong"
        publisher.on_readers("u", now.put)
        with one.subscribe(publisher.rep_endpoint, "u"):
            assert now.get(timeout=TIMEOUT) == ("one",)
    assert before.empty()


def test_what_is_no_function_is_refused() -> None:
    wrong: Any = "print"
    with Agent(discovery=False) as publisher, pytest.raises(ConfigError, match="expected a function"):
        publisher.on_readers("t", wrong)
