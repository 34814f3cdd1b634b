"""``pzc keygen`` and ``pzc version``, in this process."""

from __future__ import annotations

import json
import re
import string

import pytest

import pzc
from pzc import Key, Keyring, Role
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


def test_the_version_is_the_package_version() -> None:
    assert _run("version").startswith(f"pzc {pzc.__version__} ")


def test_the_version_says_which_lane_calls_within_the_host_take() -> None:
    assert re.search(r" lane (compiled, with libcrypto|plain Python: )", _run("version"))


def test_versions_as_json() -> None:
    assert json.loads(_run("version", "--json"))["pzc"] == pzc.__version__
