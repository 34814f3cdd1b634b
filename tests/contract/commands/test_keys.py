"""``pzc keygen`` and ``pzc version``, in this process."""

from __future__ import annotations

import json
import os
import re
import string
from pathlib import Path

import pytest

import pzc
from pzc import Key, Keyring, Protocol, Role, Server
from pzc.testing import command


def _run(*arguments: str) -> str:
    outcome = command(*arguments)
    assert outcome.status == 0
    return outcome.out


def test_a_key_is_256_bits_in_hexadecimal() -> None:
    secret = _run("keygen").removesuffix("\n")
    assert len(secret) == 64
    assert set(secret) <= set(string.hexdigits)


def test_no_key_comes_twice() -> None:
    assert _run("keygen") != _run("keygen")


@pytest.mark.parametrize("name", ["alice", "a b", 'quo"te\\', "ü\N{GRINNING FACE}", "lab.psu", "[x]"])
@pytest.mark.parametrize("role", list(Role))
def test_an_entry_is_read_back_as_the_key(name: str, role: Role) -> None:
    text = _run("keygen", "--keyring", name, "--role", role.name.lower())
    key = Keyring.parse(text).active
    assert (key.name, key.role, len(key.secret)) == (name, role, 64)


def test_entries_can_be_appended_to_one_file() -> None:
    both = _run("keygen", "--keyring", "alice") + _run("keygen", "--keyring", "bob")
    ring = Keyring.parse(f'active = "bob"\n{both}')
    assert sorted((key.name, key.role) for key in ring) == [("alice", Role.OPERATOR), ("bob", Role.OPERATOR)]


def test_json_tells_the_key_id_as_well() -> None:
    told = json.loads(_run("keygen", "--json"))
    assert told == {"secret": told["secret"], "key_id": Key(told["secret"]).key_id}


@pytest.mark.parametrize("arguments", [("--role", "admin"), ("--keyring", ""), ("--keyring", "two\nlines")])
def test_an_entry_that_cannot_be_written_is_status_2(arguments: tuple[str, ...]) -> None:
    outcome = command("keygen", *arguments)
    assert (outcome.status, outcome.out) == (2, "")


class Supply:
    """What the keys of a lab are for."""

    voltage = 0.0


@pytest.mark.parametrize(
    ("who", "member", "status", "said"),
    [
        ("alice", "get psu.voltage", 0, ""),
        ("bob", "set psu.voltage 1", 0, ""),
        ("bob", "stop psu", 1, "key bob is operator; this needs admin"),
        ("wall", "get psu.voltage", 0, ""),
        ("wall", "set psu.voltage 1", 1, "key wall is observer; this needs operator"),
        ("server", "set psu.voltage 1", 0, ""),
    ],
)
def test_the_keyrings_of_a_lab_let_each_person_find_servers_and_do_what_is_theirs(
    tmp_path: Path, who: str, member: str, status: int, said: str
) -> None:
    _run("keygen", "--lab", str(tmp_path), "--operators", "alice,bob", "--observers", "wall")
    ring = Keyring.load(tmp_path / "server.keyring")
    with Server(Supply(), name="psu", protocol=Protocol(keyring=ring)):
        outcome = command(*member.split(), environment={"PZC_KEYRING": str(tmp_path / f"{who}.keyring")})
    assert (outcome.status, said in outcome.err) == (status, True)


def test_the_keyrings_of_a_lab_are_for_their_owner_only_and_never_written_over(tmp_path: Path) -> None:
    lab = tmp_path / "keys"
    written = _run("keygen", "--lab", str(lab), "--operators", "alice").splitlines()
    assert [Path(name).name for name in written] == ["server.keyring", "alice.keyring", "READ-ME.txt"]
    if os.name == "posix":
        assert {Path(name).stat().st_mode & 0o077 for name in (lab, *written)} == {0}
    before = (lab / "alice.keyring").read_text()
    outcome = command("keygen", "--lab", str(lab), "--operators", "alice,bob")
    assert (outcome.status, "is there already" in outcome.err) == (1, True)
    assert (lab / "alice.keyring").read_text() == before
    assert not (lab / "bob.keyring").exists()


@pytest.mark.needs("posix")
def test_keyrings_of_a_lab_that_a_full_disk_refuses_leave_nothing_in_the_way_of_others(
    tmp_path: Path,
) -> None:
    import resource

    asked = "keygen", "--lab", str(tmp_path), "--operators", "alice"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, hard))
    try:
        outcome = command(*asked)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (outcome.status, outcome.err.count("cannot be written")) == (1, 1)
    assert list(tmp_path.iterdir()) == []
    assert command(*asked).status == 0


def test_the_page_beside_the_keyrings_of_a_lab_tells_whose_each_is(tmp_path: Path) -> None:
    _run("keygen", "--lab", str(tmp_path), "--operators", "bob,alice", "--observers", "malice")
    page = (tmp_path / "READ-ME.txt").read_text().splitlines()
    for who in ("bob", "alice", "malice"):
        assert any(line.split()[:2] == [f"{who}.keyring", f"{who},"] for line in page), who
    assert "    export PZC_KEYRING=/path/to/bob.keyring" in page


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "--operators a --observers a",
        "--operators server",
        "--operators ../a",
        "--operators a --role admin",
    ],
)
def test_keyrings_of_a_lab_that_make_no_sense_are_status_2(tmp_path: Path, wrong: str) -> None:
    outcome = command("keygen", "--lab", str(tmp_path / "keys"), *wrong.split())
    assert (outcome.status, outcome.out, (tmp_path / "keys").exists()) == (2, "", False)


def test_the_version_is_the_package_version() -> None:
    assert _run("version").startswith(f"pzc {pzc.__version__} ")


def test_the_version_says_which_stream_calls_take() -> None:
    assert re.search(r" stream (compiled, with libcrypto|plain Python: )", _run("version"))


def test_versions_as_json() -> None:
    assert json.loads(_run("version", "--json"))["pzc"] == pzc.__version__
