"""Requests for a lock that come behind the word that their owner has given up."""

from __future__ import annotations

import pytest

from pzc.delivery.locks import Changed, Granted, Lock, Outcome, Owner, Refusal
from pzc.protocol.errors import LockLost

ALICE = Owner("alice", "3f2a90c1" + 24 * "0", "token of alice")
BOB = Owner("bob", "b0b" + 29 * "0", "token of bob")
CAROL = Owner("", "ca401" + 27 * "0", "token of carol")


def ask(lock: Lock[str], owner: Owner, now: float) -> Outcome[str]:
    return lock.acquire(owner, 10, "", now + 1000, owner.token, now, now)[0]


def held_by(owner: Owner, *waiting: Owner) -> Lock[str]:
    lock: Lock[str] = Lock()
    for each in (owner, *waiting):
        ask(lock, each, 0)
    return lock


def given_up_by(owner: Owner) -> Lock[str]:
    lock: Lock[str] = Lock()
    assert lock.give_up(owner, 0) == (False, [])
    return lock


def test_a_lock_that_was_given_up_before_its_request_came_is_not_granted() -> None:
    lock = given_up_by(ALICE)
    with pytest.raises(LockLost, match="nobody waits for it"):
        ask(lock, ALICE, 1)
    assert lock.owner is None


def test_others_are_granted_what_somebody_gave_up() -> None:
    assert ask(given_up_by(ALICE), BOB, 1) == Granted(BOB.token, BOB)


def test_a_takeover_that_was_given_up_before_it_came_takes_nothing() -> None:
    lock = held_by(BOB)
    lock.give_up(ALICE, 0)
    with pytest.raises(LockLost):
        lock.takeover(ALICE, 10, "", "a", 1, 1)
    assert lock.owner == BOB


def test_whoever_gives_up_while_it_waits_is_refused_and_passed_over() -> None:
    lock = held_by(ALICE, BOB, CAROL)
    done, [refusal] = lock.give_up(BOB, 1)
    assert not done
    assert isinstance(refusal, Refusal)
    assert (refusal.ticket, refusal.error.owner) == (BOB.token, ALICE.label)
    lock.release(ALICE, 2)
    assert lock.owner == CAROL


def test_whoever_gives_up_what_it_holds_gives_it_back() -> None:
    lock = held_by(ALICE)
    assert lock.give_up(ALICE, 1) == (True, [Changed("released", ALICE, ALICE)])


def test_who_gave_up_is_forgotten_after_a_minute() -> None:
    assert ask(given_up_by(ALICE), ALICE, 60) == Granted(ALICE.token, ALICE)


def test_the_latest_thousand_that_gave_up_are_known() -> None:
    lock = given_up_by(ALICE)
    for number in range(1000):
        lock.give_up(Owner("eve", ALICE.agent, str(number)), 0)
    with pytest.raises(LockLost):
        ask(lock, Owner("eve", ALICE.agent, "0"), 1)
    assert ask(lock, ALICE, 1) == Granted(ALICE.token, ALICE)
