"""Processes that are killed while children that they forked live on, with copies of all that they had open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import queue
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import pzc
from pzc import Agent, AgentClosed, PeerLost, Protocol, Server

from tests.contract.rigs import families
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, counts, in_thread, proxied, run_in_fork, until
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.families import every_how, family
from tests.contract.rigs.hanging_up import hang_up, sockets
from tests.contract.rigs.pairs import LONG, pair, read, wait_until
from tests.contract.rigs.peers import run_threads

patient = families.patient


@pytest.mark.slow
@every_how
def test_the_lock_of_a_killed_client_is_free_though_it_left_a_child(how: str, patient: None) -> None:
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        with family("client", how, server.rep_endpoint) as client:
            client.fork()
            assert server.describe()["lock"] is not None
            client.kill()
            wait_until(lambda: server.describe()["lock"] is None)


@pytest.mark.slow
@every_how
def test_the_endpoints_of_a_killed_server_are_free_though_it_left_a_child(how: str) -> None:
    endpoints = free_endpoint(), free_endpoint()
    with family("server", how, *endpoints) as server:
        server.fork()
        with proxied(server.told, protocol=Protocol(KEY)) as proxy:
            assert proxy.count() == 1
        server.kill()
        with Agent(*endpoints, protocol=Protocol(KEY)) as again, Agent(protocol=Protocol(KEY)) as asking:
            assert asking.request(again.rep_endpoint, "echo", TIMEOUT) == "echo"


@pytest.mark.needs("fork")
def test_a_forked_child_has_no_connection_of_its_parent_and_the_parent_keeps_all() -> None:
    with pair() as (publisher, reader):
        ports = {int(end.rpartition(":")[2]) for end in (publisher.rep_endpoint, publisher.pub_endpoint)}
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        assert reader.request(publisher.rep_endpoint, "echo", TIMEOUT) == "echo"

        def look() -> None:
            for found in sockets():
                if found.family == socket.AF_UNIX:
                    with contextlib.suppress(OSError):
                        assert not bytes(found.getsockname() or b"").startswith(b"\0pzc/")
                elif found.family == socket.AF_INET:
                    assert found.getsockname()[1] not in ports

        assert run_in_fork(look) == 0
        publisher.publish("t", 1)
        assert read(subscription, 1) == [1]
        assert subscription.transport == "unix"
        assert reader.request(publisher.rep_endpoint, "echo", TIMEOUT) == "echo"


def test_a_forked_child_keeps_the_sockets_that_are_no_business_of_this_package() -> None:
    with pair(), socket.create_server(("127.0.0.1", 0)) as mine, socket.socket(socket.AF_UNIX) as named:
        named.bind("\0a name of a test")
        ours, theirs = socket.socketpair()
        with ours, theirs, socket.create_connection(mine.getsockname()) as connected:

            def use() -> None:
                for each in (mine, named, connected):
                    each.getsockname()
                theirs.sendall(b"from the child")

            assert run_in_fork(use) == 0
            assert ours.recv(100) == b"from the child"


@pytest.mark.needs("fork")
def test_a_forked_child_that_closes_what_it_inherited_closes_nothing_of_its_own() -> None:
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport="unix") as proxy:
            assert proxy.count() == 1

            def use() -> None:
                with contextlib.ExitStack() as own:
                    mine = [own.enter_context(open(os.devnull)) for _ in range(100)]
                    pzc.close(proxy)
                    for each in mine:
                        os.fstat(each.fileno())

            assert run_in_fork(use) == 0
            assert proxy.count() == 2


@pytest.mark.needs("fork")
def test_a_child_that_forks_while_connections_come_and_go_has_none_of_them() -> None:
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        stop, errors = threading.Event(), queue.SimpleQueue[BaseException]()

        def knock() -> None:
            while not stop.is_set():
                try:
                    with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport="unix") as proxy:
                        proxy.count()
                except BaseException as exc:
                    errors.put(exc)
                    return

        def look() -> None:
            for found in sockets():
                if found.family == socket.AF_UNIX:
                    assert not bytes(found.getsockname() or b"").startswith(b"\0pzc/")

        threads = [threading.Thread(target=knock) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert [run_in_fork(look) for _ in range(20)] == [0] * 20
        finally:
            stop.set()
            for thread in threads:
                thread.join(TIMEOUT)
        assert errors.empty(), errors.get()


@pytest.mark.slow
@every_how
def test_a_reader_hears_of_its_killed_publisher_which_left_a_child(how: str, patient: None) -> None:
    with Agent(protocol=Protocol(KEY)) as reader, family("server", how) as publisher:
        reader.subscribe(publisher.told, "t", policy=LONG, transport="unix")
        publisher.fork()
        assert reader.statistics()["subscriptions"][0]["transport"] == "unix"
        publisher.kill()
        wait_until(lambda: reader.statistics()["subscriptions"][0]["link"]["transport"] == "none")


@pytest.mark.slow
@every_how
def test_a_publisher_hears_of_its_killed_reader_which_left_a_child(how: str, patient: None) -> None:
    with Server(Gate(), name="publisher", protocol=Protocol(KEY)) as publisher:
        with family("reader", how, publisher.rep_endpoint) as reader:
            reader.fork()
            assert publisher.statistics()["links"]["links"][0]["transport"] == "unix"
            reader.kill()
            wait_until(lambda: not publisher.statistics()["links"]["links"])
            wait_until(lambda: publisher.statistics()["calls"]["connections"] == 0)


@pytest.mark.slow
@every_how
def test_a_call_hears_of_its_killed_server_which_left_a_child(how: str, timings: Callable[..., None]) -> None:
    timings(call_recovery=0.3)
    with family("server", how) as server:
        with proxied(server.told, protocol=Protocol(KEY), timeout=3600.0, transport="unix") as proxy:
            assert proxy.count() == 1
            server.fork()
            thread, outcome = in_thread(proxy.wait)
            wait_until(lambda: pzc.running(proxy))
            server.kill()
            thread.join(TIMEOUT)
            assert isinstance(outcome[0], PeerLost)


def test_stopping_in_a_child_what_was_the_parents_does_not_end_the_parents() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")

        def end() -> None:
            subscription.close()
            for each in (publisher, reader):
                each.stop()

        assert run_in_fork(end) == 0
        publisher.publish("t", 1)
        assert read(subscription, 1) == [1]
        assert subscription.transport == "unix"


@pytest.mark.needs("fork")
def test_nothing_that_is_the_parents_is_waited_for_in_a_child() -> None:
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server, Agent(protocol=Protocol(KEY)) as reader:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
            subscription, merged = (reader.subscribe(each, "t") for each in (server.rep_endpoint, "nobody*"))
            future = proxy.wait.future()
            assert gate.entered.wait(TIMEOUT)

            async def next_of_all() -> None:
                for each in (subscription, merged):
                    with pytest.raises(AgentClosed, match="belongs to the parent"):
                        await anext(each)

            def child() -> None:
                for wait in (
                    subscription.recv, merged.recv, partial(next, subscription), future.result,
                    future.exception, server.join, server.serve_forever,
                ):  # fmt: skip
                    with pytest.raises(AgentClosed, match="belongs to the parent"):
                        wait()
                asyncio.run(next_of_all())

            assert run_in_fork(child) == 0
            gate.opened.set()
            assert future.result(TIMEOUT) == "through"
            server.publish("t", 1)
            assert read(subscription, 1) == [1]


@pytest.mark.needs("fork")
def test_a_result_that_came_before_a_fork_is_there_in_the_child() -> None:
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy:
            future = proxy.count.future()
            assert future.result(TIMEOUT) == 1

            def child() -> None:
                assert future.result() == 1

            assert run_in_fork(child) == 0


@pytest.mark.needs("fork")
def test_a_watch_of_the_parent_says_so_in_a_child() -> None:
    with pzc.watch(pattern="nobody") as watch:

        def child() -> None:
            with pytest.raises(AgentClosed, match="belongs to the parent"):
                watch.recv()
            watch.close()

        assert run_in_fork(child) == 0
        assert not watch.closed


@pytest.mark.needs("fork")
def test_a_loan_that_was_open_at_a_fork_is_published_by_the_parent_alone() -> None:
    with pair() as (publisher, reader):
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG)
        heard = reader.subscribe(publisher.rep_endpoint, "t", transport="tcp")
        loan = publisher.loan("t", 100_000, int)
        loan.__enter__()[:] = 7

        def child() -> None:
            with pytest.raises(AgentClosed, match="belongs to the parent"):
                loan.__exit__(None, None, None)

        assert run_in_fork(child) == 0
        loan.__exit__(None, None, None)
        for each in (subscription, heard):
            assert (each.recv(TIMEOUT).content == 7).all()


def test_a_connection_that_breaks_while_its_call_runs_costs_nothing() -> None:
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport="unix") as proxy:
            thread, outcome = in_thread(proxy.wait)
            assert gate.entered.wait(TIMEOUT)
            assert hang_up() >= 1
            gate.opened.set()
            thread.join(TIMEOUT)
            assert outcome == ["through"]
        assert gate.calls == 1


def test_a_connection_that_breaks_while_its_call_waits_runs_it_once() -> None:
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport="unix") as proxy:
            first, _ = in_thread(proxy.wait)
            assert gate.entered.wait(TIMEOUT)
            second, outcome = in_thread(proxy.count)
            wait_until(lambda: server.statistics()["calls"]["waiting"] == 1)
            hang_up()
            gate.opened.set()
            for thread in (first, second):
                thread.join(TIMEOUT)
        assert outcome == [2]
        assert gate.calls == 2


def test_a_call_that_runs_is_waited_for_after_its_connection_broke_for_longer_than_recovery_takes(
    timings: Callable[..., None],
) -> None:
    timings(call_recovery=0.5, result_wait=0.02)
    gate = Gate()
    with Server(gate, protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT, transport="unix") as proxy:
            thread, outcome = in_thread(proxy.wait)
            assert gate.entered.wait(TIMEOUT)
            asked = counts(server)["requests"]
            hang_up()
            until(lambda: counts(server)["requests"] > asked + 40)
            gate.opened.set()
            thread.join(TIMEOUT)
            assert outcome == ["through"]


def test_connections_that_nobody_uses_any_more_are_closed_but_for_one(timings: Callable[..., None]) -> None:
    timings(connection_idle=0.1)
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport="unix") as proxy:
            run_threads(*[lambda: [proxy.count() for _ in range(50)]] * 4)
            until(lambda: server.statistics()["calls"]["connections"] == 1)
            assert proxy.count() == 201


STAYING: dict[str, Callable[[Server, pzc.Proxy], Any]] = {
    "Server": lambda server, proxy: server,
    "Subscription": lambda server, proxy: server.subscribe(server.rep_endpoint, "t"),
    "Merged": lambda server, proxy: server.subscribe("nobody*", "t"),
    "Watch": lambda server, proxy: pzc.watch(pattern="nobody"),
    "PendingCall": lambda server, proxy: proxy.count.future(),
    "Lock": lambda server, proxy: pzc.lock(proxy),
    "Batch": lambda server, proxy: pzc.batch(proxy),
    "Signal": lambda server, proxy: pzc.Signal(),
}


@pytest.mark.parametrize("kind", STAYING)
def test_what_stays_in_its_process_says_so_when_it_is_pickled(kind: str) -> None:
    with (
        Server(Gate(), protocol=Protocol(KEY)) as server,
        proxied(server.rep_endpoint, protocol=Protocol(KEY), timeout=TIMEOUT) as proxy,
        contextlib.ExitStack() as stack,
    ):
        staying = STAYING[kind](server, proxy)
        if kind in ("Lock", "Watch"):
            stack.enter_context(staying)
        with pytest.raises(
            TypeError, match=f"this {kind} stays in the process that made it: .* send a Proxy"
        ):
            pickle.dumps(staying)
