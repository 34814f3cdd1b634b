"""``pzc keygen`` and ``pzc version``, in this process."""

from __future__ import annotations

import json
import string

import pytest

import pzc
from pzc.console.main import main
from pzc.protocol.keyring import Key, Keyring, Role


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_a_key_is_256_bits_in_hexadecimal(capsys: pytest.CaptureFixture[str]) -> None:
    secret = _run(capsys, "keygen").removesuffix("\n")
    assert len(secret) == 64
    assert set(secret) <= set(string.hexdigits)


def test_no_key_comes_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "keygen") != _run(capsys, "keygen")


@pytest.mark.parametrize("name", ["alice", "a b", 'quo"te\\', "ü\N{GRINNING FACE}", "lab.psu", "[x]"])
@pytest.mark.parametrize("role", list(Role))
def test_an_entry_is_read_back_as_the_key(name: str, role: Role, capsys: pytest.CaptureFixture[str]) -> None:
    text = _run(capsys, "keygen", "--keyring", name, "--role", role.name.lower())
    key = Keyring.parse(text).active
    assert (key.name, key.role, len(key.secret)) == (name, role, 64)


def test_entries_can_be_appended_to_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    both = _run(capsys, "keygen", "--keyring", "alice") + _run(capsys, "keygen", "--keyring", "bob")
    ring = Keyring.parse(f'active = "bob"\n{both}')
    assert sorted((key.name, key.role) for key in ring) == [("alice", Role.OPERATOR), ("bob", Role.OPERATOR)]


def test_json_tells_the_key_id_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(_run(capsys, "keygen", "--json"))
    assert told == {"secret": told["secret"], "key_id": Key(told["secret"]).key_id}


@pytest.mark.parametrize("arguments", [("--role", "admin"), ("--keyring", ""), ("--keyring", "two\nlines")])
def test_an_entry_that_cannot_be_written_is_status_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keygen", *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_the_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "version").startswith(f"pzc {pzc.__version__} ")


def test_versions_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(_run(capsys, "version", "--json"))["pzc"] == pzc.__version__
