"""The audit log of a server: who did what and when, in a file and as a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, CallTimeout, ConfigError, Protocol, Proxy, Server, batch, block, running

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, run_in_fork, until
from tests.contract.rigs.supply import Supply, held

CALLS = "pzc/calls"
"""The topic of its lines."""


class Adding:
    """Has a secret and a sum."""

    def __init__(self) -> None:
        self.password = ""

    def add(self, a: int, b: int) -> int:
        return a + b

    def log_in(self, user: str, *, token: str) -> str:
        if user == "nobody":
            raise PermissionError("who is that?")
        return user


@contextmanager
def audited(path: Path) -> Iterator[tuple[Server, Proxy]]:
    """A server with a log, and a proxy of it."""
    with (
        Server(Adding(), protocol=Protocol(KEY), audit=str(path)) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy,
    ):
        yield server, proxy


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Everything in the file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def calls_in(path: Path) -> list[dict[str, Any]]:
    """What was called or set, as the file tells it."""
    return [line for line in lines_of(path) if line.get("action") in ("exec", "setattr")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "psu.audit.jsonl"


def test_a_call_is_a_line_that_says_who_did_what_with_which_outcome(path: Path) -> None:
    with audited(path) as (_, proxy):
        proxy.add(1, b=2)
        with pytest.raises(PermissionError):
            proxy.log_in("nobody", token="hunter2")
    done, failed = calls_in(path)
    assert list(done) == [
        "time", "at", "call_id", "key", "agent", "address", "action", "member", "args", "kwargs", "outcome",
        "error", "duration_ms",
    ]  # fmt: skip
    assert (done["action"], done["member"], done["args"], done["kwargs"]) == ("exec", "add", [1], {"b": 2})
    assert (done["outcome"], done["error"]) == ("ok", "")
    assert failed["outcome"] != "ok"
    assert "who is that?" in failed["error"]


def test_a_call_with_line_separators_in_its_arguments_is_one_line(path: Path) -> None:
    with audited(path) as (_, proxy):
        proxy.log_in("two\u2028lines\x85of\x9bone", token="")
    assert [json.loads(line)["member"] for line in path.read_text("utf-8").splitlines() if "two" in line] == [
        "log_in"
    ]


def test_each_call_of_a_batch_is_a_line(path: Path) -> None:
    with audited(path) as (_, proxy):
        together = batch(proxy)
        together.add(1, b=2)
        together.password = "hunter2"
        together.log_in("nobody", token="hunter2")
        together.add(3, 4)
        with pytest.raises(PermissionError), together:
            pass
    told = [(line["action"], line["member"], line["args"], line["outcome"]) for line in calls_in(path)]
    assert told == [
        ("exec", "add", [1], "ok"), ("setattr", "password", ["***"], "ok"), ("exec", "log_in", ["nobody"], "raised"),
    ]  # fmt: skip
    assert len({line["call_id"] for line in lines_of(path) if line.get("action") in ("exec", "batch")}) == 1


def test_a_secret_is_nowhere_in_the_file(path: Path) -> None:
    with audited(path) as (_, proxy):
        proxy.log_in("bob", token="hunter2")
        proxy.password = "hunter2"
    assert len(calls_in(path)) == 2
    assert b"***" in path.read_bytes()
    assert b"hunter2" not in path.read_bytes()


def test_the_file_is_readable_by_its_owner_only(path: Path) -> None:
    with audited(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_forked_child_writes_nothing(path: Path) -> None:
    with audited(path) as (server, proxy):
        proxy.add(1, 1)
        until(lambda: len(calls_in(path)) == 1)
        assert run_in_fork(server.stop) == 0
        proxy.add(2, 2)
    assert [line["args"] for line in calls_in(path)] == [[1, 1], [2, 2]]


@pytest.mark.parametrize("name", ["missing/log", ".", "no\0name"])
def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name a file that this user may write"):
        Server(Adding(), audit=f"{tmp_path}/{name}")


def test_a_restart_continues_the_file(path: Path) -> None:
    for number in (1, 2):
        with audited(path) as (_, proxy):
            proxy.add(number, 0)
    assert [line["args"] for line in calls_in(path)] == [[1, 0], [2, 0]]


def test_a_reader_that_lets_publications_wait_keeps_no_line_from_the_file(path: Path) -> None:
    with audited(path) as (server, proxy), Agent(protocol=Protocol(KEY)) as reader:
        waits = reader.subscribe(server.rep_endpoint, CALLS, policy=block(10 * TIMEOUT, slots=1))
        for number in range(5):
            assert proxy.add(number, 1) == number + 1
            until(lambda expected=number + 1: len(calls_in(path)) >= expected)
        assert waits.received == 0


def test_readers_get_the_lines_of_the_file_in_order(path: Path) -> None:
    with audited(path) as (server, proxy), Agent(protocol=Protocol(KEY)) as reader:
        subscription = reader.subscribe(server.rep_endpoint, CALLS)
        for number in range(5):
            proxy.add(number, 1)
        got: list[dict[str, Any]] = []
        while not got or got[-1].get("args") != [4, 1]:
            got.append(subscription.recv(TIMEOUT).content)
        assert [line["at"] for line in lines_of(path)[-len(got) :]] == [line["at"] for line in got]


def test_a_call_that_never_got_its_turn_is_a_line(path: Path) -> None:
    supply = Supply()
    with held(supply, audit=path) as psu:
        psu.hold.future()
        assert supply.running.wait(TIMEOUT)
        waiting = psu.note.future("cancelled")
        until(lambda: len(running(psu)) == 2)
        waiting.cancel()
        until(lambda: len(running(psu)) == 1)
        with pytest.raises(CallTimeout):
            psu.note.options(timeout=0.2)("late")
        until(lambda: len(calls_in(path)) == 2)
    told = [(line["member"], line["args"], line["outcome"]) for line in calls_in(path)]
    assert told == [("note", ["cancelled"], "cancelled"), ("note", ["late"], "refused"), ("hold", [], "ok")]
