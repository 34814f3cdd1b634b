from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pzc.protocol.errors import ConfigError
from pzc.transport.settings import KNOWN, RESERVED, Settings, load

SECRET = "topsecret"  # named, because a traceback shows the lines of this file


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("PZC_KEYS", "PZC_KEY"),
        ("PZC_TIMOUT", "PZC_TIMEOUT"),
        ("PZC_SERR", "PZC_SER"),
        ("PZC_PARTITON", "PZC_PARTITION"),
    ],
)
def test_a_misspelt_variable_is_told_with_what_was_meant(wrong: str, right: str) -> None:
    (line,) = Settings({wrong: "1"}, {}).complaints()
    assert line == f"environment variable {wrong} is not known and has no effect: did you mean {right}?"


@pytest.mark.parametrize(("wrong", "right"), [("timout", "timeout"), ("PZC_TIMEOUT", "timeout")])
def test_a_misspelt_key_of_the_file_is_told_with_what_was_meant(wrong: str, right: str) -> None:
    (line,) = Settings({}, {wrong: 3}, "lab.toml").complaints()
    assert line == f"lab.toml: {wrong} is not known and has no effect: did you mean {right}?"


def test_a_key_of_the_file_that_only_the_environment_has_is_told() -> None:
    (line,) = Settings({}, {"compiled": 0}, "lab.toml").complaints()
    assert line == "lab.toml: compiled has no effect: set PZC_COMPILED in the environment"


def test_a_table_that_was_removed_is_named_with_what_replaces_it() -> None:
    (line,) = Settings({}, {"topics": {"image": {"buffers": 3}}}, "lab.toml").complaints()
    assert line.startswith("lab.toml: topics has no effect: give the defaults of a topic to Agent.advertise")


@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_removed_suite_that_encrypted_is_refused(where: str) -> None:
    environ = {"PZC_SUITE": "aes256-gcm"} if where == "environment" else {}
    with pytest.raises(ConfigError, match="set PZC_SEAL=1"):
        Settings(environ, {} if environ else {"suite": "aes256-gcm"}, "lab.toml")


def test_a_variable_like_no_other_is_told_with_all_that_are_known() -> None:
    (line,) = Settings({"PZC_XYZZY123": "1"}, {}).complaints()
    assert all(name in line for name in KNOWN)


def test_known_reserved_and_foreign_names_are_no_misspellings() -> None:
    environ = dict.fromkeys(RESERVED, "x") | {"HOME": "/", "PZCKEY": "1", "pzc_key": "1"}
    assert not Settings(environ, {"partition": "lab"}).complaints()


def test_the_value_of_a_misspelt_variable_is_not_shown() -> None:
    assert SECRET not in Settings({"PZC_KEYY": "topsecret"}, {"kee": "topsecret"}).complaints()[0]


def test_each_misspelling_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lab.toml"
    path.write_text("timout = 3", encoding="utf-8")
    with caplog.at_level(logging.WARNING, "pzc.settings"):
        load({"PZC_CONFIG": str(path), "PZC_SEEL": "1"})
    assert [record.getMessage().split(" is not known")[0] for record in caplog.records] == [
        "environment variable PZC_SEEL",
        f"{path}: timout",
    ]
