"""Roster: the places of one link by topic."""

from __future__ import annotations

from pzc import block, drop
from pzc.agents.notifications.links.answers import Confirmed
from pzc.agents.notifications.links.places import Place
from pzc.agents.notifications.links.roster import Roster
from pzc.agents.notifications.subscription import Subscription
from pzc.delivery.policies import Policy
from pzc.transport.executor import Executor


def place(executor: Executor, topic: str, policy: Policy | None = None, key: str | None = None) -> Place:
    return Place(Subscription("p", topic, None, policy or drop(), key, executor, lambda _: None))


def test_a_topic_is_wanted_by_its_own_places_and_by_those_of_all(executor: Executor) -> None:
    own, other, every = (place(executor, topic) for topic in ("a", "b", "*"))
    roster = Roster([own, other, every])
    assert roster.wanting("a") == (own, every)
    assert roster.wanting("c") == (every,)
    assert roster.at("a") == (own,)


def test_a_place_that_left_wants_nothing(executor: Executor) -> None:
    first, second = place(executor, "a"), place(executor, "a")
    roster = Roster([first, second])
    assert roster.remove(first.subscription)
    assert not roster.remove(first.subscription)
    assert (roster.wanting("a"), len(roster)) == ((second,), 1)
    roster.remove(second.subscription)
    assert (roster.topics(), bool(roster)) == ([], False)


def test_each_wish_is_told_once_however_many_have_it(executor: Executor) -> None:
    roster = Roster(place(executor, "a", key=str(number)) for number in range(9))
    roster.add(place(executor, "a", block()))
    assert [wish[1:3] for wish in roster.wishes("a")] == [[list("012345678"), "drop"], [None, "block"]]
    asked, wishes = roster.wished()
    assert (list(asked), len(wishes)) == (["a"], 2)


def test_the_version_tells_of_every_change(executor: Executor) -> None:
    one = place(executor, "a")
    roster = Roster()
    versions = [roster.version]
    roster.add(one)
    versions.append(roster.version)
    roster.remove(one.subscription)
    versions.append(roster.version)
    assert len(set(versions)) == 3


def test_half_of_the_smallest_window_is_worth_a_message(executor: Executor) -> None:
    roster = Roster([place(executor, "a", block(slots=8)), place(executor, "a", block(slots=20))])
    roster.add(place(executor, "b"))
    assert roster.halves(Confirmed(1, {}, {"a": 32}), roster.topics()) == {"a": 4}


def test_beyond_a_thousand_keys_all_are_asked_for(executor: Executor) -> None:
    roster = Roster(place(executor, "a", key=str(number)) for number in range(1000))
    assert [len(wish[1]) for wish in roster.wishes("a")] == [1000]
    roster.add(place(executor, "a", key="one more"))
    assert [wish[1] for wish in roster.wishes("a")] == [None]
