"""Keys and files that others must not read: lines 4.19 and 4.20."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pzc import Agent, ConfigError, Key, Keyring, Protocol
from pzc.testing import Running, command

pytest.importorskip("pyarrow")

LARGE = 1 << 21
"""Bytes of a content that stands in a file of its own."""


def open_to_others(folder: Path) -> list[str]:
    """Everything below a folder, and itself, that group or others may touch."""
    found = [folder, *folder.rglob("*")]
    return [f"{path.name} {path.stat().st_mode:o}" for path in found if path.stat().st_mode & 0o077]


def test_everything_that_a_recorder_writes_is_its_owners_alone(tmp_path: Path) -> None:
    journal = tmp_path / "of the lab" / "journal"
    with Agent(name="source", discovery=False) as source:

        def record(running: Running) -> None:
            running.line()
            source.publish("v", 1)
            source.publish("frames", bytes(LARGE))

        outcome = command("record", source.rep_endpoint, "--journal", str(journal), meanwhile=record)
    assert outcome.status == 0, outcome.err
    assert list(journal.glob("*.parquet"))
    assert list(journal.glob("blobs/*/*"))
    assert open_to_others(tmp_path / "of the lab") == []
    assert stat.S_IMODE(journal.stat().st_mode) == 0o700


@pytest.mark.parametrize("length", [1, 15])
def test_a_key_that_can_be_guessed_is_refused(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text("k" * length, encoding="utf-8")
    path.chmod(0o600)
    for name, value in (("PZC_KEY", "k" * length), ("PZC_KEY_FILE", str(path))):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            with pytest.raises(ConfigError, match="make one with pzc keygen") as caught:
                Protocol()
            assert "kkk" not in str(caught.value)
            patch.setenv("PZC_ACCEPT", "PZC00")  # originals may have it
            assert Protocol().signed


@pytest.mark.parametrize("length", [1, 15])
def test_a_key_in_code_that_can_be_guessed_is_refused_as_well(length: int) -> None:
    secret = "k" * length
    for make in (lambda: Protocol(secret), lambda: Protocol(keyring=Keyring([Key(secret, "alice")]))):
        with pytest.raises(ConfigError, match=r"has \d+ bytes .* pzc keygen") as caught:
            make()
        assert "kkk" not in str(caught.value)
    assert Protocol(secret, accept=["PZC00"]).signed
    assert Protocol("k" * 16).signed


def test_a_keyring_with_a_key_that_can_be_guessed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keyring.toml"
    path.write_text('[keys.alice]\nsecret = "fifteen bytes.."\n', encoding="utf-8")
    path.chmod(0o600)
    monkeypatch.setenv("PZC_KEYRING", str(path))
    with pytest.raises(ConfigError, match=r"the key alice has 15 bytes .* pzc keygen"):
        Protocol()


@pytest.mark.parametrize("name", ["PZC_KEY_FILE", "PZC_KEYRING"])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_of_keys_that_others_may_touch_is_refused(
    name: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, secret = tmp_path / "keys", "a key that is long enough"
    path.write_text(
        secret if name == "PZC_KEY_FILE" else f'[keys.a]\nsecret = "{secret}"\n', encoding="utf-8"
    )
    path.chmod(mode)
    monkeypatch.setenv(name, str(path))
    with pytest.raises(ConfigError, match=f"mode {mode:o}.*chmod 600 {path}"):
        Protocol()
    path.chmod(0o600)
    assert Protocol().signed
