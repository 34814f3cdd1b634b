"""Where files of a user are."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from pzc import ConfigError
from pzc.pipeline.storage import user_folder

pytestmark = pytest.mark.needs("posix")

VARIABLE = "XDG_STATE_HOME"


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(ConfigError, match=f"set HOME or {VARIABLE}"):
        user_folder(VARIABLE, ".local", "state")


@pytest.mark.parametrize(
    ("given", "found"), [("/a/b", "/a/b"), ("a/b", "/home/x/.local"), ("", "/home/x/.local")]
)
def test_a_variable_counts_when_it_names_a_whole_path(
    monkeypatch: pytest.MonkeyPatch, given: str, found: str
) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv(VARIABLE, given)
    assert user_folder(VARIABLE, ".local") == Path(found)
