"""What agents do where no thread can be started: nothing is lost or left behind, and it passes."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pzc
from pzc import Agent, BindError, LocalLimit, Protocol, Proxy, Refused, Server, block
from pzc.agents.client.awaitable.threads import in_thread
from pzc.agents.client.many import WORTH_IT
from pzc.transport.helpers import aside

from tests.agents.scarcity import Scarcity
from tests.contract.rigs.pairs import pair
from tests.contract.rigs.peers import KEY, TIMEOUT


@pytest.mark.parametrize("thread", ["pzc-io", "pzc-notify"])
def test_what_has_no_thread_to_read_with_gives_back_what_it_had(scarce: Scarcity, thread: str) -> None:
    scarce.append(thread)
    with pytest.raises(BindError, match="ulimit -u"), pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", policy=block())


def test_a_server_without_a_thread_for_its_audit_log_closes_the_log_and_says_so(
    scarce: Scarcity, tmp_path: Path
) -> None:
    scarce.append("pzc-audit")
    with pytest.raises(BindError, match="ulimit -u"):
        Server(object(), audit=tmp_path / "log", discovery=False)


def test_a_server_that_published_nothing_of_its_audit_log_needs_no_thread_to_stop(
    scarce: Scarcity, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(object(), audit=tmp_path / "log", discovery=False):
        scarce.append("pzc-calls")
    assert caplog.records == []


def test_a_subscription_to_a_pattern_joins_a_publisher_once_there_is_a_thread_to_read_with(
    scarce: Scarcity,
) -> None:
    with pair() as (publisher, reader):
        scarce.append("pzc-notify")
        reader.subscribe("publish*", "t", policy=block())
        assert scarce.refused.wait(TIMEOUT)
        scarce.clear()
        assert publisher.wait_for_subscribers("t", 1, TIMEOUT)


def test_a_watch_whose_callbacks_had_no_thread_calls_them_once_there_is_one(scarce: Scarcity) -> None:
    told = threading.Event()
    scarce.append("pzc-watch")
    protocol = Protocol(KEY)
    with pair(), pzc.watch(pattern="publisher", on_appear=lambda _: told.set(), protocol=protocol) as watch:
        assert watch.recv(TIMEOUT).entry.name == "/publisher"
        assert scarce.refused.wait(TIMEOUT)
        scarce.clear()
        assert told.wait(TIMEOUT)


def test_a_request_to_a_host_name_needs_no_thread_to_look_it_up(scarce: Scarcity) -> None:
    with Agent(discovery=False) as agent, Agent(discovery=False) as other:
        scarce.append("pzc-look-up")
        named = agent.rep_endpoint.replace("127.0.0.1", "localhost")
        assert other.request(named, "echo", TIMEOUT) == "echo"


def test_the_callback_of_a_future_that_had_no_thread_is_called_once_there_is_one(scarce: Scarcity) -> None:
    told = threading.Event()
    with Agent(discovery=False) as other:
        scarce.append("pzc-futures")
        other.loop.run(partial(other.client.call_back, lambda _: told.set(), Future()))
        assert scarce.refused.is_set()
        scarce.clear()
        assert told.wait(TIMEOUT)


async def _awaited(told: threading.Event, _: object) -> None:
    told.set()


def test_who_reads_a_topic_is_told_once_there_is_a_thread(scarce: Scarcity) -> None:
    told = threading.Event()
    with pair() as (publisher, reader):
        publisher.on_readers("t", lambda names: told.set())
        scarce.append("pzc-callbacks")
        reader.subscribe(publisher.rep_endpoint, "t", policy=block())
        assert scarce.refused.wait(TIMEOUT)
        scarce.clear()
        assert told.wait(TIMEOUT)


def test_what_is_closed_aside_is_closed_once_there_is_a_thread(scarce: Scarcity) -> None:
    closed = threading.Event()
    with Agent(discovery=False) as agent:
        scarce.append("pzc-close")
        aside(agent.loop, closed.set)
        assert scarce.refused.wait(TIMEOUT)
        scarce.clear()
        assert closed.wait(TIMEOUT)


@pytest.mark.parametrize("transport", ["inproc", "unix", "tcp"])
@pytest.mark.parametrize("thread", ["pzc-callbacks", "pzc-async"])
def test_a_callback_for_which_there_was_no_thread_is_called_once_there_is_one(
    scarce: Scarcity, thread: str, transport: Any
) -> None:
    told = threading.Event()
    callback = partial(_awaited, told) if thread == "pzc-async" else lambda _: told.set()
    with pair() as (publisher, reader):
        reader.subscribe(publisher.rep_endpoint, "t", callback, policy=block(), transport=transport)
        scarce.append(thread)
        publisher.publish("t", 1)
        assert scarce.refused.wait(TIMEOUT)
        scarce.clear()
        assert told.wait(TIMEOUT)


class Polled:
    """A value; and a call that waits until it may end."""

    voltage = 1.0

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def wait(self) -> bool:
        """Wait."""
        return self.may_end.wait(TIMEOUT)

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


def test_a_server_without_a_thread_to_poll_with_says_what_to_do(scarce: Scarcity) -> None:
    scarce.append("pzc-poll")
    with pytest.raises(LocalLimit, match="ulimit -u"):
        Server(Polled(), poll={"voltage": 1.0}, discovery=False)


def test_an_async_method_for_which_there_is_no_thread_is_refused_with_what_to_do(scarce: Scarcity) -> None:
    with served(Polled()) as proxy:
        scarce.append("pzc-async")
        with pytest.raises(Refused, match="ulimit -u"):
            proxy.awaited()


def test_what_is_awaited_without_a_thread_for_it_says_what_to_do(scarce: Scarcity) -> None:
    scarce.append("pzc-aio")
    with pytest.raises(LocalLimit, match="ulimit -u"):
        asyncio.run(in_thread(bool))


def test_many_calls_that_nobody_waits_for_go_on_without_a_thread_that_makes_them_quick(
    scarce: Scarcity,
) -> None:
    polled = Polled()
    with served(polled) as proxy:
        scarce.append("pzc-client")
        calls = [proxy.wait.future() for _ in range(3 * WORTH_IT)]
        polled.may_end.set()
        assert [call.result(TIMEOUT) for call in calls] == [True] * len(calls)


def test_a_call_to_a_server_that_was_replaced_is_made_once_there_is_a_thread(scarce: Scarcity) -> None:
    with Agent(discovery=False) as other:
        with Agent(discovery=False) as first:
            endpoint = first.rep_endpoint
            peer = other.peer(endpoint)
        with Agent(endpoint, discovery=False):
            scarce.append("pzc-client")
            reply = other.exchange_later(peer, "echo", TIMEOUT)
            assert scarce.refused.wait(TIMEOUT)
            scarce.clear()
            assert reply.result(TIMEOUT).content == "echo"


def test_an_agent_that_is_told_to_stop_does_so_once_there_is_a_thread(scarce: Scarcity) -> None:
    with Agent(discovery=False) as agent, Agent(discovery=False) as other:
        scarce.extend(["pzc-stop", "pzc-close"])
        other.request(agent.rep_endpoint, "stop", TIMEOUT)
        assert scarce.refused.wait(TIMEOUT)
        scarce.clear()
        assert agent.join(TIMEOUT)


def test_a_process_whose_end_no_thread_could_wait_for_is_ended(scarce: Scarcity) -> None:
    scarce.append("pzc-Fraction")
    with pytest.raises(LocalLimit, match="ulimit -u"):
        Server.serve_in_process(Fraction)
    assert multiprocessing.active_children() == []
