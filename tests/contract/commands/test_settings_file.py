"""Which settings files are believed, and what a file with a key must be like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pzc.testing import Result, command

from tests.contract.rigs.console import KEY
from tests.contract.rigs.labs import SUPPLY

pytestmark = pytest.mark.needs("posix")
STRANGER = 65534


def run(folder: Path, *arguments: str, **variables: str | None) -> Result:
    environment = {"HOME": str(folder), "XDG_CONFIG_HOME": None, "PZC_DISCOVERY_IP": "off", **variables}
    return command(*(arguments or ("get", "nothing.here")), environment=environment, cwd=folder)


def settings(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives a file away")
@pytest.mark.parametrize("place", ["pzc.toml", ".config/pzc/pzc.toml"])
def test_a_file_of_another_user_is_refused_and_its_owner_named(tmp_path: Path, place: str) -> None:
    file = settings(tmp_path / place, "timeout = 3")
    os.chown(file, STRANGER, STRANGER)
    assert f"settings file {file} belongs to user {STRANGER}" in run(tmp_path).err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives a file away")
def test_a_link_of_another_user_to_a_file_of_this_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pzc.toml").symlink_to(settings(tmp_path / "own.toml", "timeout = 3"))
    os.chown(tmp_path / "pzc.toml", STRANGER, STRANGER, follow_symlinks=False)
    assert f"belongs to user {STRANGER}" in run(tmp_path).err


@pytest.mark.parametrize("mode", [0o620, 0o602])
@pytest.mark.parametrize("place", ["pzc.toml", ".config/pzc/pzc.toml"])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, place: str, mode: int) -> None:
    settings(tmp_path / place, "timeout = 3", mode)
    assert "so others may change it: chmod go-w" in run(tmp_path).err


def test_the_doctor_shows_a_file_that_is_refused(tmp_path: Path) -> None:
    settings(tmp_path / "pzc.toml", "timeout = 3", 0o666)
    findings = run(tmp_path, "doctor", "--json").json["findings"]
    assert [each["status"] for each in findings if each["check"] == "settings file"] == ["failed"]


def test_an_own_file_in_a_folder_of_everybody_is_read(tmp_path: Path) -> None:
    settings(tmp_path / "pzc.toml", "timeout = 'soon'", 0o644)
    tmp_path.chmod(0o1777)
    assert "timeout = 'soon' cannot be used" in run(tmp_path).err


@pytest.mark.parametrize(
    "line",
    [
        f"key = '{KEY}'", "key_file = 'key'", "keyring = 'ring'", "accept = 'PZC00'",
        "peers = 'nothing=tcp://127.0.0.1:1'", "registry = 'tcp://127.0.0.1:1'", "relay = '127.0.0.1'",
    ],
)  # fmt: skip
def test_a_working_directory_does_not_say_who_is_believed(tmp_path: Path, line: str) -> None:
    file = settings(tmp_path / "pzc.toml", line)
    told = f"{line.partition(' ')[0]} is not taken from a working directory"
    assert told in run(tmp_path).err
    assert told not in run(tmp_path, PZC_CONFIG=str(file)).err


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_settings_file_with_a_key_is_of_this_user_alone(tmp_path: Path, mode: int) -> None:
    file = settings(tmp_path / "lab.toml", f"key = '{KEY}'", mode)
    assert f"settings file {file} has mode {mode:o}" in run(tmp_path, PZC_CONFIG=str(file)).err


def test_a_lab_whose_keyring_others_can_read_is_refused_before_it_starts(tmp_path: Path) -> None:
    ring = settings(tmp_path / "lab.keyring", f"[keys.lab]\nsecret = '{KEY}'", 0o644)
    settings(tmp_path / "lab.toml", f"{SUPPLY}[lab]\nkeyring = 'lab.keyring'")
    outcome = run(tmp_path, "up")
    assert (outcome.status, f"chmod 600 {ring}" in outcome.err) == (1, True)
