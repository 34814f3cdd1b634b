"""``pzc running`` and ``pzc cancel``: what runs at a server is told and ended from a shell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pzc import Key, Keyring, Protocol, Proxy, Role, Server
from pzc.testing import Result, command

from tests.contract.rigs.supply import KEY, TIMEOUT, Supply, held

MOMENT = 2.0
"""Seconds that an end may take to be seen on a busy machine."""


@pytest.fixture
def supply() -> Iterator[Supply]:
    made = Supply()
    yield made
    made.opened.set()


def shell(*arguments: str, **environment: str) -> Result:
    """A command with the key of the server, or with other variables."""
    return command(*arguments, environment=environment or {"PZC_KEY": KEY})


def endpoint(proxy: object) -> str:
    return repr(proxy).rpartition(" ")[2].rstrip(">")


def test_running_tells_member_state_and_age(supply: Supply) -> None:
    with held(supply) as psu:
        psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        psu.note.future()
        while len(rows := shell("running", endpoint(psu), "--json").rows) < 2:
            pass
    assert [(row["member"], row["state"]) for row in rows] == [("ramp", "running"), ("note", "waiting")]
    assert all(row["since"] >= 0 and row["id"] and len(row["agent"]) == 32 for row in rows)


def test_running_is_a_table_for_people(supply: Supply) -> None:
    with held(supply) as psu:
        psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        heading, line = shell("running", endpoint(psu)).out.splitlines()
    assert heading.split() == ["MEMBER", "STATE", "SINCE", "CALLER", "AGENT", "ID"]
    assert line.split()[:2] == ["ramp", "running"]


def test_nothing_runs(supply: Supply) -> None:
    with held(supply) as psu:
        outcome = shell("running", endpoint(psu))
    assert (outcome.status, outcome.out) == (0, "")
    assert "nothing runs" in outcome.err


def test_cancel_calls_off_what_was_asked_for_with_this_key(supply: Supply) -> None:
    with held(supply) as psu:
        psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        assert shell("cancel", endpoint(psu), "--json").json == {"cancelled": 1, "running": []}
        assert supply.ended.wait(MOMENT)


def test_a_call_that_goes_on_although_it_was_told_to_end_is_named(supply: Supply) -> None:
    with held(supply) as psu:
        psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        outcome = shell("cancel", endpoint(psu))
        assert (outcome.status, outcome.out) == (0, "")
        assert "hold was told to end, and goes on" in outcome.err
        assert "running, told to end" in shell("running", endpoint(psu)).out
        waiting = psu.note.future()
        while len(shell("running", endpoint(psu), "--json").rows) < 2:
            pass
        again = shell("cancel", endpoint(psu))
        assert again.out == "1 call cancelled\n"
        assert "hold was told to end, and goes on" in again.err
        assert waiting.done() or not waiting.running()


@pytest.mark.parametrize("part", [slice(None), slice(33, 37)], ids=["whole", "a part"])
def test_cancel_with_an_id_ends_that_call_only(supply: Supply, part: slice) -> None:
    with held(supply) as psu:
        psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        waiting = psu.note.future("cancelled")
        while len(rows := shell("running", endpoint(psu), "--json").rows) < 2:
            pass
        assert shell("cancel", endpoint(psu), rows[1]["id"][part]).out == "1 call cancelled\n"
        assert not supply.ended.is_set()
        supply.opened.set()
        psu.note("after")
        assert supply.calls == ["hold", "after"]
        assert waiting.done() or not waiting.cancelled()


def test_an_id_that_nothing_has_is_told(supply: Supply) -> None:
    with held(supply) as psu:
        outcome = shell("cancel", endpoint(psu), "feed")
    assert outcome.status == 1
    assert "pzc running" in outcome.err


ALICE, BOB = (
    Key("a key of sixteen bytes", "alice", Role.OPERATOR),
    Key("another of sixteen", "bob", Role.OPERATOR),
)
"""Two people at the instrument."""

SERVER = Key("that of the server itself", "server", Role.ADMIN)


def person(key: Key, folder: Path) -> str:
    """A keyring file of one person's."""
    path = folder / f"{key.name}.toml"
    path.write_text(
        f'active = "{key.name}"\n[keys.{key.name}]\nsecret = "{key.secret.decode()}"\nrole = "operator"\n'
    )
    path.chmod(0o600)
    return str(path)


@contextlib.contextmanager
def ramping(supply: Supply) -> Iterator[str]:
    """Where a ramp runs that Alice asked for."""
    with (
        Server(supply, protocol=Protocol(keyring=Keyring([ALICE, BOB, SERVER], SERVER))) as server,
        Proxy(server.rep_endpoint, protocol=Protocol(keyring=Keyring([ALICE]))) as psu,
    ):
        psu.ramp.future()
        assert supply.running.wait(TIMEOUT)
        yield server.rep_endpoint
        supply.opened.set()


def test_running_names_the_key_that_asked(supply: Supply, tmp_path: Path) -> None:
    with ramping(supply) as target:
        rows = shell("running", target, "--json", PZC_KEYRING=person(BOB, tmp_path)).rows
    assert [row["caller"] for row in rows] == ["alice"]


@pytest.mark.parametrize("everybody", [False, True])
def test_the_calls_of_others_take_an_admin_key(supply: Supply, tmp_path: Path, everybody: bool) -> None:
    ring = person(BOB, tmp_path)
    with ramping(supply) as target:
        which = (
            "--everybody" if everybody else shell("running", target, "--json", PZC_KEYRING=ring).rows[0]["id"]
        )
        outcome = shell("cancel", target, which, PZC_KEYRING=ring)
        assert not supply.ended.is_set()
    assert outcome.status == 1
    assert "RoleRefused" in outcome.err


def test_cancel_leaves_the_calls_of_other_keys(supply: Supply, tmp_path: Path) -> None:
    with ramping(supply) as target:
        outcome = shell("cancel", target, "--json", PZC_KEYRING=person(BOB, tmp_path))
        assert not supply.ended.is_set()
    assert outcome.json == {"cancelled": 0, "running": []}
