from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.delivery.locks import Changed, Event, Granted, Lock, Outcome, Owner, Refusal, Removed, Waiting
from pzc.protocol.errors import LocalProtocolError, LockedBy, LockLost, Refused, RemoteProtocolError
from pzc.protocol.message import Identity

ALICE = Owner("alice", "3f2a90c1" + 24 * "0", "token of alice")
TWIN = Owner("alice", ALICE.agent, "token of another proxy")
BOB = Owner("bob", "b0b" + 29 * "0", "token of bob")
CAROL = Owner("", "ca401" + 27 * "0", "token of carol")
HERS, HIS, EVE = ALICE.identity, BOB.identity, Identity("another key", ALICE.agent)
WALL = 1_700_000_000.0


def ask(
    lock: Lock[str], owner: Owner, now: float = 0.0, *, ttl: float = 10, wait: float = 0, ticket: str = ""
) -> tuple[Outcome[str], list[Event[str]]]:
    return lock.acquire(owner, ttl, "", now + wait, ticket or owner.token, now, WALL + now)


def held_by(owner: Owner, *waiting: Owner, ttl: float = 10) -> Lock[str]:
    lock: Lock[str] = Lock()
    ask(lock, owner, ttl=ttl)
    for other in waiting:
        ask(lock, other, wait=1000)
    return lock


def taken(owner: Owner) -> Changed:
    return Changed("taken", owner, owner)


def granted(owner: Owner) -> Granted[str]:
    return Granted(owner.token, owner)


def call(lock: Lock[str], owner: Owner, *, token: str | None = None, reads: bool = False) -> None:
    lock.check(owner.key, owner.agent, owner.token if token is None else token, reads)


# Taking, renewing and giving back


def test_a_free_lock_is_granted_at_once() -> None:
    lock: Lock[str] = Lock()
    assert ask(lock, ALICE) == (granted(ALICE), [taken(ALICE)])
    assert lock.owner == ALICE


def test_a_second_owner_that_does_not_wait_is_told_who_holds_it_since_when_and_why() -> None:
    lock: Lock[str] = Lock()
    lock.acquire(ALICE, 10, "ramping", 3, "a", 3, WALL)
    outcome, events = ask(lock, BOB, 5)
    assert isinstance(outcome, LockedBy)
    assert (outcome.owner, outcome.since, outcome.reason) == ("alice (agent 3f2a90c1)", WALL, "ramping")
    assert events == []


def test_two_proxies_of_one_process_exclude_each_other() -> None:
    assert isinstance(ask(held_by(ALICE), TWIN)[0], LockedBy)


def test_the_owner_that_acquires_again_renews_and_nothing_changes() -> None:
    lock = held_by(ALICE, ttl=10)
    assert ask(lock, ALICE, 8, ttl=10) == (granted(ALICE), [])
    assert lock.next_due() == 18


def test_an_inner_acquire_does_not_shorten_what_the_outer_one_relies_on() -> None:
    lock: Lock[str] = Lock()
    lock.acquire(ALICE, 60, "outer", 0, "a", 0, WALL)
    lock.acquire(ALICE, 1, "", 0, "b", 0, WALL)
    assert lock.describe() == {
        "owner": ALICE.label,
        "since": WALL,
        "reason": "outer",
        "ttl": 60,
        "waiting": 0,
    }


@pytest.mark.parametrize("other", [TWIN, BOB, Owner("eve", ALICE.agent, ALICE.token)])
def test_nobody_but_the_owner_releases(other: Owner) -> None:
    lock = held_by(ALICE)
    assert lock.release(other, 1) == (False, [])
    assert lock.owner == ALICE


def test_a_free_lock_has_nothing_due_and_nothing_to_describe() -> None:
    lock: Lock[str] = Lock()
    assert (lock.next_due(), lock.describe(), lock.expire(1e9)) == (None, None, [])


def test_a_lock_taken_after_another_owner_keeps_nothing_of_it() -> None:
    lock: Lock[str] = Lock()
    lock.acquire(ALICE, 1000, "long", 0, "a", 0, WALL)
    lock.release(ALICE, 1)
    lock.acquire(BOB, 5, "", 2, "b", 2, WALL + 2)
    assert lock.describe() == {"owner": BOB.label, "since": WALL + 2, "reason": "", "ttl": 5, "waiting": 0}


# What an event does while Alice holds the lock, for 10 s from 0 on, and others wait

RELEASED = Changed("released", ALICE, ALICE)
EXPIRED = Changed("expired", ALICE, None)
LOST = Changed("lost", ALICE, None)
TO_BOB = [taken(BOB), granted(BOB)]
EVENTS: list[tuple[str, list[Owner], Callable[[Lock[str]], list[Event[str]]], list[Event[str]]]] = [
    ("a released lock is free", [], lambda lock: lock.release(ALICE, 1)[1], [RELEASED]),
    ("the oldest ticket is next", [BOB, CAROL], lambda lock: lock.release(ALICE, 1)[1], [RELEASED, *TO_BOB]),
    ("silence for the ttl ends it", [], lambda lock: lock.expire(10), [EXPIRED]),
    ("less silence does not", [BOB], lambda lock: lock.expire(9.999), []),
    ("an expired lock passes on", [BOB], lambda lock: lock.expire(10), [EXPIRED, *TO_BOB]),
    ("a late sign of life is too late", [BOB], lambda lock: lock.renew(HERS, 10), [EXPIRED, *TO_BOB]),
    ("a late sign of life of others is none", [BOB], lambda lock: lock.renew(HIS, 10), []),
    ("a late release finds it expired", [BOB], lambda lock: lock.release(ALICE, 10)[1], [EXPIRED, *TO_BOB]),
    ("a late acquire finds it expired", [BOB], lambda lock: ask(lock, ALICE, 10)[1], [EXPIRED, *TO_BOB]),
    ("a late death finds it expired", [BOB], lambda lock: lock.gone(HERS, 10), [EXPIRED, *TO_BOB]),
    ("the death of another key's agent is none", [BOB], lambda lock: lock.gone(EVE, 1), []),
    ("a late sign of life of another key's agent is none", [BOB], lambda lock: lock.renew(EVE, 10), []),
    ("the lock of the dead passes on", [BOB], lambda lock: lock.gone(HERS, 1), [LOST, *TO_BOB]),
    (
        "the dead inherit nothing from themselves",
        [TWIN, BOB],
        lambda lock: lock.gone(HERS, 1),
        [Removed(TWIN.token), LOST, *TO_BOB],
    ),
    ("the dead inherit nothing", [BOB], lambda lock: lock.gone(HIS, 10), [Removed(BOB.token), EXPIRED]),
    (
        "a takeover leaves the queue in place",
        [BOB],
        lambda lock: lock.takeover(CAROL, 10, "", "c", 1, WALL)[1] + lock.release(CAROL, 2)[1],
        [Changed("taken over", ALICE, CAROL), Changed("released", CAROL, CAROL), *TO_BOB],
    ),
    (
        "a takeover by one who waits ends its waiting",
        [CAROL, BOB],
        lambda lock: lock.takeover(BOB, 10, "", "b", 1, WALL)[1],
        [Changed("taken over", ALICE, BOB), granted(BOB)],
    ),
    (
        "a late takeover takes a free lock",
        [],
        lambda lock: lock.takeover(BOB, 10, "", "b", 10, WALL)[1],
        [EXPIRED, taken(BOB)],
    ),
]


@pytest.mark.parametrize(
    ("waiting", "event", "expected"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS]
)
def test_while_alice_holds_the_lock(
    waiting: list[Owner], event: Callable[[Lock[str]], list[Event[str]]], expected: list[Event[str]]
) -> None:
    assert event(held_by(ALICE, *waiting)) == expected


def test_a_waiting_owner_gets_all_its_tickets_at_once() -> None:
    lock = held_by(ALICE, BOB, CAROL)
    ask(lock, BOB, wait=5, ticket="second")
    assert lock.release(ALICE, 1)[1] == [RELEASED, *TO_BOB, Granted("second", BOB)]


def test_a_withdrawn_ticket_is_not_granted() -> None:
    lock = held_by(ALICE, BOB)
    assert lock.withdraw(BOB.token)
    assert not lock.withdraw(BOB.token)
    assert lock.release(ALICE, 1)[1] == [RELEASED]


# Waiting


def test_a_ticket_that_waited_in_vain_is_refused_on_time() -> None:
    lock = held_by(ALICE, ttl=100)
    ask(lock, BOB, wait=5)
    assert lock.next_due() == 5
    assert lock.expire(4.999) == []
    [refusal] = lock.expire(5)
    assert isinstance(refusal, Refusal)
    assert (refusal.ticket, refusal.error.owner) == (BOB.token, ALICE.label)
    assert lock.next_due() == 100


def test_a_ticket_past_its_time_is_not_granted_by_a_release() -> None:
    lock = held_by(ALICE, ttl=100)
    ask(lock, BOB, wait=5)
    _, events = lock.release(ALICE, 6)
    assert [type(event) for event in events] == [Refusal, Changed]
    assert lock.owner is None


def test_a_grant_after_waiting_is_dated_when_it_was_given() -> None:
    lock = held_by(ALICE, BOB)
    lock.release(ALICE, 7)
    assert (lock.describe() or {})["since"] == WALL + 7


def test_the_ttl_of_a_waiting_owner_begins_with_its_grant() -> None:
    lock = held_by(ALICE, BOB)
    lock.release(ALICE, 7)
    assert lock.next_due() == 17


def test_a_full_queue_refuses_at_once() -> None:
    lock = held_by(ALICE, *[Owner("", "a", f"{number}", "key") for number in range(500)])
    outcome, _ = ask(lock, Owner("", "a", "one more", "key"), wait=100)
    assert isinstance(outcome, Refused)
    assert "with this key" in str(outcome)
    other, _ = ask(lock, Owner("", "b", "another", "another key"), wait=100)
    assert type(other) is Waiting


def test_a_ticket_that_already_waits_is_an_error_of_this_side() -> None:
    lock = held_by(ALICE, BOB)
    with pytest.raises(LocalProtocolError, match="already waits"):
        ask(lock, CAROL, wait=5, ticket=BOB.token)


# Silence, death and takeover


def test_a_sign_of_life_renews_for_the_ttl() -> None:
    lock = held_by(ALICE)
    assert lock.renew(HERS, 9) == []
    assert lock.next_due() == 19


def test_a_time_read_before_another_threads_shortens_nothing() -> None:
    lock = held_by(ALICE)
    lock.renew(HERS, 9)
    lock.renew(HERS, 8)
    assert lock.next_due() == 19


def test_a_takeover_puts_the_owner_out_at_once() -> None:
    lock = held_by(ALICE, BOB)
    assert lock.takeover(CAROL, 10, "", "c", 1, WALL) == (
        Granted("c", CAROL),
        [Changed("taken over", ALICE, CAROL)],
    )
    with pytest.raises(LockLost, match="was taken over by agent ca401000"):
        call(lock, ALICE)


def test_a_takeover_from_oneself_renews() -> None:
    lock = held_by(ALICE)
    assert lock.takeover(ALICE, 10, "", "a", 5, WALL) == (Granted("a", ALICE), [])
    assert lock.next_due() == 15


# Calls


@pytest.mark.parametrize(
    ("caller", "token", "reads", "error"),
    [
        (ALICE, None, False, None),
        (ALICE, None, True, None),
        (BOB, "", False, LockedBy),
        (BOB, "", True, None),
        (ALICE, "", False, LockedBy),  # another proxy of that process, without a lock
        (TWIN, None, False, LockLost),
        (BOB, None, True, LockLost),
        (BOB, ALICE.token, False, LockLost),
        (Owner("bob", ALICE.agent, "t"), ALICE.token, False, LockLost),
        (Owner("alice", BOB.agent, "t"), ALICE.token, False, LockLost),
    ],
)
def test_a_call_while_alice_holds_the_lock(
    caller: Owner, token: str | None, reads: bool, error: type[Exception] | None
) -> None:
    lock = held_by(ALICE)
    if error is None:
        call(lock, caller, token=token, reads=reads)
    else:
        with pytest.raises(error):
            call(lock, caller, token=token, reads=reads)


def test_a_call_without_token_passes_a_free_lock() -> None:
    call(Lock(), ALICE, token="")


@pytest.mark.parametrize("reads", [False, True])
def test_a_call_that_relies_on_a_lock_fails_when_nobody_holds_it(reads: bool) -> None:
    with pytest.raises(LockLost, match="or the server was restarted; now nobody holds it"):
        call(Lock(), ALICE, reads=reads)


def test_a_server_may_refuse_the_reads_of_others() -> None:
    lock: Lock[str] = Lock(reads_allowed=False)
    ask(lock, ALICE)
    with pytest.raises(LockedBy, match="alice"):
        call(lock, BOB, token="", reads=True)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (lambda lock: lock.expire(10), "expired"),
        (lambda lock: lock.gone(HERS, 1), "taken for dead"),
        (lambda lock: lock.release(ALICE, 1), "was released by alice"),
    ],
)
def test_the_caller_hears_how_its_lock_ended(end: Callable[[Lock[str]], object], text: str) -> None:
    lock = held_by(ALICE)
    end(lock)
    with pytest.raises(LockLost, match=text):
        call(lock, ALICE)


def test_the_caller_hears_who_holds_the_lock_that_it_lost() -> None:
    lock = held_by(ALICE, BOB)
    lock.expire(10)
    with pytest.raises(LockLost, match=r"bob \(agent b0b00000\) holds it"):
        call(lock, ALICE)


# What comes from outside


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        (30, 30.0),
        (0, 0.1),
        (-5, 0.1),
        (1e12, 86_400.0),
        (10**400, 86_400.0),
        (float("inf"), 86_400.0),
        (float("nan"), 0.1),
    ],
)
def test_a_ttl_is_brought_into_its_limits(asked: float, used: float) -> None:
    lock = held_by(ALICE, ttl=asked)
    assert lock.next_due() == used


@pytest.mark.parametrize("wait", [0, -1, float("-inf"), float("nan")])
def test_whoever_has_no_time_to_wait_is_refused_at_once(wait: float) -> None:
    assert isinstance(ask(held_by(ALICE), BOB, wait=wait)[0], LockedBy)


def test_nobody_waits_for_longer_than_a_day() -> None:
    lock = held_by(ALICE, ttl=1e9)
    lock.renew(HERS, 1)
    ask(lock, BOB, wait=float("inf"))
    assert lock.next_due() == 86_400


def test_a_reason_cannot_write_over_a_terminal_and_is_short() -> None:
    lock: Lock[str] = Lock()
    lock.acquire(ALICE, 10, "a\n\x1b[2J" + 1000 * "x", 0, "a", 0, WALL)
    assert (lock.describe() or {})["reason"] == "a  [2J" + 194 * "x"


@pytest.mark.parametrize("token", ["", 129 * "x"])
def test_an_owner_needs_a_token_of_sensible_length(token: str) -> None:
    with pytest.raises(RemoteProtocolError, match="expected 1 to 128"):
        Owner("alice", "a", token)


@pytest.mark.parametrize(
    ("owner", "label"),
    [
        (ALICE, "alice (agent 3f2a90c1)"),
        (CAROL, "agent ca401000 (unsigned)"),
        (Owner("", "tcp://10.0.0.7:5000", "t"), "agent tcp://10.0.0.7:5000 (unsigned)"),
    ],
)
def test_a_label_names_key_and_agent(owner: Owner, label: str) -> None:
    assert owner.label == label


def test_a_token_does_not_get_into_logs() -> None:
    assert ALICE.token not in repr(granted(ALICE).owner)


@given(now=st.floats(0, 1e7), ttl=st.floats(0.1, 1e5), wait=st.floats(0.001, 1e5))
def test_whatever_is_due_happens_when_it_is_due(now: float, ttl: float, wait: float) -> None:
    lock: Lock[str] = Lock()
    ask(lock, ALICE, now, ttl=ttl)
    ask(lock, BOB, now, ttl=ttl, wait=wait)
    for _ in range(4):
        due = lock.next_due()
        if due is None:
            break
        assert lock.expire(due)
    assert lock.owner is None
