"""Where files of a user are, and whose they are meanwhile."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from pzc import ConfigError
from pzc.pipeline.storage import Storage, lock_file, user_folder

from tests.contract.rigs.calling import run_in_fork

pytestmark = pytest.mark.needs("posix")

VARIABLE = "XDG_STATE_HOME"


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

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


def test_a_file_is_opened_for_writing_to_be_synchronised(tmp_path: Path) -> None:
    path, opened = tmp_path / "file", list[int]()
    path.write_bytes(b"kept")

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]) == str(path):
            opened.append(arguments[2])

    sys.addaudithook(watch)
    Storage().sync(path)
    Storage().sync(tmp_path)
    assert [flags & os.O_ACCMODE for flags in opened] == [os.O_RDWR]
    assert path.read_bytes() == b"kept"


def take_away_flock() -> None:
    """From here on this process is told that no file can be locked, as on some network file systems."""
    number = {"x86_64": 73, "aarch64": 32}[platform.machine()]
    steps = (
        (0x20, 0, 0, 0),
        (0x15, 0, 1, number),
        (0x06, 0, 0, 0x50000 | errno.ENOLCK),
        (0x06, 0, 0, 0x7FFF0000),
    )
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(held := ctypes.create_string_buffer(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges, which a filter needs
    assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
    del held


@pytest.mark.needs("fork")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="NOT TESTED: numbers of calls")
def test_a_file_system_without_locks_is_taken_for_no_other_process(tmp_path: Path) -> None:
    def look() -> None:
        take_away_flock()
        with pytest.raises(OSError, match="has no locks"):
            lock_file(tmp_path / "lock", "another process has it")

    assert run_in_fork(look) == 0
