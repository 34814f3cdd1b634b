from __future__ import annotations

import pytest

from pzc.delivery import holdings
from pzc.delivery.holdings import GRACE, LOOK, Holdings
from pzc.protocol.errors import Refused
from pzc.protocol.message import Identity

A, B = Identity("k", "a"), Identity("k", "b")
EVE = Identity("another key", A.agent)


def idle(_: Identity) -> bool:
    return False


def expired(
    table: Holdings[str], until: float, start: float = 0.0
) -> dict[Identity, tuple[float, list[str]]]:
    """When each session was found dead, and what it held, by looks at the time."""
    found: dict[Identity, tuple[float, list[str]]] = {}
    for step in range(int((until - start) / LOOK) + 1):
        now = start + step * LOOK
        for session, things in table.expire(now, idle).items():
            found[session] = now, [each.what for each in things]
    return found


def test_what_a_session_holds_is_freed_four_seconds_after_its_control_connection_ended() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    table.hold(A, "lock", "unlock", 0.0)
    table.hold(A, "stream", "close", 0.0)
    table.heard(A, 1.0)
    table.disconnect(A, 1.5)
    assert expired(table, 20.0, 1.5) == {A: (1.5 + GRACE, ["lock", "stream"])}
    assert len(table) == 0


def test_a_session_that_comes_back_in_time_loses_nothing() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    table.hold(A, "lock", "unlock", 0.0)
    table.disconnect(A, 0.0)
    assert not expired(table, 3.5)
    table.connect(A, 3.6)
    assert not expired(table, 7.0, 3.6)


def test_a_session_that_is_silent_over_an_open_connection_is_dead() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    table.hold(A, "lock", "unlock", 0.0)
    table.heard(A, 2.0)
    assert expired(table, 20.0, 2.0) == {A: (2.0 + GRACE, ["lock"])}
    table.disconnect(A, 21.0)
    assert not table.holding(A)


def test_a_session_that_holds_without_a_control_connection_is_dead_after_the_same_time() -> None:
    table = Holdings[str](0.0)
    table.hold(A, "handle", "drop", 0.0)
    assert expired(table, 20.0) == {A: (GRACE, ["handle"])}


def test_a_session_that_holds_nothing_need_not_be_heard_of() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    assert not expired(table, 60.0)
    table.hold(A, "lock", "unlock", 60.0)
    assert expired(table, 80.0, 60.0) == {A: (60.0 + GRACE, ["lock"])}


def test_a_session_whose_calls_run_is_found_dead_when_its_control_connection_has_ended() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    table.disconnect(A, 0.0)
    looks = [table.expire(step * LOOK, lambda session: session == A) for step in range(20)]
    assert [step * LOOK for step, dead in enumerate(looks) if dead] == [GRACE]


def test_what_a_dead_process_held_is_freed_at_once() -> None:
    table = Holdings[str](0.0)
    first = table.hold(A, "lock", "unlock", 0.0)
    table.hold(B, "stream", "close", 0.0)
    assert [(each.ticket, each.release) for each in table.end(A)] == [(first, "unlock")]
    assert (table.end(A), table.drop(first), len(table)) == ([], False, 1)


def test_what_was_released_is_not_freed_again() -> None:
    table = Holdings[str](0.0)
    lock, stream = table.hold(A, "lock", "unlock", 0.0), table.hold(A, "stream", "close", 0.0)
    assert (table.drop(lock), table.drop(lock)) == (True, False)
    assert [each.ticket for each in table.end(A)] == [stream]


def test_a_session_of_the_same_name_with_another_key_is_another_one() -> None:
    table = Holdings[str](0.0)
    table.hold(A, "lock", "unlock", 0.0)
    assert table.end(EVE) == []
    assert table.holding(A)


def test_a_server_that_stood_still_takes_nobody_for_dead() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    table.hold(A, "lock", "unlock", 0.0)
    assert not expired(table, 1.0)
    assert not table.expire(3600.0, idle)
    assert expired(table, 3620.0, 3600.0) == {A: (3600.0 - 1.0 - LOOK + GRACE, ["lock"])}


def test_a_session_that_is_gone_and_holds_nothing_is_forgotten() -> None:
    table = Holdings[str](0.0)
    table.connect(A, 0.0)
    table.disconnect(A, 0.0)
    assert not table.expire(0.5, idle)
    assert table.next_look(0.5) == float("inf")


def test_the_sessions_and_holdings_of_one_key_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "MAX_SESSIONS", 1)
    monkeypatch.setattr(holdings, "MAX_HOLDINGS", 2)
    table = Holdings[str](0.0)
    tickets = [table.hold(A, "lock", "unlock", 0.0) for _ in range(2)]
    with pytest.raises(Refused, match="2 things"):
        table.hold(A, "lock", "unlock", 0.0)
    with pytest.raises(Refused, match="1 clients"):
        table.connect(B, 0.0)
    table.hold(EVE, "lock", "unlock", 0.0)
    table.drop(tickets[0])
    table.hold(A, "lock", "unlock", 0.0)
