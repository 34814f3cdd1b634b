"""What agents do where no thread can be started: they say what to do, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pzc
from pzc import (
    Agent,
    BindError,
    LocalLimit,
    Proxy,
    Refused,
    RemoteProtocolError,
    Server,
    block,
    urgent,
)
from pzc.agents.client.awaitable.threads import in_thread

from tests.contract.rigs.pairs import pair
from tests.contract.rigs.peers import TIMEOUT


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Beginnings of the names of threads that cannot be started."""
    start, names = threading.Thread.start, list[str]()

    def sometimes(self: threading.Thread) -> None:
        if self.name.startswith(tuple(names)):
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    return names


@pytest.mark.parametrize("thread", ["pzc-io", "pzc-notify"])
def test_what_has_no_thread_to_read_with_gives_back_what_it_had(scarce: list[str], thread: str) -> None:
    scarce.append(thread)
    with pytest.raises(BindError, match="ulimit -u"), pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", policy=block())


def test_a_server_without_a_thread_for_its_audit_log_closes_the_log_and_says_so(
    scarce: list[str], tmp_path: Path
) -> None:
    scarce.append("pzc-audit")
    with pytest.raises(BindError, match="ulimit -u"):
        Server(object(), audit=tmp_path / "log", discovery=False)


class Abrupt:
    """A value, a plain method, one that runs at once, and one that is awaited."""

    voltage = 1.0

    def plain(self) -> str:
        """In its turn."""
        return "done"

    @urgent
    def at_once(self) -> str:
        """Beside whatever runs."""
        return "done"

    async def awaited(self) -> str:
        """In an event loop."""
        return "done"


@contextmanager
def served(thing: object) -> Iterator[Any]:
    """A proxy of something that is served."""
    with Server(thing, discovery=False) as server:
        proxy = Proxy(server.rep_endpoint, timeout=TIMEOUT)
        try:
            yield proxy
        finally:
            pzc.close(proxy)


def test_a_server_without_a_thread_to_poll_with_says_what_to_do(scarce: list[str]) -> None:
    scarce.append("pzc-poll")
    with pytest.raises(LocalLimit, match="ulimit -u"):
        Server(Abrupt(), poll={"voltage": 1.0}, discovery=False)


def test_an_async_method_for_which_there_is_no_thread_is_refused_with_what_to_do(scarce: list[str]) -> None:
    with served(Abrupt()) as proxy:
        scarce.append("pzc-async")
        with pytest.raises(Refused, match="ulimit -u"):
            proxy.awaited()


@pytest.mark.parametrize(
    ("method", "thread"), [("plain", "pzc-lane"), ("at_once", "pzc-urgent"), ("awaited", "pzc-async")]
)
def test_a_call_for_which_there_was_no_thread_is_refused_and_the_next_one_runs(
    scarce: list[str], method: str, thread: str
) -> None:
    message = "PSMessage", "exec", {"name": method, "args": (), "kwargs": {}}
    with Server(Abrupt(), discovery=False) as server, Agent(discovery=False) as agent:

        def ask() -> Any:
            return agent.exchange(server.rep_endpoint, message, TIMEOUT, transport="tcp").content

        scarce.append(thread)
        with contextlib.suppress(Refused, RemoteProtocolError):
            assert ask()[1] == "raise"
        assert agent.request(server.rep_endpoint, {"pzc": "running"}, TIMEOUT)["running"] == []
        scarce.clear()
        assert ask() == ("PSMessage", "return", "done")


def test_what_is_awaited_without_a_thread_for_it_says_what_to_do(scarce: list[str]) -> None:
    scarce.append("pzc-aio")
    with pytest.raises(LocalLimit, match="ulimit -u"):
        asyncio.run(in_thread(bool))


def test_a_process_whose_end_no_thread_could_wait_for_is_ended(scarce: list[str]) -> None:
    scarce.append("pzc-Fraction")
    with pytest.raises(LocalLimit, match="ulimit -u"):
        Server.serve_in_process(Fraction)
    assert multiprocessing.active_children() == []
