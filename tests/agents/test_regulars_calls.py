from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pzc import Protocol, Server

from tests.agents.regular import (
    OTHER,
    Bench,
    Client,
    bench,
    client,
    make_quick,
    refused,
    served,
    server,
)
from tests.contract.rigs.calling import TIMEOUT, in_thread

FIXTURES = (bench, client, served, server)


@pytest.mark.parametrize("content", ["ping", (np.arange(3), 1, 2), ("PSMessage", 1, 2), 7])
def test_other_contents_go_on_as_verified(client: Client, content: Any, served: list[bool]) -> None:
    make_quick(client, served)
    assert client.ask(content) is not None
    assert client.ask()[1] == "return"


def test_a_result_that_cannot_be_written_is_an_error_of_that_call_only(
    client: Client, served: list[bool]
) -> None:
    def bad(much: bool) -> Any:
        return client.ask(("PSMessage", "exec", {"name": "bad", "method": "__call__", "args": (much,)}))

    for _ in range(1000):
        assert bad(False)[1] == "return"
        if served and served[-1]:
            break
    assert refused(bad(True)) == "RemoteProtocolError"
    assert client.ask()[1] == "return"
    answering = client.server._answering
    assert client.server.loop.run(lambda: (len(answering.execution.calls), answering.lane.running)) == (0, 0)


def answers_ping(server: Server) -> bool:
    other = Client(server, OTHER)
    try:
        return other.ask("ping") == "pong"
    finally:
        other.close()


def test_what_has_not_proved_quick_runs_outside_of_the_io_thread(client: Client, bench: Bench) -> None:
    assert client.ask()[1] == "return"
    wait = ("PSMessage", "exec", {"name": "wait", "method": "__call__"})
    thread, outcome = in_thread(lambda: client.ask(wait))
    assert bench.entered.wait(TIMEOUT)
    assert client.server.loop.run(threading.current_thread) not in bench.ran_in
    assert answers_ping(client.server)
    bench.opened.set()
    thread.join(TIMEOUT)
    assert outcome[0][1] == "return"


def test_a_call_that_turns_slow_for_once_delays_nobody_elses_ping(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    make_quick(client, served)
    bench.slow = True
    thread, outcome = in_thread(client.ask)
    assert bench.entered.wait(TIMEOUT)
    assert answers_ping(client.server)
    assert client.server.loop.run(threading.current_thread) is not bench.ran_in[-1]
    bench.slow = False
    bench.opened.set()
    thread.join(TIMEOUT)
    assert outcome[0][1] == "return"
    assert client.ask()[1] == "return"


def test_a_running_call_of_a_short_cut_is_found_and_told_that_it_is_cancelled(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    make_quick(client, served)
    bench.slow = True
    frames = client.frames()
    thread, _ = in_thread(lambda: client.send(frames))
    assert bench.entered.wait(TIMEOUT)
    other = Client(client.server)
    assert other.ask({"pzc": "cancel", "id": frames[3].decode()})["state"] == "told"
    other.close()
    bench.opened.set()
    thread.join(TIMEOUT)


def test_the_answer_of_a_short_cut_is_kept(client: Client, served: list[bool]) -> None:
    make_quick(client, served)
    frames = client.frames()
    answer = client.send(frames)
    assert served[-1]
    assert tuple(client.ask({"pzc": "future", "id": frames[3].decode()})) == tuple(answer)


def test_unsigned_clients_have_short_cuts_too(bench: Bench, served: list[bool]) -> None:
    with Server(bench, protocol=Protocol("")) as server:
        client = Client(server, key="")
        make_quick(client, served)
        assert refused(client.send(client.frames(receiver=OTHER))) == "SignatureError"
        client.close()
