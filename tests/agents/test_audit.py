from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pzc import ConfigError
from pzc.agents.server.audit import Audit
from pzc.agents.server.audit_line import LONGEST, MOST, masked_arguments, masked_keywords, shorten
from pzc.testing import FakeClock

from tests.contract.rigs.calling import until
from tests.contract.rigs.peers import run_threads
from tests.effort import many

TIMEOUT = 20.0


def numbers(lines: list[dict[str, Any]]) -> list[int]:
    return [line["args"][0] for line in lines if "args" in line]


def lost(lines: list[dict[str, Any]]) -> int:
    return sum(line.get("lost", 0) for line in lines)


def run(code: str, *arguments: object) -> str:
    """What a process of its own prints; it knows the names of the tests of the log."""
    command = [sys.executable, "-c", f"from tests.agents.test_audit import *\n{code}", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout


CALL: dict[str, Any] = {
    "at": 1767323045.678, "call_id": "urn:uuid:019b7c5e", "member": "ramp", "args": [5.0], "kwargs": {"step": 0.5},
    "outcome": "ok",
}  # fmt: skip


def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return CALL | {"args": masked_arguments("ramp", args), "kwargs": masked_keywords(kwargs)}


def read(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def write(path: Path, *calls: dict[str, Any], **options: Any) -> Audit:
    """A log that has recorded some calls and is closed."""
    with closing(Audit(path, **options)) as audit:
        for each in calls:
            audit.put(each)
    return audit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "psu.audit.jsonl"


class Broken:
    def __repr__(self) -> str:
        raise OSError("the instrument is switched off")


def test_a_call_is_a_line_that_begins_with_its_time(path: Path) -> None:
    write(path, CALL)
    assert path.read_text(encoding="utf-8") == (
        '{"time":"2026-01-02T03:04:05.678Z","at":1767323045.678,"call_id":"urn:uuid:019b7c5e","member":"ramp",'
        '"args":[5.0],"kwargs":{"step":0.5},"outcome":"ok"}\n'
    )


def test_an_event_is_a_line_with_its_name_and_fields(path: Path) -> None:
    with closing(Audit(path)) as audit:
        audit.event("lock", key="alice", until=5.0, token="hunter2")
    (line,) = read(path)
    assert list(line.items())[2:] == [("event", "lock"), ("key", "alice"), ("until", 5.0), ("token", "***")]


def test_a_scalar_stays_a_scalar() -> None:
    scalars = [1, 2.5, True, None, "on", np.float64(2.5), np.int32(7)]
    assert msgspec.json.encode(list(map(shorten, scalars))) == b'[1,2.5,true,null,"on",2.5,7]'


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
SHOWN: dict[str, Any] = {
    "x" * 200 + "… (201 characters)": "x" * 201, "nan": float("nan"), "-inf": float("-inf"), str(2**99): 2**99,
    "<int of 99999 bits>": 2**99_998, "<array <f8 (2048, 2048)>": np.zeros((2048, 2048)), "b'123'": b"123",
    "[1, 'two', b'3.3']": [1, "two", b"3.3"], "[[[[...]]]]": ENDLESS, "(1, 2)": (1, 2), "{1}": {1},
    "[0, 1, 2, 3, 4, 5, 6, 7, ...]": list(range(10**5)), "{'a': [1, [[2]]]}": {"a": [1, [[2]]]},
    "{'user': 1, 'key': '***'}": {"user": 1, "key": 2}, "<Broken>": Broken(), "[<Broken>]": [Broken()],
}  # fmt: skip


def test_a_value_is_shortened() -> None:
    assert [shorten(value) for value in SHOWN.values()] == list(SHOWN)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@settings(max_examples=many(30))
@given(st.lists(ANYTHING, max_size=20), st.dictionaries(st.text(), ANYTHING, max_size=20), st.text())
def test_any_arguments_make_one_line_of_bounded_length(
    tmp_path_factory: pytest.TempPathFactory, args: list[Any], kwargs: dict[str, Any], error: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    write(path, call(*args) | {"kwargs": masked_keywords(kwargs), "error": shorten(error)})
    (line,) = read(path)
    assert max(len(line["args"]), len(line["kwargs"])) <= MOST + 1
    for shown in (line["error"], *line["args"], *line["kwargs"], *line["kwargs"].values()):
        assert not isinstance(shown, str) or len(shown) < LONGEST + 30


def test_text_that_is_no_unicode_is_written_all_the_same(path: Path) -> None:
    write(path, call("half a pair: \ud800", 1))
    assert read(path)[0]["args"] == ["half a pair: \ud800", 1]


KEYWORDS = {"password": "hunter2", "API_Token": "hunter2", "secret_1": "hunter2", "key" * 100: "hunter2"}
SECRETIVE = [
    masked_keywords(KEYWORDS), masked_arguments("log_in", [{"Password": "hunter2"}]),
    masked_arguments("password", ["hunter2"]), masked_arguments("settings.__setitem__", ["password", "hunter2"]),
]  # fmt: skip


def test_a_secret_is_masked() -> None:
    assert all("***" in str(each) and "hunter2" not in str(each) for each in SECRETIVE)


def test_records_of_8_threads_are_all_there_and_in_order_per_thread(path: Path) -> None:
    def work(name: int) -> None:
        for number in range(500):
            audit.put(call(number, name))

    with closing(Audit(path, bound=4000)) as audit:
        run_threads(*(partial(work, name) for name in range(8)))
        audit.close(TIMEOUT)
    assert (audit.written, audit.dropped, audit.errors) == (4000, 0, 0)
    lines = read(path)
    for name in range(8):
        assert numbers([line for line in lines if line["args"][1] == name]) == list(range(500))


def test_a_full_queue_tells_in_the_file_where_and_how_many_lines_are_lost(path: Path) -> None:
    audit = write(path, *(call(number) for number in range(1, 20_001)), bound=10)
    assert audit.written + audit.dropped == 20_000 > audit.written
    seen = 0
    for line in read(path):
        seen += line.get("lost", 1)
        assert line.get("args", [seen]) == [seen]
    assert seen == 20_000


def test_received_and_lost_make_recorded_from_many_threads(path: Path) -> None:
    with closing(Audit(path, bound=50)) as audit:
        run_threads(*[lambda: [audit.put(call(1)) for _ in range(2000)]] * 8)
    assert audit.dropped == lost(read(path)) > 0
    assert len(numbers(read(path))) + audit.dropped == 16_000


def test_a_line_is_written_without_waiting_for_the_next_or_for_the_end(path: Path) -> None:
    with closing(Audit(path)) as audit:
        for number in (1, 2):
            audit.put(call(number))
            until(lambda number=number: audit.written == number)
            assert len(read(path)) == number


def test_after_close_the_thread_is_gone_and_records_are_counted(path: Path) -> None:
    audit = Audit(path)
    assert "pzc-audit" in threads()
    audit.close()
    assert "pzc-audit" not in threads()
    audit.put(CALL)
    audit.event("stop")
    assert (audit.dropped, audit.written, read(path)) == (2, 0, [])


def test_close_leaves_a_file_behind_that_hangs(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    audit = Audit(path)
    for _ in range(2000):
        audit.put(CALL)
    audit.close(timeout=0.5)
    assert "still hangs" in caplog.text
    while "pzc-audit" in threads():
        if select.select([end], [], [], 0.1)[0]:
            os.read(end, 1 << 20)
    os.close(end)


def test_a_program_that_ends_without_stopping_its_server_loses_no_line(path: Path) -> None:
    run("import pzc; server = pzc.Server(object(), audit=sys.argv[1]); server._audit.put(CALL)", path)
    assert [line.get("event", "call") for line in read(path)][-2:] == ["call", "stopped"]


@pytest.mark.parametrize("there", [b'{"event":"start"}\n', b'{"event":"st'])
def test_a_restart_continues_the_file_in_a_new_line(path: Path, there: bytes) -> None:
    path.write_bytes(there)
    write(path, CALL)
    assert path.read_bytes().startswith(there.rstrip() + b'\n{"time":"2026-01-02T03:04:05.678Z",')


GONE = ["FileNotFoundError: No such file or directory", "NotADirectoryError: Not a directory"]


@pytest.mark.parametrize("reason", GONE)
def test_lines_of_a_time_without_a_folder_are_told_when_it_is_back(tmp_path: Path, reason: str) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with closing(Audit(folder / "log")) as audit:
        aside = folder.rename(tmp_path / "aside")
        if reason.startswith("NotADirectory"):
            folder.touch()
        for number in (1, 2):
            audit.put(call(number))
            until(lambda number=number: audit.dropped == number)
        folder.unlink(missing_ok=True)
        aside.rename(folder)
        audit.put(call(3))
    assert (audit.written, audit.dropped, audit.errors) == (1, 2, 2)
    told, line = read(folder / "log")
    assert list(told.items())[2:] == [("lost", 2), ("reason", reason)]
    assert line["args"] == [3]


def test_a_full_disk_is_survived_and_told(path: Path) -> None:
    path.symlink_to("/dev/full")
    with closing(Audit(path)) as audit:
        for number in range(3):
            audit.put(call(number))
        until(lambda: audit.dropped == 3)
        path.unlink()
    assert list(read(path)[0].values())[2:] == [3, "OSError: No space left on device"]


def test_a_full_disk_is_logged_once_per_minute(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.symlink_to("/dev/full")
    clock = FakeClock()
    with closing(Audit(path, clock=clock)) as audit:
        for number, seconds in enumerate((0, 1, 58, 1, 1), 1):
            clock.advance(seconds)
            audit.put(CALL)
            until(lambda number=number: audit.errors == number)
    told = [message[-40:] for message in caplog.messages if "No space left" in message]
    assert told == [f"device; calls go on, {n} lines are lost so far"[-40:] for n in (1, 4)]
    assert "the last 5 lines are lost" in caplog.text


FILLING = """
import resource
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
audit = Audit(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
for number in range(20):
    audit.put(call(number))
until(lambda: audit.errors)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
audit.put(call(20))
audit.close()
print(audit.written, audit.dropped)
"""


def test_a_disk_that_fills_up_within_a_line_loses_exactly_what_is_told(path: Path) -> None:
    written, dropped = map(int, run(FILLING, path).split())
    lines = path.read_bytes().splitlines()
    (broken,) = [line for line in lines if not line.endswith(b"}")]
    whole = [json.loads(line) for line in lines if line != broken]
    assert numbers(whole) == [*range(written - 1), 20]
    assert lost(whole) == dropped == 21 - written > 0


@pytest.mark.parametrize("options", [{"keep": 0}, {"max_bytes": -1}])
def test_a_number_that_cannot_be_used_is_an_error_at_once(path: Path, options: Any) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Audit(path, **options)
